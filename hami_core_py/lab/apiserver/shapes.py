"""One stored object, two shapes: events are stored as core/v1, and served as events.k8s.io/v1 as well."""

from __future__ import annotations

import orjson

from hami_core_py.lab.apiserver.resources import Resource, find
from hami_core_py.lab.apiserver.status import Object

_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_BACK = {core: new for new, core in _RENAMED.items()}


def copy_of(obj: Object) -> Object:
    """A private copy of an object."""
    copied: Object = orjson.loads(orjson.dumps(obj))
    return copied


def stored(resource: Resource) -> Resource:
    """The resource whose objects these are: itself, but for one that is another in a different shape."""
    if resource.stored_as is None:
        return resource
    group, plural = resource.stored_as
    return find(f"{plural}.{group}" if group else plural)


def inward(resource: Resource, obj: Object) -> Object:
    """A client's object as it is stored."""
    return to_core(obj) if resource.stored_as else obj


def outward(resource: Resource, obj: Object) -> Object:
    """A stored object as `resource` shows it."""
    return from_core(obj) if resource.stored_as else obj


def to_core(event: Object) -> Object:
    """An events.k8s.io/v1 event as core/v1."""
    return {**_rename(event, _RENAMED), "apiVersion": "v1"}


def from_core(event: Object) -> Object:
    """A core/v1 event as events.k8s.io/v1."""
    return {**_rename(event, _BACK), "apiVersion": "events.k8s.io/v1"}


def _rename(event: Object, names: dict[str, str]) -> Object:
    return {names.get(key, key): value for key, value in event.items()}
