"""The little of OpenAPI that kubectl looks at: that objects can be patched, and checked by the server.

`kubectl apply` asks whether the server checks fields itself; told that it does, it needs no schemas, of which there
are none here, and computes its patches from the types it was built with.
"""

from __future__ import annotations

from hami_core_py.lab.apiserver.resources import RESOURCES, Resource
from hami_core_py.lab.apiserver.status import Object

_FIELD_VALIDATION = {
    "name": "fieldValidation",
    "in": "query",
    "description": "accepted; fields are not checked against a schema",
    "schema": {"type": "string", "uniqueItems": True},
}


def paths() -> Object:
    """The answer of `/openapi/v3`."""
    places = dict.fromkeys(_place(one) for one in RESOURCES)
    return {"paths": {place: {"serverRelativeURL": f"/openapi/v3/{place}?hash=0"} for place in places}}


def document(place: str) -> Object | None:
    """The answer of `/openapi/v3/<place>`, such as `api/v1` or `apis/apps/v1`; None for one not served."""
    served = [one for one in RESOURCES if _place(one) == place]
    if not served:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.2"},
        "paths": {f"/{place}{_below(one)}": _operations(one) for one in served if one.is_stored},
        "components": {"schemas": {}},
    }


def _place(resource: Resource) -> str:
    return f"apis/{resource.group_version}" if resource.group else f"api/{resource.version}"


def _below(resource: Resource) -> str:
    return (
        f"/namespaces/{{namespace}}/{resource.plural}/{{name}}"
        if resource.namespaced
        else f"/{resource.plural}/{{name}}"
    )


def _operations(resource: Resource) -> Object:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    operation = {
        "parameters": [_FIELD_VALIDATION],
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": kind,
    }
    return {
        "patch": {**operation, "x-kubernetes-action": "patch"},
        "put": {**operation, "x-kubernetes-action": "put"},
    }
