"""The feedback's own rhythm: containers are paused and let go faster than anything else is measured."""

import atexit
import logging
import threading
import time
from collections.abc import Callable, Sequence

from hami_core_py.models.allocations import Allocation

log = logging.getLogger(__name__)

PERIOD_SECONDS = 5.0
FORGOTTEN_SECONDS = 120.0
"""Without news of the containers for so long, the rounds end and nobody stays paused."""


class Rounds:
    """Goes round while it is told who is there.

    :param go: one round over all containers. :param release: lets all go that are paused.
    """

    def __init__(
        self,
        go: Callable[[Sequence[Allocation]], None],
        release: Callable[[Sequence[Allocation]], None],
        *,
        period_seconds: float = PERIOD_SECONDS,
        forgotten_seconds: float = FORGOTTEN_SECONDS,
    ) -> None:
        self._go, self._release = go, release
        self._period, self._forgotten = period_seconds, forgotten_seconds
        self._lock = threading.Lock()
        self._allocations: Sequence[Allocation] = ()
        self._told_at = float("-inf")
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, allocations: Sequence[Allocation]) -> None:
        """Who is there now; the first time, and after a long silence, the rounds begin."""
        with self._lock:
            self._allocations, self._told_at = allocations, time.monotonic()
            if self._thread is None and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name="feedback", daemon=True)
                self._thread.start()
                atexit.register(self.end)

    def end(self) -> None:
        """No more rounds; nobody stays paused."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(self._period)

    def _run(self) -> None:
        while not self._ended.wait(self._period):
            with self._lock:
                allocations, silence = self._allocations, time.monotonic() - self._told_at
                if silence > self._forgotten:
                    self._thread = None
                    break
            self._guarded(self._go, allocations)
        atexit.unregister(self.end)
        self._guarded(self._release, self._allocations)

    def _guarded(self, work: Callable[[Sequence[Allocation]], None], allocations: Sequence[Allocation]) -> None:
        try:
            work(allocations)
        except Exception:
            log.exception("no feedback this time")
