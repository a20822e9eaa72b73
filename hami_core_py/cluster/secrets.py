"""Secrets: reading and writing their data."""

import base64
import binascii
from collections.abc import Mapping

from hami_core_py.cluster.client import Client, join_path


def secret_path(namespace: str, name: str) -> str:
    """Path of one Secret."""
    return join_path("api", "v1", "namespaces", namespace, "secrets", name)


def read_secret(client: Client, namespace: str, name: str) -> tuple[dict[str, bytes], str]:
    """Data of a Secret, and its resource version; a value that is not base64 is left out. :raises ApiError: see ``Client``."""
    secret = client.get(secret_path(namespace, name))
    data = {}
    for key, text in (secret.get("data") or {}).items():
        try:
            data[key] = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            continue
    return data, str((secret.get("metadata") or {}).get("resourceVersion") or "")


def write_secret(
    client: Client, namespace: str, name: str, data: Mapping[str, bytes | None], *, resource_version: str
) -> None:
    """Set values, ``None`` removes one, if the Secret is still as it was read. :raises Conflict: it is not."""
    encoded = {key: None if value is None else base64.b64encode(value).decode() for key, value in data.items()}
    body = {"metadata": {"resourceVersion": resource_version}, "data": encoded}
    client.patch(secret_path(namespace, name), body)
