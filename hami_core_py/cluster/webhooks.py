"""Webhook configurations: the authority by which the API server knows a webhook."""

import base64

from hami_core_py.cluster.client import Client, JsonObject, join_path


def trust_authority(client: Client, name: str, authority_pem: bytes) -> bool:
    """Write an authority's certificates into every webhook of a mutating configuration that has others.

    :returns: whether anything was written. :raises Conflict: the configuration changed meanwhile.
    """
    path = join_path("apis", "admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", name)
    found = client.get(path)
    wanted = base64.b64encode(authority_pem).decode()
    changes: list[JsonObject] = [
        {"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": wanted}
        for i, webhook in enumerate(found.get("webhooks") or ())
        if (webhook.get("clientConfig") or {}).get("caBundle") != wanted
    ]
    if not changes:
        return False
    # Positions in a list mean something only in the version that was read.
    version = {"op": "test", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]}
    client.patch(path, [version, *changes], "json")
    return True
