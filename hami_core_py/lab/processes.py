"""The lab's programs as processes of this machine: each with a log file, started, paused, killed and ended by pid."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hami_core_py.errors import HamiError
from hami_core_py.lab.loopback import answers

START_SECONDS = 90.0
"""A dozen programs start at once; a busy machine with two cores needs its time."""


class LabError(HamiError):
    """The lab could not do what it was asked; the text names the log to read."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """How to run one program of the lab.

    :ivar name: unique in the lab, such as ``device-plugin@node-a``.
    :ivar module: Python module to run with ``-m``. :ivar ready_url: answers 200 when it is ready; empty: not asked.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ready_url: str = ""


class LabProcess:
    """One program, running or not. Its log survives restarts."""

    def __init__(self, program: Program, logs: Path) -> None:
        self.program = program
        self.log = logs / f"{program.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start it unless it runs."""
        if self.pid is not None:
            return
        command = [sys.executable, "-m", self.program.module, *self.program.arguments]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.program.env}
            )

    def pause(self) -> None:
        """Stop it in its tracks (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it without a chance to clean up (SIGKILL)."""
        self._signal(signal.SIGKILL)
        if self._process:
            self._process.wait()

    def ask_to_end(self) -> None:
        """Ask it to end (SIGTERM), paused or not; returns at once."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)

    def end(self, timeout_seconds: float = 15.0) -> int | None:
        """Ask it to end (SIGTERM), then insist; its exit status, ``None`` when it did not run."""
        if self.pid is None or self._process is None:
            return None
        self.ask_to_end()
        return self.wait_end(timeout_seconds)

    def wait_end(self, timeout_seconds: float = 15.0) -> int | None:
        """Wait for the end that was asked for, then insist; its exit status, ``None`` when it never ran."""
        if self._process is None:
            return None
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.returncode

    def wait_ready(self, timeout_seconds: float = START_SECONDS) -> None:
        """Wait until its probe answers. :raises LabError: it ended, or did not become ready in time."""
        if not self.program.ready_url:
            return
        until(
            lambda: self._alive() and answers(self.program.ready_url),
            timeout_seconds,
            f"{self.program.name} did not become ready; see {self.log}",
        )

    def _alive(self) -> bool:
        if self.pid is None:
            raise LabError(f"{self.program.name} ended at once; see {self.log}: {last_line(self.log)}")
        return True

    def _signal(self, number: int) -> None:
        if (pid := self.pid) is not None:
            os.kill(pid, number)


def until(holds: Callable[[], bool], timeout_seconds: float, problem: str, *, interval_seconds: float = 0.05) -> None:
    """Wait until something holds. :raises LabError: with this problem, when it does not in time."""
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        if time.monotonic() > deadline:
            raise LabError(problem)
        time.sleep(interval_seconds)


def last_line(log: Path) -> str:
    """The last line that a program wrote."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:500] if lines else "it said nothing"
