"""How the kubelet reaches its API server."""

from hami_core_py.cluster.client import Client, JsonObject
from hami_core_py.cluster.connection import Connection

Json = JsonObject
"""A Kubernetes object as it travels."""


def connect(url: str, agent: str, timeout_seconds: float = 5.0) -> Client:
    """A client of an API server on this machine."""
    return Client(Connection.to_loopback(url), timeout_seconds=timeout_seconds, agent=agent)
