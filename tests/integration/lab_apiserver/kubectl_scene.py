"""The cluster that kubectl's recorded requests were sent to; equal on every run, uids and versions included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hami_core_py.lab.apiserver import ApiServer, Store
from hami_core_py.lab.apiserver.resources import find

FIXTURES = Path(__file__).parents[2] / "fixtures" / "kubectl"
NOW = 1_800_000_000.0
TIME = "2027-01-15T08:00:00Z"
VOLATILE = ("uid", "resourceVersion")  # shift when anything is created before
NODE: dict[str, Any] = {
    "metadata": {"name": "node-a", "labels": {"kubernetes.io/hostname": "node-a"}},
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110", "acme.example/gpu": "8"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "acme.example/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": TIME}],
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.37.2", "osImage": "lab", "containerRuntimeVersion": "lab://1"},
    },
}
RUNNING = {
    "status": {
        "phase": "Running",
        "containerStatuses": [
            {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": TIME}}}
        ],
    }
}


def scene_server(log: Path) -> ApiServer:
    """A server with one node; `log` is the log of every container."""
    store = Store(clock=lambda: NOW, seed=1)
    store.seed_defaults()
    store.create("nodes", NODE)
    log.write_text("hello from the container\n")
    return ApiServer(store, logs=lambda _pod, _container, _previous: log)


def bind(server: ApiServer, name: str) -> None:
    """What scheduler and kubelet do: the pod `name` runs on the node, and an event says so."""
    target = {"metadata": {"annotations": {"hami.io/bind-node": "node-a"}}, "target": {"name": "node-a"}}
    server.store.bind("default", name, target)
    server.store.patch("pods", name, RUNNING, "application/merge-patch+json", "default", subresource="status")
    uid = server.store.get("pods", name, "default")["metadata"]["uid"]
    about = {"kind": "Pod", "name": name, "namespace": "default", "uid": uid}
    number = len(server.store.list("events").items) + 1
    event = {"metadata": {"name": f"{name}.{number}"}, "involvedObject": about, "type": "Normal", "reason": "Scheduled"}
    event |= {"message": f"Assigned {name} to node-a", "source": {"component": "lab"}}
    server.store.create("events", {**event, "firstTimestamp": TIME, "lastTimestamp": TIME, "count": 1})


def end(server: ApiServer, name: str) -> None:
    """What a kubelet does at last with a pod that is being deleted."""
    server.store.delete("pods", name, "default", grace_seconds=0)


def uids(server: ApiServer) -> dict[str, str]:
    """Placeholders in recorded paths, and what they stand for in this run."""
    objects = (("{pod-uid}", "pods", "train", "default"), ("{node-uid}", "nodes", "node-a", ""))
    known = {}
    for placeholder, resource, name, namespace in objects:
        obj = server.store.objects.get(find(resource), (namespace, name))
        if obj is not None:
            known[placeholder] = obj["metadata"]["uid"]
    return known


def stable(value: Any) -> Any:
    """An answer without what shifts."""
    if isinstance(value, dict):
        return {key: stable(one) for key, one in value.items() if key not in VOLATILE}
    return [stable(one) for one in value] if isinstance(value, list) else value
