"""How a write comes about: defaults, admission, validation, and then one compare-and-set."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Sequence

from hami_core_py.lab.apiserver import meta
from hami_core_py.lab.apiserver.calls import Caller, Operation, Review
from hami_core_py.lab.apiserver.deletion import Deletion, Preconditions
from hami_core_py.lab.apiserver.resources import SUBRESOURCES, Resource, find, of_kind
from hami_core_py.lab.apiserver.shapes import copy_of, inward, outward, stored
from hami_core_py.lab.apiserver.shelf import Shelf
from hami_core_py.lab.apiserver.status import (
    Cause,
    Object,
    StaleError,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    not_found,
)
from hami_core_py.lab.apiserver.strategies import Strategy, strategy_of

_RETRIES = 5  # of a write that lost a race although its author named no resourceVersion
_NAMESPACES, _PODS = find("namespaces"), find("pods")


class Writing:
    """The part of a store that creates and changes objects. What it is given is private to it."""

    def __init__(self, shelf: Shelf, seed: int | None) -> None:
        """:param seed: makes uids and generated names repeatable; None for random ones."""
        self._shelf = shelf
        self._objects = shelf.objects
        self._chance = random.Random(seed)
        self.deletion = Deletion(shelf, self.review_deletion)

    def create(self, resource: Resource, obj: Object, namespace: str, caller: Caller) -> Object:
        """Store a new object; answers a copy of it. :raises StatusError: 400, 403, 404, 409 or 422."""
        obj = inward(resource, meta.accept(resource, obj, namespace))
        strategy = strategy_of(resource)
        self._check_namespace(resource, namespace, name_of(obj))
        strategy.default(obj)
        strategy.admit(resource, obj, self._lookup)
        obj = self._mutate(_review("CREATE", resource, "", obj, None, caller), strategy)
        meta.fill_system_fields(resource, obj, uid=self._uid(), now=self._shelf.clock(), chance=self._chance)
        if resource.has_status and not strategy.keeps_status:
            obj.pop("status", None)
        strategy.prepare_create(obj)
        _refuse(resource, obj, strategy.causes(obj))
        self._validate(_review("CREATE", resource, "", obj, None, caller))
        if not caller.dry_run:
            obj = self._objects.insert(stored(resource), obj)
        elif self.exists(resource, namespace, name_of(obj)):
            raise already_exists(resource, name_of(obj))
        return copy_of(outward(resource, obj))

    def load(self, objects: Iterable[Object]) -> int:
        """Store objects as they are; see `Store.load`."""
        count = 0
        for count, obj in enumerate(objects, 1):
            resource = of_kind(str(obj.get("apiVersion")), str(obj.get("kind")))
            if resource is None or not resource.is_stored:
                told = f"{obj.get('kind')!r} of {obj.get('apiVersion')!r}"
                raise ValueError(
                    f"object {count} ({name_of(obj) or 'unnamed'}): expected a kind served here, got {told}"
                )
            obj = inward(resource, copy_of(obj))
            metadata = obj["metadata"]
            metadata.setdefault("uid", self._uid())
            metadata.setdefault("creationTimestamp", meta.timestamp(self._shelf.clock()))
            if resource.namespaced:
                metadata.setdefault("namespace", "default")
            self._objects.insert(stored(resource), obj)
        return count

    def change(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        subresource: str,
        change: Callable[[Object], Object],
        caller: Caller,
    ) -> Object:
        """Compare-and-set until it succeeds; a version or uid that the author named is never written over.

        :param change: makes a private new object of the current one, both in their stored shape.
        """
        for _ in range(_RETRIES):
            current = self._shelf.current(resource, namespace, name)
            new = change(current)
            Preconditions(uid=new["metadata"].get("uid") or "").check(resource, current)
            version = new["metadata"].get("resourceVersion")
            if version and version != current["metadata"]["resourceVersion"]:
                break
            if name_of(new) != name:
                raise bad_request(
                    f"the name of the object ({name_of(new)}) does not match the name on the URL ({name})"
                )
            try:
                return copy_of(outward(resource, self._write(resource, subresource, current, new, caller)))
            except StaleError:
                continue
        raise StaleError.of(resource, name)

    def admit_other(self, subresource: str, namespace: str, name: str, obj: Object, caller: Caller) -> Object:
        """A Binding or an Eviction, which are no stored objects, after admission. :raises StatusError:"""
        travels = SUBRESOURCES[subresource]
        metadata = obj["metadata"] = obj.get("metadata") or {}
        metadata.setdefault("name", name)
        metadata.setdefault("namespace", namespace)
        admission = self._shelf.admission
        if admission is not None:
            kind = (travels.group, travels.version or "v1", travels.kind)
            review = Review("CREATE", _PODS, subresource, namespace, name, obj, None, kind, caller)
            review.object = obj = admission.mutate(review) or obj
            admission.validate(review)
        return obj

    def review_deletion(self, resource: Resource, current: Object, caller: Caller) -> None:
        """Ask admission about a deletion. :raises StatusError: when it is refused."""
        if self._shelf.admission is not None:
            review = _review("DELETE", resource, "", None, current, caller)
            self._shelf.admission.mutate(review)
            self._shelf.admission.validate(review)

    def exists(self, resource: Resource, namespace: str, name: str) -> bool:
        return self._objects.get(stored(resource), (namespace if resource.namespaced else "", name)) is not None

    def _write(self, resource: Resource, subresource: str, current: Object, new: Object, caller: Caller) -> Object:
        strategy = strategy_of(resource)
        new = _only(subresource, current, new) if subresource else _keep_status(resource, current, new)
        if _is_ruled(strategy, new, current):
            strategy.default(new)
        meta.keep_system_fields(new, current)
        new = self._mutate(_review("UPDATE", resource, subresource, new, current, caller), strategy)
        meta.keep_system_fields(new, current)
        causes: list[Cause] = []
        if subresource != "status" and _is_ruled(strategy, new, current):
            causes = strategy.causes(new) + strategy.update_causes(new, current, subresource)
        _refuse(resource, new, causes)
        self._validate(_review("UPDATE", resource, subresource, new, current, caller))
        if new == current or caller.dry_run:
            return new
        if resource.counts_generations and new.get("spec") != current.get("spec"):
            new["metadata"]["generation"] = current["metadata"].get("generation", 0) + 1
        if Deletion.is_over(new):
            return self.deletion.finish(stored(resource), current, new, caller=caller)
        return self._objects.replace(stored(resource), current, new)

    def _mutate(self, review: Review, strategy: Strategy) -> Object:
        """The object as admission wants it, with defaults for whatever it added."""
        before = review.object or {}
        if self._shelf.admission is None:
            return before
        changed = self._shelf.admission.mutate(review)
        if changed is None or changed == before:
            return before
        changed = meta.accept(stored(review.resource), changed, review.namespace)
        strategy.default(changed)
        return changed

    def _validate(self, review: Review) -> None:
        if self._shelf.admission is not None:
            self._shelf.admission.validate(review)

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        holder = self._objects.get(_NAMESPACES, ("", namespace))
        if holder is None:
            raise not_found(_NAMESPACES, namespace)
        if holder["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(resource, name, why)

    def _lookup(self, name: str) -> Sequence[Object]:
        return self._objects.scan(find(name))[0]

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))


def name_of(obj: Object) -> str:
    """An object's name, empty when it has none; safe for an object that nobody has checked."""
    return str(metadata_of(obj).get("name") or "")


