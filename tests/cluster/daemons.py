"""Background processes with a log each, and waiting for things to become true."""

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from hami_core_py.cluster.errors import ApiError

T = TypeVar("T")
Argument = str | os.PathLike[str]

PATIENCE_SECONDS = 120.0
"""A dozen programs share two busy cores. Less than the five minutes after which kube-scheduler tries a refused pod anyway."""


class Daemon:
    """One program, running or not. Its log survives restarts."""

    def __init__(self, logs: Path, name: str) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, command: Sequence[Argument], env: Mapping[str, str] | None = None) -> None:
        """Start it unless it runs. :param env: added to our own environment."""
        if self.pid is not None:
            return
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [os.fspath(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )

    def send(self, number: signal.Signals) -> None:
        """Send a signal if it runs."""
        if (pid := self.pid) is not None:
            os.kill(pid, number)

    def stop(self, *, by: signal.Signals = signal.SIGTERM, patience_seconds: float = 10.0) -> int | None:
        """End it, paused or not: a signal, and SIGKILL when patience is over; its exit status."""
        if self._process is None:
            return None
        self.send(by)
        self.send(signal.SIGCONT)
        try:
            return self._process.wait(patience_seconds)
        except subprocess.TimeoutExpired:
            self.send(signal.SIGKILL)
            return self._process.wait()

    def pause(self) -> None:
        """Stop it in its tracks."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a chance to clean up."""
        self.stop(by=signal.SIGKILL)

    def failure(self) -> str:
        """Why it does not run, with the end of its log; empty while it runs."""
        return "" if self.pid else f"{self.name} has ended:\n{self.tail()}"

    def tail(self, lines: int = 15) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


def eventually(
    what: str,
    probe: Callable[[], T],
    seconds: float = PATIENCE_SECONDS,
    *,
    daemon: Daemon | None = None,
    every: float = 0.05,
) -> T:
    """Ask until the answer is true, and return it. Errors of the API count as "not yet".

    :param daemon: when it ends, waiting ends. :raises AssertionError: it never was.
    """
    deadline, last = time.monotonic() + seconds, ""
    while True:
        try:
            if answer := probe():
                return answer
        except (ApiError, OSError) as problem:
            last = f"; last error: {problem}"
        if daemon is not None and (failure := daemon.failure()):
            raise AssertionError(failure)
        if time.monotonic() > deadline:
            raise AssertionError(f"not seen within {seconds:g} s: {what}{last}")
        time.sleep(every)


def unused(directory: Path) -> Path:
    """This folder, or when an earlier attempt of a test has left it, one beside it: nothing of that attempt is taken up."""
    beside = (directory.with_name(f"{directory.name}-{number}") for number in itertools.count(2))
    return directory if not directory.exists() else next(path for path in beside if not path.exists())


def keep_logs(folder: Path, kept: Path) -> None:
    """Copy the logs of all clusters and nodes below a folder, each below the name of its own folder."""
    for logs in (*folder.glob("*/logs"), *folder.glob("*/*/logs")):
        shutil.copytree(logs, kept / logs.parent.relative_to(folder), dirs_exist_ok=True)
