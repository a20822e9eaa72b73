"""Pods: reading them, binding them, and writing their annotations."""

import time
from collections.abc import Mapping

from hami_core_py.cluster.client import Client, JsonObject, join_path

NOMINATED = "hami.io/nominated-node"
"""Pod annotation: the node that was named last, and when (nanoseconds since the Unix epoch). Nobody reads it."""

PODS = "/api/v1/pods"
"""All pods of the cluster."""


def pod_path(namespace: str, name: str) -> str:
    """Path of one pod."""
    return join_path("api", "v1", "namespaces", namespace, "pods", name)


def get_pod(client: Client, namespace: str, name: str) -> JsonObject:
    """One pod. :raises ApiError: see ``Client``."""
    return client.get(pod_path(namespace, name))


def pods_of_node(client: Client, node: str) -> list[JsonObject]:
    """All pods bound to a node, ended ones included."""
    return client.list(PODS, {"fieldSelector": f"spec.nodeName={node}"})[0]


def bind(client: Client, namespace: str, name: str, uid: str, node: str, annotations: Mapping[str, str]) -> None:
    """Bind a pod to a node and write its annotations, in one atomic call or not at all.

    The server is told to give up when we do, so that a call whose answer was lost cannot take effect much later.

    :param uid: precondition: another pod of the same name is not bound.
    :raises Conflict: it is another pod, is being deleted, or is bound already.
    :raises ApiError: see ``Client``; ``outcome_unknown`` tells whether it may have been bound all the same.
    """
    client.create(
        f"{pod_path(namespace, name)}/binding",
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "annotations": dict(annotations)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        },
        {"timeout": f"{max(1, int(client.timeout_seconds))}s"},
    )


def nominate(client: Client, namespace: str, name: str, uid: str, node: str) -> None:
    """Name the node that kube-scheduler tries first for a pod; it wakes a pod that waits.

    Older kube-schedulers sleep through a change of status alone; a changed annotation, in the same write, wakes them all.

    :param uid: precondition. :raises ApiError: see ``Client``.
    """
    metadata = {"uid": uid, "annotations": {NOMINATED: f"{node},{time.time_ns()}"}}
    body = {"metadata": metadata, "status": {"nominatedNodeName": node}}
    client.patch(f"{pod_path(namespace, name)}/status", body)


def evict(client: Client, namespace: str, name: str, uid: str) -> None:
    """Ask for a pod to be ended within its grace period, as far as its disruption budget allows.

    :param uid: precondition: another pod of the same name is not touched.
    :raises Busy: a budget stands in the way. :raises ApiError: see ``Client``.
    """
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    client.create(f"{pod_path(namespace, name)}/eviction", body)


def patch_annotations(
    client: Client, namespace: str, name: str, annotations: Mapping[str, str | None], *, uid: str = ""
) -> JsonObject:
    """Set annotations, ``None`` removes one. :param uid: precondition, when given: a successor is not touched."""
    metadata: JsonObject = {"annotations": dict(annotations)}
    if uid:
        metadata["uid"] = uid
    return client.patch(pod_path(namespace, name), {"metadata": metadata})