def metadata_of(obj: Object) -> Object:
    """An object's metadata, safe for an object that nobody has checked."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _only(subresource: str, current: Object, new: Object) -> Object:
    """What a write to a subresource changes: its own part, and for status the metadata a client owns."""
    if subresource == "ephemeralcontainers":
        spec = {**current["spec"], "ephemeralContainers": new.get("spec", {}).get("ephemeralContainers") or []}
        return copy_of({**current, "spec": spec})
    metadata = dict(new["metadata"])
    metadata.pop("ownerReferences", None)
    if "ownerReferences" in current["metadata"]:
        metadata["ownerReferences"] = current["metadata"]["ownerReferences"]
    return {**copy_of(current), "metadata": metadata, "status": new.get("status") or {}}


def _keep_status(resource: Resource, current: Object, new: Object) -> Object:
    if resource.has_status:
        new.pop("status", None)
        if "status" in current:
            new["status"] = copy_of(current["status"])
    return new


def _is_ruled(strategy: Strategy, new: Object, current: Object) -> bool:
    return not strategy.rules_spec_only or new.get("spec") != current.get("spec")


def _refuse(resource: Resource, obj: Object, causes: Sequence[Cause]) -> None:
    causes = [*meta.validate(resource, obj), *causes]
    if causes:
        raise invalid(resource, name_of(obj), causes)


def _review(
    operation: Operation, resource: Resource, subresource: str, obj: Object | None, old: Object | None, caller: Caller
) -> Review:
    subject = obj or old or {"metadata": {}}
    namespace = subject["metadata"].get("namespace") or ""
    kind = (resource.group, resource.version, resource.kind)
    return Review(operation, resource, subresource, namespace, name_of(subject), obj, old, kind, caller)
