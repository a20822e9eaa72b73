"""The API server without its HTTP: Kubernetes' semantics over objects in memory.

Everything a client can do is a method here, so that tests drive a whole cluster in one process. There is no I/O and
no clock but the one handed in; admission, which calls webhooks, and fault injection are handed in as well. Methods
block only where those do. Objects given and returned are private copies, unless a docstring says `shared`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from hami_core_py.lab.apiserver import binding as bindings
from hami_core_py.lab.apiserver import meta
from hami_core_py.lab.apiserver.calls import Admission, Call, Caller, Consult
from hami_core_py.lab.apiserver.deletion import Preconditions
from hami_core_py.lab.apiserver.history import version_of
from hami_core_py.lab.apiserver.objects import Objects, Watch
from hami_core_py.lab.apiserver.pages import Page, Pages
from hami_core_py.lab.apiserver.patches import APPLY_PATCH, apply_patch
from hami_core_py.lab.apiserver.resources import Resource, find
from hami_core_py.lab.apiserver.selectors import Predicate, select
from hami_core_py.lab.apiserver.shapes import copy_of, from_core, inward, outward, stored
from hami_core_py.lab.apiserver.shelf import Shelf
from hami_core_py.lab.apiserver.status import Cause, Object, invalid
from hami_core_py.lab.apiserver.writing import Writing, metadata_of, name_of

_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_FIRST_PRIORITIES = (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
_PODS = find("pods")


class Store(Shelf):
    """All objects of one cluster. Safe for threads. A resource is named as `resources.find` says, or given."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        history: int = 2_000,
        seed: int | None = None,
        admission: Admission | None = None,
        before: Consult | None = None,
        after: Consult | None = None,
    ) -> None:
        """
        :param clock: seconds since the epoch.
        :param history: watch events kept of each resource.
        :param seed: makes uids and generated names repeatable; None for random ones.
        :param admission: asked before each write; may be set later.
        :param before: consulted before each request, for fault injection: what it raises comes instead of the
            answer, and nothing has happened. May be set later.
        :param after: consulted after each request but a watch that succeeded: what it raises hides the answer, but
            the request has been carried out. May be set later.
        """
        super().__init__(Objects(history), clock, admission)
        self.before = before
        self.after = after
        self._pages = Pages()
        self._writing = Writing(self, seed)

    def seed_defaults(self) -> None:
        """Create what every cluster has from the start, where absent: first namespaces and priority classes."""
        for name in _FIRST_NAMESPACES:
            self._ensure(find("namespaces"), {"metadata": {"name": name}})
        for name, value in _FIRST_PRIORITIES:
            self._ensure(find("priorityclasses"), {"metadata": {"name": name}, "value": value})

    def load(self, objects: Iterable[Object]) -> int:
        """Take over objects as a server answered them, as with `kubectl get -o json`: unchecked, with their uids,
        nodes and status; answers how many.

        :raises ValueError: for a kind not served here.
        :raises StatusError: 409 for a name that is taken.
        """
        return self._writing.load(objects)

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
        with self._request("get", resource, namespace, name, subresource, caller):
            obj = outward(resource, self.current(resource, namespace, name))
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
        with self._request("list", resource, namespace, caller=caller):
            if continue_token:
                page = self._pages.resume(continue_token, limit)
            else:
                found, version = self.objects.scan(stored(resource), namespace)
                self._pages.check_version(version_of(resource_version), version, exact=exact)
                if resource.stored_as:
                    found = [outward(resource, one) for one in found]
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
        with self._request("watch", resource, namespace, caller=caller):
            since = version_of(resource_version) or None
            tell_existing = since is None if initial is None else initial
            return self.objects.watch(
                stored(resource),
                since=None if tell_existing else since,
                wants=_within(namespace, select(resource, labels, fields)),
                initial=tell_existing,
                wake=wake,
                convert=from_core if resource.stored_as else None,
                shown_as=resource,
            )

    def compact(self) -> int:
        """Expire all history and unfinished lists, as etcd's compaction does; answers the version reached."""
        self._pages.forget()
        return self.objects.compact()

    def create(
        self, resource: Resource | str, obj: Object, namespace: str = "", *, caller: Caller | None = None
    ) -> Object:
        """Store a new object: defaults, admission, validation, then one atomic write.

        :param namespace: empty takes the object's own, or "default".
        :raises StatusError: 400, 403, 404 (its namespace), 409 (its name is taken) or 422.
        """
        resource, caller = _resource(resource), caller or Caller()
        namespace = _namespace(resource, namespace, obj)
        with self._request("create", resource, namespace, name_of(obj), caller=caller):
            return self._writing.create(resource, copy_of(obj), namespace, caller)

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
        namespace, name = _namespace(resource, namespace, obj), name_of(obj)
        with self._request("update", resource, namespace, name, subresource, caller):
            new = inward(resource, meta.accept(resource, copy_of(obj), namespace))
            if not new["metadata"].get("resourceVersion") and not resource.unconditional_update:
                why = "must be specified for an update"
                raise invalid(resource, name, [Cause.invalid("metadata.resourceVersion", 0, why)])
            return self._writing.change(resource, namespace, name, subresource, lambda _: copy_of(new), caller)

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

        def change(current: Object) -> Object:
            patched = apply_patch(resource.kind, outward(resource, current), patch_type, patch)
            return inward(resource, meta.accept(resource, copy_of(patched), namespace))

        with self._request("patch", resource, namespace, name, subresource, caller):
            if patch_type == APPLY_PATCH and not subresource and not self._writing.exists(resource, namespace, name):
                obj = copy_of({**patch, "metadata": {**metadata_of(patch), "name": name}})
                return self._writing.create(resource, obj, namespace, caller)
            return self._writing.change(resource, namespace, name, subresource, change, caller)

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
        with self._request("delete", resource, namespace, name, caller=caller):
            last, gone = self._writing.deletion.delete(
                stored(resource),
                namespace if resource.namespaced else "",
                name,
                grace_seconds=grace_seconds,
                preconditions=preconditions or Preconditions(),
                orphan=orphan,
                caller=caller,
            )
            return copy_of(outward(resource, last)), gone

    def bind(self, namespace: str, name: str, binding: Object, *, caller: Caller | None = None) -> None:
        """Give a pod its node by a Binding, whose annotations it gets in the same write; see `binding.bind`."""
        caller = caller or Caller()
        with self._request("create", _PODS, namespace, name, "binding", caller):
            binding = self._writing.admit_other("binding", namespace, name, copy_of(binding), caller)
            bindings.bind(self, namespace, name, binding, caller)

    def evict(self, namespace: str, name: str, eviction: Object, *, caller: Caller | None = None) -> None:
        """Delete a pod on behalf of an Eviction; no disruption budget stands in the way here. :raises StatusError:"""
        caller = caller or Caller()
        with self._request("create", _PODS, namespace, name, "eviction", caller):
            eviction = self._writing.admit_other("eviction", namespace, name, copy_of(eviction), caller)
            options = eviction.get("deleteOptions") or {}
            wanted = options.get("preconditions") or {}
            self._writing.deletion.delete(
                _PODS,
                namespace,
                name,
                grace_seconds=options.get("gracePeriodSeconds"),
                preconditions=Preconditions(wanted.get("uid") or "", wanted.get("resourceVersion") or ""),
                orphan=False,
                caller=caller,
            )

    @contextmanager
    def _request(
        self,
        verb: str,
        resource: Resource,
        namespace: str,
        name: str = "",
        subresource: str = "",
        caller: Caller | None = None,
    ) -> Iterator[None]:
        """Let fault injection see a request before it is carried out, and after it has been."""
        if self.before is None and self.after is None:
            yield
            return
        call = Call(verb, resource, namespace, name, subresource, (caller or Caller()).user)
        if self.before is not None:
            self.before(call)
        yield
        if self.after is not None and verb != "watch":
            self.after(call)

    def _ensure(self, resource: Resource, obj: Object) -> None:
        if not self._writing.exists(resource, "", obj["metadata"]["name"]):
            self._writing.create(resource, obj, "", Caller())


def _resource(resource: Resource | str) -> Resource:
    return find(resource) if isinstance(resource, str) else resource


def _namespace(resource: Resource, namespace: str, obj: Object) -> str:
    if not resource.namespaced:
        return ""
    return namespace or str(metadata_of(obj).get("namespace") or "default")


def _within(namespace: str, wants: Predicate | None) -> Predicate | None:
    if not namespace:
        return wants
    if wants is None:
        return lambda obj: obj["metadata"].get("namespace") == namespace
    also = wants
    return lambda obj: obj["metadata"].get("namespace") == namespace and also(obj)
