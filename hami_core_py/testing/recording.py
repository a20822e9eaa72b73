"""Watching what a hook does beside answering: which fields it reads, what it opens, what it changes."""

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

from hami_core_py.models.answers import Candidate

OPENS = ("open", "os.listdir", "os.scandir", "socket.", "subprocess.", "os.system", "os.posix_spawn", "ctypes.dlopen")
"""Audit events, or beginnings of them, that reach beyond the process."""

_watched = threading.local()
_installed = threading.Event()


class RecordingCandidate:
    """A candidate that remembers which of its fields were read."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._candidate, name)
        self.read.add(name)
        return value


@contextmanager
def watch_opens() -> Iterator[list[str]]:
    """The audit events of this thread, while inside, that open a file, a socket, a process or a library."""
    if not _installed.is_set():
        _installed.set()
        sys.addaudithook(_audit)  # cannot be removed again; it is idle while nothing is watched
    seen: list[str] = []
    _watched.events = seen
    try:
        yield seen
    finally:
        _watched.events = None


def frozen(value: Any) -> Any:
    """A value that equals another only if everything within was the same: to compare before and after."""
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value), tuple(frozen(getattr(value, f.name)) for f in fields(value)))
    if isinstance(value, Mapping):
        return ("mapping", tuple(sorted(((repr(k), frozen(v)) for k, v in value.items()), key=lambda item: item[0])))
    if isinstance(value, str | bytes):
        return value
    if isinstance(value, set | frozenset):
        return ("set", tuple(sorted(map(repr, value))))
    if isinstance(value, Sequence):
        return ("sequence", tuple(frozen(one) for one in value))
    return value


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    events = getattr(_watched, "events", None)
    if events is not None and event.startswith(OPENS):
        events.append(f"{event} {arguments[:1]!r}")
