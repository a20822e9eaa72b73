"""The API server without its HTTP: Kubernetes' semantics over objects in memory.

Everything a client can do is a method here, so that tests drive a whole cluster in one process. There is no I/O and
no clock but the one handed in; admission, which calls webhooks, and fault injection are handed in as well. Methods
block only where those do. Objects given and returned are private copies, unless a docstring says `shared`.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from hami_core_py.lab.apiserver import binding as bindings
from hami_core_py.lab.apiserver import events, meta
from hami_core_py.lab.apiserver.calls import ADMIN, Admission, Before, Call, Caller, Operation, Review
from hami_core_py.lab.apiserver.deletion import Deletion, Preconditions
from hami_core_py.lab.apiserver.objects import Objects, Watch, key_of, version_of
from hami_core_py.lab.apiserver.pages import Page, Pages
from hami_core_py.lab.apiserver.patches import APPLY_PATCH, apply_patch
from hami_core_py.lab.apiserver.resources import SUBRESOURCES, Resource, find
from hami_core_py.lab.apiserver.selectors import Predicate, select
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
_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_FIRST_PRIORITIES = (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
_NAMESPACES, _PODS = find("namespaces"), find("pods")


class Store:
    """All objects of one cluster. Safe for threads."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        history: int = 10_000,
        seed: int | None = None,
        admission: Admission | None = None,
        before: Before | None = None,
    ) -> None:
        """
        :param clock: seconds since the epoch.
        :param history: watch events kept of each resource.
        :param seed: makes uids and generated names repeatable; None for random ones.
        :param admission: asked before each write; may be set later.
        :param before: consulted before each request, for fault injection; may be set later.
        """
        self.objects = Objects(history)
        self.clock = clock
        self.admission = admission
        self.before = before
        self._chance = random.Random(seed)
        self._pages = Pages()
        self._deletion = Deletion(self)

    def seed_defaults(self) -> None:
        """Create what every cluster has from the start, where absent: first namespaces and priority classes."""
        for name in _FIRST_NAMESPACES:
            self._ensure(_NAMESPACES, {"metadata": {"name": name}})
        for name, value in _FIRST_PRIORITIES:
            self._ensure(find("priorityclasses"), {"metadata": {"name": name}, "value": value})

    def get(
        self,
        resource: Resource | str,
        name: str,
        namespace: str = "",
        *,
        subresource: str = "",
        shared: bool = False,
        caller: Caller | None = None,
    ) -> Object:
        """One object; with `shared` the store's own, to be read only. :raises StatusError: 404."""
        resource = _resource(resource)
        self._consult("get", resource, namespace, name, subresource, caller)
        obj = _outward(resource, self.current(resource, namespace, name))
        return obj if shared else copy_of(obj)

    def list(
        self,
        resource: Resource | str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
        exact: bool = False,
        shared: bool = False,
        caller: Caller | None = None,
    ) -> Page:
        """Objects by namespace and name; of all namespaces when `namespace` is empty.

        :param limit: at most this many, the rest by `Page.continue_token`; 0 for all.
        :param resource_version: not older than this; with `exact`, of just this version.
        :param shared: items are the store's own objects, to be read only.
        :raises StatusError: 400 for bad selectors, 410 for a version or token that has expired, 504 for a future one.
        """
        resource = _resource(resource)
        self._consult("list", resource, namespace, "", "", caller)
        if continue_token:
            page = self._pages.resume(continue_token, limit)
        else:
            found, version = self.objects.scan(_stored(resource), namespace)
            self._pages.check_version(version_of(resource_version), version, exact=exact)
            if resource.stored_as:
                found = [_outward(resource, one) for one in found]
            wants = select(resource, labels, fields)
            chosen = found if wants is None else [one for one in found if wants(one)]
            page = self._pages.first(chosen, version, limit, counts_rest=wants is None)
        return page if shared else page.copied(copy_of)

    def watch(
        self,
        resource: Resource | str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        initial: bool | None = None,
        wake: Callable[[], None] | None = None,
        caller: Caller | None = None,
    ) -> Watch:
        """Follow objects: poll the answer, then close it. Events are shared.

        :param resource_version: follow from this version; empty or "0": from what exists now, told as ADDED first.
        :param initial: whether what exists is told first; None decides by `resource_version`.
        :param wake: called, from any thread and under a lock, when a poll would find something.
        :raises StatusError: 410 when the version has expired, 504 when it lies in the future.
        """
        resource = _resource(resource)
        self._consult("watch", resource, namespace, "", "", caller)
        since = version_of(resource_version) or None
        tell_existing = since is None if initial is None else initial
        return self.objects.watch(
            _stored(resource),
            since=None if tell_existing else since,
            wants=_within(namespace, select(resource, labels, fields)),
            initial=tell_existing,
            wake=wake,
            convert=events.from_core if resource.stored_as else None,
            shown_as=resource,
        )

    def current(self, resource: Resource, namespace: str, name: str) -> Object:
        """The store's own object, in its stored shape, to be read only. :raises StatusError: 404."""
        obj = self.objects.get(_stored(resource), (namespace if resource.namespaced else "", name))
        if obj is None:
            raise not_found(resource, name)
        return obj

    def compact(self) -> int:
        """Expire all history and unfinished lists, as etcd's compaction does; answers the version reached."""
        self._pages.forget()
        return self.objects.compact()

    def create(
        self, resource: Resource | str, obj: Object, namespace: str = "", *, caller: Caller | None = None
    ) -> Object:
        """Store a new object: defaults, admission, validation, then one atomic write.

        :param namespace: empty takes the object's own.
        :raises StatusError: 400, 403, 404 (its namespace), 409 (its name is taken) or 422.
        """
        resource, caller = _resource(resource), caller or Caller()
        namespace = _namespace(resource, namespace, obj)
        self._consult("create", resource, namespace, _name(obj), "", caller)
        return self._create(resource, obj, namespace, caller)

    def update(
        self,
        resource: Resource | str,
        obj: Object,
        namespace: str = "",
        *,
        subresource: str = "",
        caller: Caller | None = None,
    ) -> Object:
        """Replace an object; with `subresource` "status" only its status (and, as in Kubernetes, its annotations).

        :raises StatusError: 404, 409 when `metadata.resourceVersion` or `uid` is not the current one, 422.
        """
        resource, caller = _resource(resource), caller or Caller()
        namespace, name = _namespace(resource, namespace, obj), _name(obj)
        self._consult("update", resource, namespace, name, subresource, caller)
        new = _inward(resource, meta.accept(resource, copy_of(obj), namespace))
        if not new["metadata"].get("resourceVersion") and not resource.unconditional_update:
            why = "must be specified for an update"
            raise invalid(resource, name, [Cause.invalid("metadata.resourceVersion", 0, why)])
        return self._change(resource, namespace, name, subresource, lambda _: copy_of(new), caller)

    def patch(
        self,
        resource: Resource | str,
        name: str,
        patch: Any,
        patch_type: str,
        namespace: str = "",
        *,
        subresource: str = "",
        caller: Caller | None = None,
    ) -> Object:
        """Change an object by a patch, which is tried again when another write came between.

        Server-side apply creates an object that is not there.

        :param patch_type: the patch's media type, one of `patches.PATCH_TYPES`.
        :raises StatusError: 404, 409 when the patch names a resourceVersion that is not current, 400, 415, 422.
        """
        resource, caller = _resource(resource), caller or Caller()
        self._consult("patch", resource, namespace, name, subresource, caller)
        if patch_type == APPLY_PATCH and not subresource and not self._exists(resource, namespace, name):
            metadata = {**(patch.get("metadata") or {}), "name": name}
            return self._create(resource, {**patch, "metadata": metadata}, namespace, caller)

        def change(current: Object) -> Object:
            patched = apply_patch(resource.kind, _outward(resource, current), patch_type, patch)
            return _inward(resource, meta.accept(resource, copy_of(patched), namespace))

        return self._change(resource, namespace, name, subresource, change, caller)

    def delete(
        self,
        resource: Resource | str,
        name: str,
        namespace: str = "",
        *,
        grace_seconds: int | None = None,
        preconditions: Preconditions | None = None,
        orphan: bool = False,
        caller: Caller | None = None,
    ) -> tuple[Object, bool]:
        """Delete an object: its last state, and whether it is gone. A bound pod is only marked until grace is 0.

        :param orphan: leave what it owns.
        :raises StatusError: 404, 409 when a precondition does not hold.
        """
        resource, caller = _resource(resource), caller or Caller()
        self._consult("delete", resource, namespace, name, "", caller)
        last, gone = self._deletion.delete(
            _stored(resource),
            namespace if resource.namespaced else "",
            name,
            grace_seconds=grace_seconds,
            preconditions=preconditions or Preconditions(),
            orphan=orphan,
            caller=caller,
        )
        return copy_of(_outward(resource, last)), gone

    def bind(self, namespace: str, name: str, binding: Object, *, caller: Caller | None = None) -> None:
        """Give a pod its node by a Binding, whose annotations it gets in the same write; see `binding.bind`."""
        caller = caller or Caller()
        self._consult("create", _PODS, namespace, name, "binding", caller)
        binding = self._admit_other("binding", namespace, name, binding, caller)
        bindings.bind(self, namespace, name, binding, caller)

    def evict(self, namespace: str, name: str, eviction: Object, *, caller: Caller | None = None) -> None:
        """Delete a pod on behalf of an Eviction; no disruption budget stands in the way here. :raises StatusError:"""
        caller = caller or Caller()
        self._consult("create", _PODS, namespace, name, "eviction", caller)
        eviction = self._admit_other("eviction", namespace, name, eviction, caller)
        options = eviction.get("deleteOptions") or {}
        wanted = options.get("preconditions") or {}
        self._deletion.delete(
            _PODS,
            namespace,
            name,
            grace_seconds=options.get("gracePeriodSeconds"),
            preconditions=Preconditions(wanted.get("uid") or "", wanted.get("resourceVersion") or ""),
            orphan=False,
            caller=caller,
        )

    def review_deletion(self, resource: Resource, current: Object, caller: Caller) -> None:
        """Ask admission about a deletion. :raises StatusError: when it is refused."""
        if self.admission is not None:
            review = _review("DELETE", resource, "", None, current, caller)
            self.admission.mutate(review)
            self.admission.validate(review)

    def _create(self, resource: Resource, obj: Object, namespace: str, caller: Caller) -> Object:
        obj = _inward(resource, meta.accept(resource, copy_of(obj), namespace))
        stored, strategy = _stored(resource), strategy_of(resource)
        self._check_namespace(resource, namespace, _name(obj))
        strategy.default(obj)
        strategy.admit(resource, obj, self._lookup)
        obj = self._mutate(_review("CREATE", resource, "", obj, None, caller), stored, namespace, strategy)
        meta.fill_system_fields(resource, obj, uid=self._uid(), now=self.clock(), chance=self._chance)
        if resource.has_status and not strategy.keeps_status:
            obj.pop("status", None)
        strategy.prepare_create(obj)
        _refuse(resource, obj, strategy.causes(obj))
        if self.admission is not None:
            self.admission.validate(_review("CREATE", resource, "", obj, None, caller))
        if not caller.dry_run:
            obj = self.objects.insert(stored, obj)
        elif self._exists(resource, namespace, _name(obj)):
            raise already_exists(resource, _name(obj))
        return copy_of(_outward(resource, obj))

    def _change(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        subresource: str,
        change: Callable[[Object], Object],
        caller: Caller,
    ) -> Object:
        """Compare-and-set until it succeeds; a version or uid that the author named is never read over."""
        for _ in range(_RETRIES):
            current = self.current(resource, namespace, name)
            new = change(current)
            wanted = Preconditions(new["metadata"].get("uid") or "")
            wanted.check(resource, current)
            version = new["metadata"].get("resourceVersion")
            if version and version != current["metadata"]["resourceVersion"]:
                break
            if new["metadata"].get("name") != name:
                raise bad_request(f"the name of the object ({_name(new)}) does not match the name on the URL ({name})")
            try:
                return copy_of(_outward(resource, self._write(resource, subresource, current, new, caller)))
            except StaleError:
                continue
        raise StaleError.of(resource, name)

    def _write(self, resource: Resource, subresource: str, current: Object, new: Object, caller: Caller) -> Object:
        stored, strategy = _stored(resource), strategy_of(resource)
        new = _only(subresource, current, new) if subresource else _keep_status(resource, current, new)
        if subresource != "status" or strategy.defaults_status:
            strategy.default(new)
        meta.keep_system_fields(new, current)
        namespace = key_of(current)[0]
        review = _review("UPDATE", resource, subresource, new, current, caller)
        new = self._mutate(review, stored, namespace, strategy)
        meta.keep_system_fields(new, current)
        causes = [] if subresource == "status" else strategy.causes(new)
        _refuse(resource, new, causes + strategy.update_causes(new, current, subresource))
        if self.admission is not None:
            self.admission.validate(_review("UPDATE", resource, subresource, new, current, caller))
        if new == current or caller.dry_run:
            return new
        if resource.counts_generations and new.get("spec") != current.get("spec"):
            new["metadata"]["generation"] = current["metadata"].get("generation", 0) + 1
        if Deletion.is_over(new):
            return self._deletion.finish(stored, current, new, caller=caller)
        return self.objects.replace(stored, current, new)

    def _mutate(self, review: Review, stored: Resource, namespace: str, strategy: Strategy) -> Object:
        """The object as admission wants it, with defaults for whatever it added."""
        before = review.object or {}
        if self.admission is None:
            return before
        changed = self.admission.mutate(review)
        if changed is None or changed == before:
            return before
        changed = meta.accept(stored, changed, namespace)
        strategy.default(changed)
        return changed

    def _admit_other(self, subresource: str, namespace: str, name: str, obj: Object, caller: Caller) -> Object:
        """Admission of a Binding or an Eviction, which are no stored objects."""
        travels = SUBRESOURCES[subresource]
        obj = copy_of(obj)
        metadata = obj["metadata"] = obj.get("metadata") or {}
        metadata.setdefault("name", name)
        metadata.setdefault("namespace", namespace)
        if self.admission is None:
            return obj
        kind = (travels.group, travels.version or "v1", travels.kind)
        review = Review("CREATE", _PODS, subresource, namespace, name, obj, None, kind, caller)
        obj = self.admission.mutate(review) or obj
        self.admission.validate(Review("CREATE", _PODS, subresource, namespace, name, obj, None, kind, caller))
        return obj

    def _check_namespace(self, resource: Resource, namespace: str, name: str) -> None:
        if not resource.namespaced:
            return
        holder = self.objects.get(_NAMESPACES, ("", namespace))
        if holder is None:
            raise not_found(_NAMESPACES, namespace)
        if holder["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(resource, name, why)

    def _consult(
        self, verb: str, resource: Resource, namespace: str, name: str, subresource: str, caller: Caller | None
    ) -> None:
        if self.before is not None:
            self.before(Call(verb, resource, namespace, name, subresource, caller.user if caller else ADMIN))

    def _exists(self, resource: Resource, namespace: str, name: str) -> bool:
        return self.objects.get(_stored(resource), (namespace if resource.namespaced else "", name)) is not None

    def _lookup(self, name: str) -> Sequence[Object]:
        return self.objects.scan(find(name))[0]

    def _ensure(self, resource: Resource, obj: Object) -> None:
        if not self._exists(resource, "", obj["metadata"]["name"]):
            self._create(resource, obj, "", Caller())

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._chance.getrandbits(128), version=4))


