"""The environment that a pod's own spec gives to a container."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from decimal import Decimal

from hami_core_py.cluster.errors import ApiError
from hami_core_py.codecs.quantities import parse_quantity
from hami_core_py.lab.kubelet import pods
from hami_core_py.lab.kubelet.api import Json

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")


class ConfigError(Exception):
    """The container cannot be created as its spec stands; the text says why."""


def base(pod: Json) -> dict[str, str]:
    """What every container has: what an image and the runtime provide."""
    return {"PATH": DEFAULT_PATH, "HOSTNAME": str(pod["metadata"]["name"]), "HOME": "/root"}


def of_spec(pod: Json, container: Json, node: str, read: Callable[[str], Json]) -> dict[str, str]:
    """The variables of the container's ``env``, references to earlier ones expanded.

    ``read`` fetches the object at an API path, for variables that come from a ConfigMap or a Secret.

    :raises ConfigError: a reference leads nowhere.
    """
    found: dict[str, str] = {}
    for variable in container.get("env") or ():
        name = variable["name"]
        source = variable.get("valueFrom")
        if source is None:
            found[name] = expand(str(variable.get("value") or ""), found)
            continue
        value = _from_source(pod, container, node, read, name, source)
        if value is not None:
            found[name] = value
    return found


def expand(text: str, variables: dict[str, str]) -> str:
    """``$(NAME)`` replaced where NAME is known, ``$$`` by a dollar sign."""

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return variables.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def _from_source(
    pod: Json, container: Json, node: str, read: Callable[[str], Json], name: str, source: Json
) -> str | None:
    if "fieldRef" in source:
        return _field(pod, node, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        return _resource(pod, container, source["resourceFieldRef"])
    for key, kind in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if key in source:
            return _key(pod, read, kind, source[key])
    raise ConfigError(f"env {name}: expected fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef in valueFrom")


def _field(pod: Json, node: str, path: str) -> str:
    metadata, spec = pod["metadata"], pod["spec"]
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": node,
        "spec.serviceAccountName": spec.get("serviceAccountName", "default"),
        "status.podIP": "127.0.0.1",
        "status.podIPs": "127.0.0.1",
        "status.hostIP": "127.0.0.1",
        "status.hostIPs": "127.0.0.1",
    }
    if path in fields:
        return str(fields[path])
    match = _SUBSCRIPT.fullmatch(path)
    if match is None:
        raise ConfigError(f"unsupported fieldPath: {path}")
    return str((metadata.get(match[1]) or {}).get(match[2], ""))


def _resource(pod: Json, container: Json, reference: Json) -> str:
    owner = reference.get("containerName", container["name"])
    of = next((one for one in pods.containers(pod) if one["name"] == owner), container)
    side, _, resource = str(reference["resource"]).partition(".")
    values = pods.limits(of) if side == "limits" else pods.requests(of)
    divisor = parse_quantity(str(reference.get("divisor") or "1")) or Decimal(1)
    return str(math.ceil(parse_quantity(values.get(resource, "0")) / divisor))


def _key(pod: Json, read: Callable[[str], Json], kind: str, reference: Json) -> str | None:
    name, key = reference["name"], reference["key"]
    try:
        found = read(f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind}/{name}")
    except ApiError as error:
        if error.status == 404 and reference.get("optional"):
            return None
        raise ConfigError(error.message) from error
    data = found.get("data") or {}
    if key not in data:
        if reference.get("optional"):
            return None
        raise ConfigError(f"couldn't find key {key} in {kind[:-1]} {pod['metadata']['namespace']}/{name}")
    return base64.b64decode(data[key]).decode() if kind == "secrets" else str(data[key])
