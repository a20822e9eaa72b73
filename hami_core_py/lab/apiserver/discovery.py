"""What clients ask before anything else: which groups, resources and verbs there are, and which version this is."""

from __future__ import annotations

from hami_core_py.lab.apiserver import openapi
from hami_core_py.lab.apiserver.resources import RESOURCES, SUBRESOURCES, Resource
from hami_core_py.lab.apiserver.status import Object

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


def document(path: str, host: str) -> Object | None:
    """The document at `path`, or None when there is none. `host` is where the client reached the server."""
    match path.strip("/").split("/"):
        case ["version"]:
            return VERSION
        case ["api"]:
            return core_versions(host)
        case ["apis"]:
            return groups()
        case ["api", version]:
            return resources("", version)
        case ["apis", name]:
            return group(name)
        case ["apis", name, version]:
            return resources(name, version)
        case ["openapi", "v3"]:
            return openapi.paths()
        case ["openapi", "v3", *place]:
            return openapi.document("/".join(place))
    return None


def core_versions(address: str) -> Object:
    """The answer of `/api`."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def groups() -> Object:
    """The answer of `/apis`."""
    names = list(dict.fromkeys(one.group for one in RESOURCES if one.group))
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in names]}


def group(name: str) -> Object | None:
    """The answer of `/apis/<group>`; None for a group not served."""
    if not any(one.group == name for one in RESOURCES):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def resources(name: str, version: str) -> Object | None:
    """The answer of `/api/v1` and `/apis/<group>/<version>`; None for one not served."""
    served = [one for one in RESOURCES if (one.group, one.version) == (name, version)]
    if not served:
        return None
    entries = [entry for one in served for entry in _entries(one)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].group_version,
        "resources": entries,
    }


def _group(name: str) -> Object:
    versions = list(dict.fromkeys(one.version for one in RESOURCES if one.group == name))
    shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def _entries(resource: Resource) -> list[Object]:
    entry: Object = {
        "name": resource.plural,
        "singularName": resource.kind.lower(),
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    entries = [entry]
    for name in resource.subresources:
        below = SUBRESOURCES[name]
        sub: Object = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": below.kind or resource.kind,
            "verbs": list(below.verbs),
        }
        if below.group:
            sub |= {"group": below.group, "version": below.version}
        entries.append(sub)
    return entries