def copy_of(obj: Object) -> Object:
    """A private copy of an object."""
    copied: Object = orjson.loads(orjson.dumps(obj))
    return copied


def _resource(resource: Resource | str) -> Resource:
    return find(resource) if isinstance(resource, str) else resource


def _stored(resource: Resource) -> Resource:
    if resource.stored_as is None:
        return resource
    group, plural = resource.stored_as
    return find(f"{plural}.{group}" if group else plural)


def _inward(resource: Resource, obj: Object) -> Object:
    return events.to_core(obj) if resource.stored_as else obj


def _outward(resource: Resource, obj: Object) -> Object:
    return events.from_core(obj) if resource.stored_as else obj


def _name(obj: Object) -> str:
    return str(_metadata(obj).get("name") or "")


def _metadata(obj: Object) -> Object:
    """An object's metadata before anything about it has been checked."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _namespace(resource: Resource, namespace: str, obj: Object) -> str:
    if not resource.namespaced:
        return ""
    return namespace or str(_metadata(obj).get("namespace") or "default")


def _within(namespace: str, wants: Predicate | None) -> Predicate | None:
    if not namespace:
        return wants
    if wants is None:
        return lambda obj: obj["metadata"].get("namespace") == namespace
    also = wants
    return lambda obj: obj["metadata"].get("namespace") == namespace and also(obj)


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


def _refuse(resource: Resource, obj: Object, causes: Sequence[Cause]) -> None:
    causes = [*meta.validate(resource, obj), *causes]
    if causes:
        raise invalid(resource, _name(obj), causes)


def _review(
    operation: Operation,
    resource: Resource,
    subresource: str,
    obj: Object | None,
    old: Object | None,
    caller: Caller,
) -> Review:
    subject = obj or old or {"metadata": {}}
    namespace = subject["metadata"].get("namespace") or ""
    kind = (resource.group, resource.version, resource.kind)
    return Review(operation, resource, subresource, namespace, _name(subject), obj, old, kind, caller)
