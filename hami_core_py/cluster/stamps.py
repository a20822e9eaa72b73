"""Node annotations written in the background: for stamps that no decision waits for."""

import logging
import queue
import threading

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.cluster.nodes import patch_annotations

log = logging.getLogger(__name__)


class Stamps:
    """Writes annotations of nodes on a thread of its own; one that cannot be written is logged and left to the next."""

    def __init__(self, client: Client, *, queue_length: int = 10_000) -> None:
        self._client = client
        self._queue: queue.Queue[tuple[str, str, str] | None] = queue.Queue(queue_length)
        self._thread = threading.Thread(target=self._run, name="stamps", daemon=True)
        self._thread.start()

    def write(self, node: str, key: str, text: str) -> None:
        """Queue one annotation; returns at once. When too many wait it is left out."""
        try:
            self._queue.put_nowait((node, key, text))
        except queue.Full:
            log.warning("annotation not written", extra={"node": node, "key": key, "problem": "too many wait"})

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """Write what is queued, within the time, and end the thread."""
        try:
            self._queue.put(None, timeout=timeout_seconds)
        except queue.Full:
            return
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while (stamp := self._queue.get()) is not None:
            node, key, text = stamp
            try:
                patch_annotations(self._client, node, {key: text})
            except ApiError as problem:
                log.warning("annotation not written", extra={"node": node, "key": key, "problem": str(problem)})
            except Exception:
                log.exception("annotation not written", extra={"node": node, "key": key})
