"""Nodes: reading them, and writing their annotations and totals."""

from collections.abc import Mapping

from hami_core_py.cluster.client import Client, JsonObject, join_path

NODES = "/api/v1/nodes"
"""All nodes of the cluster."""


def node_path(name: str) -> str:
    """Path of one node."""
    return join_path("api", "v1", "nodes", name)


def get_node(client: Client, name: str) -> JsonObject:
    """One node. :raises ApiError: see ``Client``."""
    return client.get(node_path(name))


def patch_annotations(
    client: Client, name: str, annotations: Mapping[str, str | None], *, resource_version: str = ""
) -> JsonObject:
    """Set annotations, ``None`` removes one.

    :param resource_version: when given, only if the node has not changed since. :raises Conflict: it has.
    """
    metadata: JsonObject = {"annotations": dict(annotations)}
    if resource_version:
        metadata["resourceVersion"] = resource_version
    return client.patch(node_path(name), {"metadata": metadata})


def patch_status(client: Client, name: str, amounts: Mapping[str, str | None]) -> JsonObject:
    """Set extended resources in capacity and allocatable, ``None`` removes one."""
    status = {"capacity": dict(amounts), "allocatable": dict(amounts)}
    return client.patch(f"{node_path(name)}/status", {"status": status})
