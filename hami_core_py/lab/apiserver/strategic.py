"""Strategic merge patch: lists of named things merge by their key, with Kubernetes' directives."""

from __future__ import annotations

from typing import Any

from hami_core_py.lab.apiserver.status import Object, bad_request

_MERGE_KEYS = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "matchConditions": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "variables": "name",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
_MERGE_KEYS_OF_KIND = {("Service", "ports"): "port", ("ServiceAccount", "secrets"): "name"}
_MERGED_SETS = ("finalizers", "podCIDRs")
_ORDER, _DELETE_FROM, _RETAIN, _PATCH = "$setElementOrder/", "$deleteFromPrimitiveList/", "$retainKeys", "$patch"


def strategic_merge(kind: str, target: Object, patch: Object) -> Object:
    """A new object: `target` with `patch` merged; neither changes. Lists without a merge key are replaced.

    :raises StatusError: 400 for a directive that cannot be read or a list element without its key.
    """
    merged = _merge(kind, target, patch)
    return merged if merged is not None else {}


def _merge(kind: str, target: Object, patch: Object) -> Object | None:
    """The merged object; None when the patch says to delete it."""
    directive = patch.get(_PATCH)
    if directive == "delete":
        return None
    if directive == "replace":
        return _plain_object(patch)
    if directive not in (None, "merge"):
        raise bad_request(f"strategic merge patch: $patch: expected delete, replace or merge, got {directive!r}")
    merged = dict(target)
    if (retained := patch.get(_RETAIN)) is not None:
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            merged[name] = [one for one in merged.get(name) or () if one not in value]
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            merged.pop(key, None)
            continue
        result = _merge_value(kind, key, merged.get(key), value, patch.get(_ORDER + key))
        if result is None:
            merged.pop(key, None)
        else:
            merged[key] = result
    for key, order in patch.items():
        name = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and name not in patch and isinstance(merged.get(name), list):
            merged[name] = _ordered(merged[name], merged[name], order, _merge_key(kind, name))
    return merged


def _merge_value(kind: str, key: str, old: Any, new: Any, order: list[Any] | None) -> Any:
    if isinstance(new, dict):
        return _merge(kind, old if isinstance(old, dict) else {}, new)
    if not isinstance(new, list):
        return new
    merge_key = _merge_key(kind, key)
    if merge_key and all(isinstance(one, dict) for one in new):
        return _merge_list(kind, key, merge_key, old if isinstance(old, list) else [], new, order)
    if key in _MERGED_SETS:
        before = old if isinstance(old, list) else []
        return _ordered([*before, *(one for one in new if one not in before)], before, order, None)
    return new


def _merge_key(kind: str, name: str) -> str | None:
    return _MERGE_KEYS_OF_KIND.get((kind, name)) or _MERGE_KEYS.get(name)


def _merge_list(kind: str, name: str, key: str, old: list[Any], new: list[Any], order: list[Any] | None) -> list[Any]:
    if any(one.get(_PATCH) == "replace" and key not in one for one in new):
        return [_plain(one) for one in new if _PATCH not in one]
    merged = list(old)
    for element in new:
        if key not in element:
            raise bad_request(f"strategic merge patch: {name}: map does not contain declared merge key: {key}")
        at = next((i for i, one in enumerate(merged) if one.get(key) == element[key]), None)
        result = _merge(kind, merged[at] if at is not None else {}, element)
        if at is None:
            if result is not None:
                merged.append(result)
        elif result is None:
            del merged[at]
        else:
            merged[at] = result
    return _ordered(merged, old, order, key)


def _ordered(merged: list[Any], old: list[Any], order: list[Any] | None, key: str | None) -> list[Any]:
    """`merged` in the patch's wanted order; what the patch does not know keeps its place among its neighbours."""
    if order is None:
        return merged

    def name(one: Any) -> Any:
        return one.get(key) if key and isinstance(one, dict) else one

    wanted = [name(one) for one in order]
    place = {name(one): i for i, one in enumerate(old)}
    known = sorted((one for one in merged if name(one) in wanted), key=lambda one: wanted.index(name(one)))
    others = [one for one in merged if name(one) not in wanted]
    result: list[Any] = []
    while known and others:
        foreign_first = place.get(name(others[0]), len(old)) < place.get(name(known[0]), -1)
        result.append((others if foreign_first else known).pop(0))
    return result + known + others


def _plain(value: Any) -> Any:
    """A patch's content without its directives."""
    if isinstance(value, dict):
        return _plain_object(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def _plain_object(value: Object) -> Object:
    return {key: _plain(one) for key, one in value.items() if not key.startswith("$") and one is not None}
