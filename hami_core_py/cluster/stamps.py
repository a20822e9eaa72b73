"""Node annotations written in the background: for stamps that no decision waits for."""

import logging

from hami_core_py.cluster.background import Worker
from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.cluster.nodes import patch_annotations

log = logging.getLogger(__name__)


class Stamps:
    """Writes annotations of nodes on a thread of its own; one that cannot be written is logged and left to the next."""

    def __init__(self, client: Client, *, queue_length: int = 10_000) -> None:
        self._client = client
        self._worker = Worker(self._write, "stamps", most=queue_length)

    def write(self, node: str, key: str, text: str) -> None:
        """Queue one annotation; returns at once. When too many wait it is left out."""
        if not self._worker.take((node, key, text)):
            log.warning("annotation not written", extra={"node": node, "key": key, "problem": "too many wait"})

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """Write what is queued, within the time, and end the thread."""
        self._worker.stop(timeout_seconds)

    def _write(self, stamp: tuple[str, str, str]) -> None:
        node, key, text = stamp
        try:
            patch_annotations(self._client, node, {key: text})
        except ApiError as problem:
            log.warning("annotation not written", extra={"node": node, "key": key, "problem": str(problem)})
