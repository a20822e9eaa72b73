"""The scheduling loop: watch nodes and pods, try one pod at a time, let the extender have its say."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import ApiError, Conflict, NotFound
from hami_core_py.cluster.watch import Watcher
from hami_core_py.lab.kubescheduler.extender import Extender, ExtenderError
from hami_core_py.lab.kubescheduler.predicates import asks_for, pod_demand, refusals
from hami_core_py.lab.kubescheduler.queue import Key, SchedulingQueue

log = logging.getLogger(__name__)

FINISHED = ("Succeeded", "Failed")


class SchedulerLoop:
    """One scheduler for some scheduler names.

    :param names: values of ``spec.schedulerName`` that are ours.
    """

    def __init__(self, client: Client, extender: Extender, names: Sequence[str]) -> None:
        self._client, self._extender, self._names = client, extender, frozenset(names)
        self._queue = SchedulingQueue()
        self._nodes: dict[str, dict[str, Any]] = {}
        self._bound: dict[Key, dict[str, Any]] = {}
        self._unbound: dict[Key, dict[str, Any]] = {}
        self._lock = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="scheduling", daemon=True)
        self._watchers = [
            Watcher(client, "/api/v1/nodes", on_event=self._node_event, on_sync=self._node_sync, name="nodes"),
            Watcher(client, "/api/v1/pods", on_event=self._pod_event, on_sync=self._pod_sync, name="pods"),
        ]

    def start(self) -> None:
        """Begin; returns when nodes and pods are known."""
        for watcher in self._watchers:
            watcher.start()
        for watcher in self._watchers:
            watcher.synced.wait(30)
        self._thread.start()

    def stop(self) -> None:
        """End after the attempt in hand."""
        with self._lock:
            self._stopped = True
            self._lock.notify_all()
        self._thread.join(10)
        for watcher in self._watchers:
            watcher.stop()

    def _node_sync(self, nodes: list[dict[str, Any]]) -> None:
        with self._lock:
            self._nodes = {node["metadata"]["name"]: node for node in nodes}
            self._wake()

    def _node_event(self, kind: str, node: dict[str, Any]) -> None:
        name = node["metadata"]["name"]
        with self._lock:
            before = self._nodes.pop(name, None)
            if kind != "DELETED":
                self._nodes[name] = node
            if before is None or _matters(before) != _matters(node):
                self._wake()

    def _pod_sync(self, pods: list[dict[str, Any]]) -> None:
        with self._lock:
            self._bound, self._unbound = {}, {}
            for pod in pods:
                self._keep(pod)
            for key in set(self._queue.pods) - set(self._unbound):
                self._queue.drop(key)
            self._wake()

    def _pod_event(self, kind: str, pod: dict[str, Any]) -> None:
        key = _key(pod)
        with self._lock:
            was_bound = self._bound.pop(key, None) is not None
            self._unbound.pop(key, None)
            if kind != "DELETED":
                self._keep(pod)
            if key not in self._unbound:
                self._queue.drop(key)
            is_bound = key in self._bound
            # A bound pod that appears, changes or goes may have made room, or made another pod's rule hold.
            if was_bound or is_bound:
                self._wake()
            self._lock.notify_all()

    def _keep(self, pod: dict[str, Any]) -> None:
        key, spec = _key(pod), pod["spec"]
        phase = (pod.get("status") or {}).get("phase")
        if spec.get("nodeName"):
            if phase not in FINISHED:
                self._bound[key] = pod
        elif spec.get("schedulerName") in self._names and not pod["metadata"].get("deletionTimestamp"):
            known = self._unbound.get(key)
            self._unbound[key] = pod
            metadata = pod["metadata"]
            if known is None or known["metadata"].get("annotations") != metadata.get("annotations"):
                self._queue.put(
                    key, metadata["uid"], spec.get("priority") or 0, metadata.get("creationTimestamp") or ""
                )

    def _wake(self) -> None:
        self._queue.wake()
        self._lock.notify_all()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._stopped and (key := self._queue.next(time.monotonic())) is None:
                    at = self._queue.next_time()
                    self._lock.wait(None if at is None else max(0.01, at - time.monotonic()))
                if self._stopped:
                    return
                assert key is not None
                pod = self._unbound.get(key)
                if pod is None:
                    self._queue.drop(key)
                    continue
            self._try(key, pod)

    def _try(self, key: Key, pod: dict[str, Any]) -> None:
        try:
            node = self._schedule(pod)
        except (ExtenderError, ApiError) as problem:
            log.warning("attempt failed", extra={"pod": "/".join(key), "problem": str(problem)})
            with self._lock:
                self._queue.refused(key, time.monotonic(), asleep=False)
            try:
                self._tell(pod, "SchedulerError", str(problem))
            except ApiError as silenced:
                log.warning("failure not told", extra={"pod": "/".join(key), "problem": str(silenced)})
            return
        with self._lock:
            if node is None:
                self._queue.refused(key, time.monotonic(), asleep=True)
            else:
                self._queue.drop(key)
                bound = self._unbound.pop(key, pod)
                self._bound[key] = {**bound, "spec": {**bound["spec"], "nodeName": node}}

    def _schedule(self, pod: dict[str, Any]) -> str | None:
        """Bind a pod and answer its node; ``None``: it fits nowhere now, and its condition says why."""
        config = self._extender.config
        with self._lock:
            nodes, bound = dict(self._nodes), list(self._bound.values())
        demand, managed = pod_demand(pod), asks_for(pod, config.managed)
        ignored = config.ignored if managed else frozenset()
        used = _used(bound)
        failed = {
            name: why
            for name, node in nodes.items()
            if (why := refusals(pod, demand, node, used.get(name, {}), ignored))
        }
        feasible = sorted(set(nodes) - set(failed))
        nominated = (pod.get("status") or {}).get("nominatedNodeName")
        if nominated in feasible:
            feasible = [nominated]
        if feasible and managed:
            answer = self._extender.filter(pod, feasible)
            feasible = list(answer.nodes)
            failed |= {name: [why] for name, why in {**answer.failed, **answer.unresolvable}.items()}
        elif not feasible and managed and (node := self._preempt(pod, demand, nodes, bound, ignored)):
            failed[node] = ["node(s) nominated after preemption"]
        if not feasible:
            self._refuse(pod, len(nodes), failed)
            return None
        node = self._best(pod, feasible, managed)
        if managed:
            self._extender.bind(pod, node)
        else:
            self._bind(pod, node)
        log.info("bound", extra={"pod": "/".join(_key(pod)), "node": node})
        self._event(pod, "Normal", "Scheduled", f"Successfully assigned {'/'.join(_key(pod))} to {node}")
        return node

    def _best(self, pod: dict[str, Any], feasible: list[str], managed: bool) -> str:
        # The real scheduler asks no one for scores when a single node is left.
        if len(feasible) == 1 or not managed:
            return feasible[0]
        scores = self._extender.prioritize(pod, feasible)
        return min(feasible, key=lambda name: (-scores.get(name, 0), name))

    def _preempt(
        self,
        pod: dict[str, Any],
        demand: Mapping[str, Decimal],
        nodes: Mapping[str, dict[str, Any]],
        bound: Sequence[dict[str, Any]],
        ignored: frozenset[str],
    ) -> str | None:
        """Evict lower pods where that helps by our filters and the extender's; the node, ``None`` when nowhere."""
        priority = pod["spec"].get("priority") or 0
        victims: dict[str, list[dict[str, Any]]] = {}
        for name, node in nodes.items():
            here = [p for p in bound if p["spec"]["nodeName"] == name]
            lower = [p for p in here if (p["spec"].get("priority") or 0) < priority]
            kept = _used([p for p in here if p not in lower]).get(name, {})
            if lower and not refusals(pod, demand, node, kept, ignored):
                victims[name] = lower
        if not victims:
            return None
        helpful = self._extender.preempt(pod, victims)
        if not helpful:
            return None
        node_name = min(helpful, key=lambda name: (len(helpful[name]), name))
        for victim in victims[node_name]:
            if victim["metadata"]["uid"] in helpful[node_name]:
                self._client.delete(_path(victim))
                self._event(victim, "Normal", "Preempted", f"Preempted by {'/'.join(_key(pod))} on node {node_name}")
        self._client.patch(_path(pod) + "/status", {"status": {"nominatedNodeName": node_name}})
        return node_name

    def _bind(self, pod: dict[str, Any], node: str) -> None:
        metadata = pod["metadata"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self._client.create(_path(pod) + "/binding", body)

    def _refuse(self, pod: dict[str, Any], total: int, failed: Mapping[str, Sequence[str]]) -> None:
        counts = Counter(why for reasons in failed.values() for why in reasons)
        reasons = ", ".join(f"{count} {why}" for why, count in sorted(counts.items(), key=lambda c: c[0]))
        self._tell(pod, "Unschedulable", f"0/{total} nodes are available: {reasons or 'no nodes'}.")

    def _tell(self, pod: dict[str, Any], reason: str, message: str) -> None:
        """Say in the pod's condition and in an event why it waits; only when the text is new."""
        conditions = (pod.get("status") or {}).get("conditions") or ()
        before: Mapping[str, Any] = next((c for c in conditions if c.get("type") == "PodScheduled"), {})
        if before.get("message") == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": _now(),
        }
        try:
            self._client.patch(_path(pod) + "/status", {"status": {"conditions": [condition]}}, kind="strategic")
            self._event(pod, "Warning", "FailedScheduling", message)
        except (NotFound, Conflict):
            log.debug("pod went away while it was refused", extra={"pod": "/".join(_key(pod))})

    def _event(self, pod: Mapping[str, Any], kind: str, reason: str, message: str) -> None:
        namespace, name = _key(pod)
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{name}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": namespace,
                "name": name,
                "uid": pod["metadata"]["uid"],
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": pod["spec"].get("schedulerName", "")},
            "firstTimestamp": _now(),
            "lastTimestamp": _now(),
            "count": 1,
        }
        try:
            self._client.create(join_path("api", "v1", "namespaces", namespace, "events"), body)
        except ApiError as problem:
            log.warning("event lost", extra={"reason": reason, "problem": str(problem)})


def _used(pods: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Decimal]]:
    """Node → what its pods ask for."""
    used: dict[str, dict[str, Decimal]] = {}
    for pod in pods:
        here = used.setdefault(pod["spec"]["nodeName"], {})
        for name, amount in pod_demand(pod).items():
            here[name] = here.get(name, Decimal(0)) + amount
    return used


def _matters(node: Mapping[str, Any]) -> tuple[Any, ...]:
    """The parts of a node whose change makes the real scheduler try refused pods again."""
    metadata, status, spec = node["metadata"], node.get("status") or {}, node.get("spec") or {}
    conditions = tuple((c.get("type"), c.get("status")) for c in status.get("conditions") or ())
    return (
        metadata.get("annotations"),
        metadata.get("labels"),
        status.get("allocatable"),
        conditions,
        spec.get("unschedulable"),
        spec.get("taints"),
    )


def _key(pod: Mapping[str, Any]) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _path(pod: Mapping[str, Any]) -> str:
    namespace, name = _key(pod)
    return join_path("api", "v1", "namespaces", namespace, "pods", name)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
