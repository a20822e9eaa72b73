"""One event, two shapes: core/v1 as stored, events.k8s.io/v1 as newer clients write and read it."""

from __future__ import annotations

from typing import Any

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


def to_core(event: Object) -> Object:
    """An events.k8s.io/v1 event as core/v1."""
    return {**_rename(event, _RENAMED), "apiVersion": "v1"}


def from_core(event: Object) -> Object:
    """A core/v1 event as events.k8s.io/v1."""
    return {**_rename(event, _BACK), "apiVersion": "events.k8s.io/v1"}


def _rename(event: dict[str, Any], names: dict[str, str]) -> Object:
    return {names.get(key, key): value for key, value in event.items()}
