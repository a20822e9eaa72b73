"""What happens to objects: events, who they concern, and the versions that order them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import orjson

from hami_core_py.lab.apiserver.selectors import Predicate
from hami_core_py.lab.apiserver.status import Object, StatusError, bad_request

Key = tuple[str, str]
"""Namespace (empty for cluster-wide objects) and name."""

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


@dataclass(slots=True, eq=False)
class Event:
    """One step of an object, as watches deliver it. Shared between watches: read it, do not change it."""

    type: EventType
    object: Object
    version: int
    previous: Object | None = None  # the object before this step, to tell who stops or begins to match
    _line: bytes = b""

    def line(self) -> bytes:
        """The event as a line of a watch stream; made once, however many watches deliver it."""
        if not self._line:
            self._line = orjson.dumps({"type": self.type, "object": self.object}) + b"\n"
        return self._line


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def version_of(text: str) -> int | None:
    """A resourceVersion as a number, or None when it is empty. :raises StatusError: 400 when it is no number."""
    if not text:
        return None
    if not text.isdigit():
        raise bad_request(f"invalid resource version {text!r}: expected a number from an earlier answer")
    return int(text)


def error_event(error: StatusError) -> Event:
    return Event("ERROR", error.body(), 0)


def converted(event: Event, convert: Callable[[Object], Object]) -> Event:
    """The event with its objects in another shape."""
    previous = convert(event.previous) if event.previous is not None else None
    return Event(event.type, convert(event.object), event.version, previous)


def matching(events: Iterable[Event], wants: Predicate) -> Iterable[Event]:
    """Events of objects that match, where beginning to match is an ADDED and ceasing to match a DELETED."""
    for event in events:
        was = event.previous is not None and wants(event.previous)
        if event.type == "DELETED":
            if was or wants(event.object):
                yield event
        elif wants(event.object):
            yield event if was or event.type == "ADDED" else Event("ADDED", event.object, event.version)
        elif was:
            yield Event("DELETED", event.object, event.version)
