"""Leases: a process says that it lives."""

from datetime import UTC, datetime

from hami_core_py.cluster.client import Client, JsonObject, join_path
from hami_core_py.cluster.errors import NotFound


def lease_path(namespace: str, name: str) -> str:
    """Path of one Lease."""
    return join_path("apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases", name)


def renew_lease(
    client: Client, namespace: str, name: str, *, holder: str, lease_seconds: int, now: datetime | None = None
) -> JsonObject:
    """Say that the holder lives now; the Lease is created when it does not exist.

    :param lease_seconds: how long this word is good for.
    :raises ApiError: see ``Client``.
    """
    moment = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": holder, "leaseDurationSeconds": lease_seconds, "renewTime": moment}
    try:
        return client.patch(lease_path(namespace, name), {"spec": spec})
    except NotFound:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**spec, "acquireTime": moment},
        }
        return client.create(lease_path(namespace, "").rstrip("/"), body)
