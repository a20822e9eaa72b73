"""Following the pods that are bound to one node."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from hami_core_py.lab.kubelet.api import Api, ApiError, Json

WATCH_SECONDS = 60
RETRY_SECONDS = 0.5

log = logging.getLogger(__name__)


class PodWatch:
    """Lists and watches from a thread of its own; goes on after every kind of interruption."""

    def __init__(
        self, api: Api, node: str, *, on_list: Callable[[Sequence[Json]], None], on_event: Callable[[str, Json], None]
    ) -> None:
        """``on_list`` hears of complete lists, ``on_event`` of (ADDED, MODIFIED or DELETED, pod)."""
        self._api, self._node = api, node
        self._on_list, self._on_event = on_list, on_event
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, once the API's watches are closed."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        version = ""
        selector = {"fieldSelector": f"spec.nodeName={self._node}"}
        while not self._stopping.is_set():
            try:
                if not version:
                    found = self._api.get("/api/v1/pods", **selector)
                    self._on_list([pod for pod in found.get("items") or () if self._is_ours(pod)])
                    version = found["metadata"]["resourceVersion"]
                for event in self._api.watch("/api/v1/pods", WATCH_SECONDS, resourceVersion=version, **selector):
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK" and self._is_ours(event["object"]):
                        self._on_event(event["type"], event["object"])
            except ApiError as error:
                if error.status == 410:
                    version = ""
                log.warning("pod watch interrupted", extra={"node": self._node, "error": str(error)})
                self._stopping.wait(RETRY_SECONDS)
            except Exception:
                log.exception("pod watch failed, listing again", extra={"node": self._node})
                version = ""
                self._stopping.wait(RETRY_SECONDS)

    def _is_ours(self, pod: Json) -> bool:
        return bool(pod["spec"].get("nodeName") == self._node)
