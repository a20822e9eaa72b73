"""Versioned objects in memory: one counter, compare-and-set writes, a bounded history that watches follow.

An object handed in here is never changed again: a write puts another in its place. So snapshots, watch events and
pages of a list share objects without copies, and only this module needs a lock.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from hami_core_py.lab.apiserver.history import Event, EventType, Key, converted, key_of, matching
from hami_core_py.lab.apiserver.resources import Resource
from hami_core_py.lab.apiserver.selectors import Predicate
from hami_core_py.lab.apiserver.status import Object, StaleError, already_exists, too_large, too_old


@dataclass(slots=True, eq=False)
class _Kind:
    """What is stored of one resource."""

    objects: dict[Key, Object] = field(default_factory=dict)
    order: list[Key] | None = None  # keys in order, until one is added or removed
    events: list[Event] = field(default_factory=list)
    dropped_version: int = 0  # events up to this one are no longer in `events`
    watches: set[Watch] = field(default_factory=set)


class Objects:
    """All objects by resource, namespace and name. Safe for threads; does no I/O; blocks only for its own lock."""

    def __init__(self, history: int = 2_000) -> None:
        """:param history: how many events of each resource a late watch can still get."""
        self._history = history
        self._lock = threading.RLock()
        self._kinds: dict[Resource, _Kind] = {}
        self._version = 1
        self._compacted = 0
        self._listeners: list[Callable[[Resource, Event], None]] = []

    @property
    def version(self) -> int:
        """The resourceVersion of the newest write."""
        return self._version

    def listen(self, listener: Callable[[Resource, Event], None]) -> None:
        """Call `listener` in the order of the writes, under the lock: it must be quick and must not write."""
        self._listeners.append(listener)

    def get(self, resource: Resource, key: Key) -> Object | None:
        kind = self._kinds.get(resource)
        return kind.objects.get(key) if kind else None

    def scan(self, resource: Resource, namespace: str = "") -> tuple[list[Object], int]:
        """Objects in the order of namespace and name, with the version at which they were all current."""
        with self._lock:
            kind = self._kind(resource)
            if kind.order is None:
                kind.order = sorted(kind.objects)
            found = [kind.objects[key] for key in kind.order if not namespace or key[0] == namespace]
            return found, self._version

    def count(self, resource: Resource) -> int:
        return len(self._kind(resource).objects)

    def insert(self, resource: Resource, obj: Object) -> Object:
        """Store a new object. :raises StatusError: 409 when the name is taken."""
        key = key_of(obj)
        with self._lock:
            kind = self._kind(resource)
            if key in kind.objects:
                raise already_exists(resource, key[1])
            kind.order = None
            return self._commit(resource, kind, "ADDED", key, obj, None)

    def replace(self, resource: Resource, current: Object, obj: Object) -> Object:
        """Put `obj` where exactly `current` is. :raises StatusError: 409 when something else is there by now."""
        key = key_of(current)
        with self._lock:
            kind = self._kind(resource)
            if kind.objects.get(key) is not current:
                raise StaleError.of(resource, key[1])
            return self._commit(resource, kind, "MODIFIED", key, obj, current)

    def remove(self, resource: Resource, current: Object, last: Object | None = None) -> Object:
        """Remove exactly `current`; `last` is how its DELETED event shows it. :raises StatusError: 409 as above."""
        key = key_of(current)
        with self._lock:
            kind = self._kind(resource)
            if kind.objects.get(key) is not current:
                raise StaleError.of(resource, key[1])
            kind.order = None
            return self._commit(resource, kind, "DELETED", key, last or current, current)

    def restore(self, resource: Resource, obj: Object | None, key: Key, version: int) -> None:
        """Take over one write of an earlier run, unannounced; None for a removal. Watches from before get 410."""
        with self._lock:
            kind = self._kind(resource)
            kind.order = None
            if obj is None:
                kind.objects.pop(key, None)
            else:
                kind.objects[key] = obj
            self._version = self._compacted = max(self._version, version)

    def compact(self) -> int:
        """Forget all history, as etcd does every few minutes: older versions answer 410 from now on."""
        with self._lock:
            for kind in self._kinds.values():
                if kind.events:
                    kind.dropped_version = kind.events[-1].version
                    kind.events.clear()
            self._compacted = self._version
            return self._compacted

    def watch(
        self,
        resource: Resource,
        *,
        since: int | None,
        wants: Predicate | None = None,
        initial: bool = False,
        wake: Callable[[], None] | None = None,
        convert: Callable[[Object], Object] | None = None,
        shown_as: Resource | None = None,
    ) -> Watch:
        """Follow a resource from version `since`, or from now when None.

        :param initial: deliver what exists first, as ADDED events.
        :param wake: called (under the lock, from any thread) when there is something to poll for.
        :param convert: turns objects into the shape of `shown_as`, before `wants` sees them.
        :raises StatusError: 410 when `since` is older than the history, 504 when it lies in the future.
        """
        with self._lock:
            if since is not None and since > self._version:
                raise too_large(since, self._version)
            kind = self._kind(resource)
            oldest = max(self._compacted, kind.dropped_version)
            if since is not None and since < oldest:
                raise too_old(since, oldest)
            start = self._version if since is None else since
            watch = Watch(self, resource, start, wants=wants, wake=wake, convert=convert, shown_as=shown_as)
            if initial:
                watch.initial = [Event("ADDED", one, self._version) for one in self.scan(resource)[0]]
            kind.watches.add(watch)
            return watch

    def unwatch(self, watch: Watch) -> None:
        with self._lock:
            self._kind(watch.resource).watches.discard(watch)

    def since(self, resource: Resource, version: int) -> tuple[list[Event], int]:
        """Events after `version`, and the version up to which they are complete. :raises StatusError: 410."""
        with self._lock:
            kind = self._kind(resource)
            if version < kind.dropped_version:
                raise too_old(version, kind.dropped_version)
            at = bisect_right(kind.events, version, key=lambda event: event.version)
            return kind.events[at:], self._version

    def _kind(self, resource: Resource) -> _Kind:
        kind = self._kinds.get(resource)
        if kind is None:
            with self._lock:
                kind = self._kinds.setdefault(resource, _Kind())
        return kind

    def _commit(
        self, resource: Resource, kind: _Kind, what: EventType, key: Key, obj: Object, previous: Object | None
    ) -> Object:
        self._version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        if what == "DELETED":
            del kind.objects[key]
        else:
            kind.objects[key] = obj
        event = Event(what, obj, self._version, previous)
        kind.events.append(event)
        if len(kind.events) > 2 * self._history:
            kind.dropped_version = kind.events[-self._history - 1].version
            del kind.events[: -self._history]
        for listener in self._listeners:
            listener(resource, event)
        for watch in kind.watches:
            if watch.wake is not None:
                watch.wake()
        return obj


class Watch:
    """One follower of a resource. Polled by one thread; `Objects` may wake it from any."""

    def __init__(
        self,
        objects: Objects,
        resource: Resource,
        version: int,
        *,
        wants: Predicate | None,
        wake: Callable[[], None] | None,
        convert: Callable[[Object], Object] | None,
        shown_as: Resource | None,
    ) -> None:
        self._objects = objects
        self.resource = resource  # the one stored
        self._shown_as = shown_as or resource
        self.version = version  # everything up to here has been delivered
        self.wake = wake
        self.initial: list[Event] = []
        self._wants = wants
        self._convert = convert

    def poll(self) -> list[Event]:
        """What happened since the last poll and matches; empty when nothing did.

        :raises StatusError: 410, when the history has moved past this watch because it polled too rarely.
        """
        first, self.initial = self.initial, []
        events, self.version = self._objects.since(self.resource, self.version)
        if self._convert is not None:
            first = [converted(event, self._convert) for event in first]
            events = [converted(event, self._convert) for event in events]
        if self._wants is None:
            return first + events if first else events
        wants = self._wants
        return [event for event in first if wants(event.object)] + list(matching(events, wants))

    def bookmark(self, *, initial_events_end: bool = False) -> Event:
        """An event that tells only how far this watch has come."""
        metadata: Object = {"resourceVersion": str(self.version), "creationTimestamp": None}
        if initial_events_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = {"kind": self._shown_as.kind, "apiVersion": self._shown_as.group_version, "metadata": metadata}
        return Event("BOOKMARK", obj, self.version)

    def close(self) -> None:
        self._objects.unwatch(self)
