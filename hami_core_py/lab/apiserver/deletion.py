"""How objects end: grace, finalizers, dependents of an owner, and namespaces with all they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hami_core_py.lab.apiserver.calls import Caller
from hami_core_py.lab.apiserver.history import Event, Key, key_of
from hami_core_py.lab.apiserver.meta import timestamp
from hami_core_py.lab.apiserver.resources import RESOURCES, Resource, find
from hami_core_py.lab.apiserver.shelf import Shelf
from hami_core_py.lab.apiserver.status import Object, StaleError, StatusError, conflict
from hami_core_py.lab.apiserver.strategies import strategy_of

_RETRIES = 5
_NAMESPACES = find("namespaces")


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must still hold for a deletion or binding; empty fields demand nothing."""

    uid: str = ""
    resource_version: str = ""

    def check(self, resource: Resource, obj: Object, *, subresource: str = "") -> None:
        """:raises StatusError: 409 when one does not hold."""
        metadata = obj["metadata"]
        if self.uid and self.uid != metadata["uid"]:
            why = f"Precondition failed: UID in precondition: {self.uid}, UID in object meta: {metadata['uid']}"
            raise conflict(resource, metadata["name"], why, subresource=subresource)
        if self.resource_version and self.resource_version != metadata["resourceVersion"]:
            why = (
                f"Precondition failed: ResourceVersion in precondition: {self.resource_version}, "
                f"ResourceVersion in object meta: {metadata['resourceVersion']}"
            )
            raise conflict(resource, metadata["name"], why, subresource=subresource)


class Deletion:
    """The part of a store that deletes."""

    def __init__(self, shelf: Shelf, review: Callable[[Resource, Object, Caller], None]) -> None:
        """:param review: asks admission about a deletion; raises when it is refused."""
        self._shelf = shelf
        self._review = review
        self._owned: dict[str, set[tuple[Resource, Key]]] = {}  # owner's uid: its dependents
        shelf.objects.listen(self._note_owners)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        grace_seconds: int | None,
        preconditions: Preconditions,
        orphan: bool,
        caller: Caller,
    ) -> tuple[Object, bool]:
        """Delete one stored object: its last state, and whether it is gone (or only marked). :raises StatusError:"""
        for _ in range(_RETRIES):
            current = self._shelf.current(resource, namespace, name)
            preconditions.check(resource, current)
            self._review(resource, current, caller)
            if caller.dry_run:
                return current, False
            try:
                return self._delete(resource, current, grace_seconds, orphan=orphan, caller=caller)
            except StaleError:
                continue
        raise StaleError.of(resource, name)

    def finish(
        self, resource: Resource, current: Object, last: Object, *, caller: Caller, orphan: bool = False
    ) -> Object:
        """Remove an object that nothing holds any longer, then what depended on it. :raises StaleError:"""
        gone = self._shelf.objects.remove(resource, current, last)
        self._collect(gone["metadata"]["uid"], orphan=orphan, caller=caller)
        namespace = gone["metadata"].get("namespace")
        if namespace:
            self._finish_namespace(namespace, caller)
        return gone

    @staticmethod
    def is_over(obj: Object) -> bool:
        """Whether a marked object waits for nothing more: no finalizers, no grace."""
        metadata = obj["metadata"]
        return bool(
            metadata.get("deletionTimestamp")
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
        )

    def _delete(
        self, resource: Resource, current: Object, asked: int | None, *, orphan: bool, caller: Caller
    ) -> tuple[Object, bool]:
        metadata = current["metadata"]
        strategy = strategy_of(resource)
        grace = strategy.grace_seconds(current, asked)
        if resource is _NAMESPACES:
            return self._delete_namespace(current, caller)
        if metadata.get("deletionTimestamp") and grace >= metadata.get("deletionGracePeriodSeconds", 0) > 0:
            return current, False
        marked = self._marked(resource, current, grace)
        if grace == 0 and not metadata.get("finalizers"):
            if strategy.is_graceful:  # watches see the mark before the end, as on a real server
                current = self._shelf.objects.replace(resource, current, marked)
                marked = current
            return self.finish(resource, current, marked, caller=caller, orphan=orphan), True
        if metadata.get("deletionTimestamp") and metadata.get("deletionGracePeriodSeconds", 0) == grace:
            return current, False
        return self._shelf.objects.replace(resource, current, marked), False

    def _marked(self, resource: Resource, obj: Object, grace: int) -> Object:
        metadata = dict(obj["metadata"])
        metadata["deletionTimestamp"] = timestamp(self._shelf.clock() + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if resource.counts_generations and not obj["metadata"].get("deletionTimestamp"):
            metadata["generation"] = metadata.get("generation", 0) + 1
        return {**obj, "metadata": metadata}

    def _delete_namespace(self, current: Object, caller: Caller) -> tuple[Object, bool]:
        name = current["metadata"]["name"]
        if not current["metadata"].get("deletionTimestamp"):
            marked = self._marked(_NAMESPACES, current, 0)
            marked = {**marked, "status": {**current.get("status", {}), "phase": "Terminating"}}
            current = self._shelf.objects.replace(_NAMESPACES, current, marked)
        for resource in RESOURCES:
            if resource.namespaced and resource.is_stored and not resource.stored_as:
                for one in self._shelf.objects.scan(resource, name)[0]:
                    self._delete_quietly(resource, key_of(one), caller)
        self._finish_namespace(name, caller)
        still = self._shelf.objects.get(_NAMESPACES, ("", name))
        return still or current, still is None

    def _finish_namespace(self, name: str, caller: Caller) -> None:
        namespace = self._shelf.objects.get(_NAMESPACES, ("", name))
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        kinds = (one for one in RESOURCES if one.namespaced and one.is_stored)
        if namespace["metadata"].get("finalizers") or any(self._shelf.objects.scan(one, name)[0] for one in kinds):
            return
        try:
            self.finish(_NAMESPACES, namespace, namespace, caller=caller)
        except StaleError:
            return  # whoever changed it meanwhile finishes it, or the next object to go does

    def _collect(self, uid: str, *, orphan: bool, caller: Caller) -> None:
        """Delete what only the owner `uid` owned, as the garbage collector of a cluster does a little later."""
        if orphan:
            return
        for resource, key in sorted(self._owned.get(uid, ()), key=lambda one: (one[0].qualified, one[1])):
            obj = self._shelf.objects.get(resource, key)
            owners = (obj or {}).get("metadata", {}).get("ownerReferences") or ()
            if all(one.get("uid") == uid for one in owners):
                self._delete_quietly(resource, key, caller)

    def _delete_quietly(self, resource: Resource, key: Key, caller: Caller) -> None:
        try:
            self.delete(resource, *key, grace_seconds=None, preconditions=Preconditions(), orphan=False, caller=caller)
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    def _note_owners(self, resource: Resource, event: Event) -> None:
        before = _owners(event.previous)
        after = _owners(None if event.type == "DELETED" else event.object)
        if before == after:
            return
        entry = (resource, key_of(event.object))
        for uid in before - after:
            self._owned[uid].discard(entry)
            if not self._owned[uid]:
                del self._owned[uid]
        for uid in after - before:
            self._owned.setdefault(uid, set()).add(entry)


def _owners(obj: Object | None) -> frozenset[str]:
    references = (obj or {}).get("metadata", {}).get("ownerReferences")
    return frozenset(one.get("uid", "") for one in references) if references else frozenset()
