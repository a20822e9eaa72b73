"""Files by which a lab that was left running is found again: who supervises it, what runs, how far it is."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def default_directory() -> Path:
    """One lab per user; a short path, because Unix sockets live below it."""
    return Path(f"/tmp/hami-lab-{os.getuid()}")  # noqa: S108


class LabState:
    """The files of one lab's directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kubeconfig = directory / "kubeconfig"
        self._supervisor = directory / "supervisor.pid"
        self._progress = directory / "progress.log"
        self._processes = directory / "processes.json"
        self._ready = directory / "ready"

    def begin(self) -> None:
        """Say that this process supervises the lab."""
        self._supervisor.write_text(str(os.getpid()))

    def tell(self, line: str) -> None:
        """Add a line of progress."""
        with self._progress.open("a") as log:
            log.write(line + "\n")

    def ready(self, processes: Mapping[str, int | None]) -> None:
        """Say that the lab is up, and which processes it has."""
        self._processes.write_text(json.dumps(dict(processes)))
        self._ready.touch()

    def progress(self) -> list[str]:
        """Lines told so far."""
        return self._progress.read_text().splitlines() if self._progress.exists() else []

    def is_ready(self) -> bool:
        """Whether it said that it is up."""
        return self._ready.exists()

    def pid(self) -> int | None:
        """Process id of the supervisor that began last; it may have ended."""
        text = self._supervisor.read_text().strip() if self._supervisor.exists() else ""
        return int(text) if text.isdigit() else None

    def is_running(self) -> bool:
        """Whether that supervisor runs; a stranger that has its number by now does not count."""
        pid = self.pid()
        return pid is not None and _is(pid, b"hami_core_py.lab.supervisor")

    def describe(self) -> dict[str, Any]:
        """All of it, for people and programs."""
        known: dict[str, int | None] = json.loads(self._processes.read_text()) if self._processes.exists() else {}
        alive = {name: pid if pid and _is(pid, b"hami_core_py") else None for name, pid in known.items()}
        return {
            "running": self.is_running(),
            "ready": self.is_ready(),
            "directory": str(self.directory),
            "kubeconfig": str(self.kubeconfig),
            "processes": alive,
        }


def container_env(node_directory: Path, pod: Mapping[str, Any], container: str) -> dict[str, str]:
    """Environment of a container as its process received it; empty while it has not started."""
    config = node_directory / "pods" / pod["metadata"]["uid"] / "containers" / container / "config.json"
    if not config.exists():
        return {}
    env: dict[str, str] = json.loads(config.read_text()).get("env") or {}
    return env


def _is(pid: int, word: bytes) -> bool:
    try:
        return word in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
