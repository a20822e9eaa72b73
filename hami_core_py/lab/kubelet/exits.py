"""Hearing of the end of processes that are not our children."""

from __future__ import annotations

import contextlib
import os
import selectors
import threading
from collections.abc import Callable


class ExitWatcher:
    """One thread that waits for any number of processes and calls back when one is gone."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe()
        self._new: list[tuple[int, Callable[[], None]]] = []
        self._lock = threading.Lock()
        self._is_stopping = False
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="container exits", daemon=True)
        self._thread.start()

    def watch(self, pid: int, then: Callable[[], None]) -> None:
        """Call ``then`` once the process has ended, at once if it has already."""
        with self._lock:
            if self._is_stopping:
                return
            self._new.append((pid, then))
            os.write(self._wake_write, b"1")

    def stop(self) -> None:
        """Stop waiting."""
        with self._lock:
            self._is_stopping = True
            os.write(self._wake_write, b"1")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        self._selector.close()
        os.close(self._wake_write)

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._wake_read:
                    os.read(self._wake_read, 1)
                    continue
                self._selector.unregister(key.fd)
                os.close(key.fd)
                key.data()
            with self._lock:
                if self._is_stopping:
                    return
                new, self._new = self._new, []
            for pid, then in new:
                self._register(pid, then)

    def _register(self, pid: int, then: Callable[[], None]) -> None:
        descriptor = -1
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
        if descriptor < 0:
            then()
        else:
            self._selector.register(descriptor, selectors.EVENT_READ, then)
