"""The pods bound to this node, kept current by a watch, with their allocation records read once."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.cluster.pods import PODS, pods_of_node
from hami_core_py.cluster.watch import Watcher
from hami_core_py.codecs.records import read_record
from hami_core_py.decisions.claims import ENDED
from hami_core_py.errors import RecordError
from hami_core_py.models.allocations import PodRecord
from hami_core_py.models.families import Family
from hami_core_py.models.views import PodView, pod_view

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPod:
    """A pod bound to this node.

    :ivar record: ``None``: it has none. :ivar problem: why its record cannot be read; empty when it can.
    """

    view: PodView
    record: PodRecord | None = None
    problem: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether its containers will not run again."""
        return self.view.phase in ENDED


class LocalPods:
    """Pods of one node.

    :param trust_v210: whether unsigned v2.10 records count.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        families: Mapping[str, Family],
        *,
        trust_v210: bool = True,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._client, self._node, self._families, self._trust = client, node, families, trust_v210
        self._on_change = on_change
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._pods: dict[str, LocalPod] = {}
        params = {"fieldSelector": f"spec.nodeName={node}"}
        self._watcher = Watcher(
            client, PODS, params, on_event=self._changed, on_sync=self._replace, name="watch pods of the node"
        )

    def start(self) -> None:
        """Begin to follow; returns at once, whether the API server answers or not."""
        self._watcher.start()

    def stop(self) -> None:
        """End the watch."""
        self._watcher.stop()

    @property
    def is_complete(self) -> bool:
        """Whether a whole list has been read in this run, so that a pod that is not here is gone."""
        return self._watcher.synced.is_set()

    def all(self) -> tuple[LocalPod, ...]:
        """The pods known now, by UID."""
        with self._lock:
            return tuple(self._pods[uid] for uid in sorted(self._pods))

    def known(self, uid: str) -> LocalPod | None:
        """A pod, as far as it is known without asking."""
        with self._lock:
            return self._pods.get(uid)

    def find(self, uid: str) -> LocalPod | None:
        """A pod; the API server is asked when the watch has not told of it yet.

        :returns: ``None``: no pod of this UID is bound here. :raises ApiError: it is not known and cannot be asked for.
        """
        if found := self.known(uid):
            return found
        with self._asking:
            # Others may have asked while we waited for our turn.
            if found := self.known(uid):
                return found
            # Not kept: the watch tells of it soon, and alone knows when the pod has gone again.
            fresh = pods_of_node(self._client, self._node)
        return next((self._read(pod) for pod in fresh if pod["metadata"].get("uid") == uid), None)

    def has_ended(self, uid: str) -> bool:
        """Whether a pod is known to have ended for good."""
        local = self.known(uid)
        return local is not None and local.has_ended

    def is_gone(self, uid: str) -> bool:
        """Whether the API server itself says that no pod of this UID is bound here; ``False`` when it cannot be asked."""
        try:
            return self.is_complete and self.find(uid) is None
        except ApiError:
            return False

    def _read(self, pod: dict[str, Any]) -> LocalPod:
        view = pod_view(pod)
        try:
            return LocalPod(view=view, record=read_record(view, self._families, trust_v210=self._trust))
        except RecordError as problem:
            return LocalPod(view=view, problem=str(problem))

    def _replace(self, pods: Iterable[dict[str, Any]]) -> None:
        fresh = {}
        for pod in pods:
            local = self._read(pod)
            fresh[local.view.uid] = local
        with self._lock:
            self._pods = fresh
        self._on_change()

    def _changed(self, kind: str, pod: dict[str, Any]) -> None:
        uid = (pod.get("metadata") or {}).get("uid") or ""
        if kind == "DELETED":
            with self._lock:
                self._pods.pop(uid, None)
        else:
            local = self._read(pod)
            with self._lock:
                self._pods[uid] = local
        self._on_change()
