"""Work that nobody waits for: done in order by a thread of its own."""

import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Worker(Generic[T]):
    """Does one thing after another on a thread of its own. Whoever hands it something never waits for it.

    :param work: is called with each thing; when it fails that is logged, and the next thing follows.
    :param name: of the thread.
    :param most: things that may wait; what comes beyond is not taken.
    """

    def __init__(self, work: Callable[[T], None], name: str, *, most: int = 1000) -> None:
        self._work, self._name = work, name
        # A tuple of one, so that the end can be told from whatever a thing may be.
        self._queue: queue.Queue[tuple[T] | None] = queue.Queue(most)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def take(self, thing: T) -> bool:
        """Hand it something; returns at once. :returns: whether it was taken; ``False``: too much waits already."""
        try:
            self._queue.put_nowait((thing,))
        except queue.Full:
            return False
        return True

    def wait(self) -> None:
        """Until everything taken so far is done."""
        self._queue.join()

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """Do what waits, within the time, and end the thread."""
        try:
            self._queue.put(None, timeout=timeout_seconds)
        except queue.Full:
            return
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while (waiting := self._queue.get()) is not None:
            try:
                self._work(waiting[0])
            except Exception:
                log.exception("background work failed", extra={"worker": self._name})
            finally:
                self._queue.task_done()
