"""Which container directories are mounted somewhere, as the kernel tells."""

import threading
import time
from pathlib import Path


class Mounts:
    """Looks into the mount tables of all processes; what it saw counts for a moment.

    A process that sees only its own PID namespace cannot know, nor can one that may not look into some process; it says so.

    :param proc: the proc file system of the host. :param fresh_seconds: how long an answer counts.
    """

    def __init__(self, proc: Path = Path("/proc"), *, fresh_seconds: float = 1.0) -> None:
        self._proc, self._fresh = proc, fresh_seconds
        self._lock = threading.Lock()
        self._words: frozenset[str] = frozenset()
        self._saw_all = False
        self._at = float("-inf")

    def has(self, name: str) -> bool | None:
        """Whether a directory of this name, which must be unique, is mounted anywhere; ``None``: it cannot be known."""
        with self._lock:
            self._look()
            if name in self._words:
                return True
            return False if self._saw_all else None

    def sees_all(self) -> bool:
        """Whether no process of the host is hidden from us."""
        with self._lock:
            self._look()
            return self._saw_all

    def _look(self) -> None:
        if time.monotonic() - self._at > self._fresh:
            (self._words, self._saw_all), self._at = self._read(), time.monotonic()

    def _read(self) -> tuple[frozenset[str], bool]:
        """All words of the paths that mounts show, each mount namespace read once; and whether none was hidden from us."""
        words: set[str] = set()
        namespaces: set[str] = set()
        saw_all = self._sees_host()
        for process in self._proc.glob("[1-9]*"):
            if not process.name.isdigit():
                continue
            try:
                namespace = str((process / "ns" / "mnt").readlink())
                if namespace not in namespaces:
                    for line in (process / "mountinfo").read_text(errors="replace").splitlines():
                        # The fourth field is the mounted directory, within its own file system.
                        words.update(line.split(" ", 4)[3].split("/"))
                    namespaces.add(namespace)
            except (FileNotFoundError, ProcessLookupError, IndexError):
                continue  # it has ended
            except OSError:
                saw_all = False
        return frozenset(words), saw_all

    def _sees_host(self) -> bool:
        """Whether the processes here are those of the host: its kernel threads show only in the first namespace."""
        try:
            return (self._proc / "2" / "comm").read_text().strip() == "kthreadd"
        except OSError:
            return False
