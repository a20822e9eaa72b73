"""Which container directories are mounted somewhere, as the kernel tells."""

import threading
import time
from pathlib import Path


class Mounts:
    """Looks into the mount tables of all processes; what it saw counts for a moment.

    A process that sees only its own PID namespace cannot know, and says so.

    :param proc: the proc file system of the host. :param fresh_seconds: how long an answer counts.
    """

    def __init__(self, proc: Path = Path("/proc"), *, fresh_seconds: float = 1.0) -> None:
        self._proc, self._fresh = proc, fresh_seconds
        self._lock = threading.Lock()
        self._words: frozenset[str] | None = None
        self._at = float("-inf")

    def has(self, name: str) -> bool | None:
        """Whether a directory of this name, which must be unique, is mounted anywhere; ``None``: it cannot be known."""
        with self._lock:
            if time.monotonic() - self._at > self._fresh:
                self._words, self._at = self._read(), time.monotonic()
            return None if self._words is None else name in self._words

    def _read(self) -> frozenset[str] | None:
        """All words of the paths that mounts show, each mount namespace read once."""
        if not self._sees_host():
            return None
        words: set[str] = set()
        namespaces: set[str] = set()
        for process in self._proc.iterdir():
            if not process.name.isdigit():
                continue
            try:
                namespace = str((process / "ns" / "mnt").readlink())
                if namespace not in namespaces:
                    namespaces.add(namespace)
                    for line in (process / "mountinfo").read_text().splitlines():
                        # The fourth field is the mounted directory, within its own file system.
                        words.update(line.split(" ", 4)[3].split("/"))
            except (OSError, IndexError):
                continue  # the process has ended, or is not ours to see
        return frozenset(words)

    def _sees_host(self) -> bool:
        """Whether the processes here are those of the host: its kernel threads show only in the first namespace."""
        try:
            return (self._proc / "2" / "comm").read_text().strip() == "kthreadd"
        except OSError:
            return False
