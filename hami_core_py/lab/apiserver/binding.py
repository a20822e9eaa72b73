"""The Binding: gives a pod its node and merges annotations into it, in one write or not at all."""

from __future__ import annotations

from hami_core_py.lab.apiserver.calls import Caller
from hami_core_py.lab.apiserver.deletion import Preconditions
from hami_core_py.lab.apiserver.resources import find
from hami_core_py.lab.apiserver.shelf import Shelf
from hami_core_py.lab.apiserver.status import Cause, Object, StaleError, bad_request, conflict, invalid
from hami_core_py.lab.apiserver.strategies import scheduled

_PODS, _BINDINGS = find("pods"), find("bindings")
_RETRIES = 5


def bind(shelf: Shelf, namespace: str, name: str, binding: Object, caller: Caller) -> None:
    """Bind a pod as `binding` says; its metadata's annotations and labels become the pod's.

    As on a real server nothing checks that the node exists, nor how large the annotations become: a pod over the
    limit is bound, and every later write to it is refused.

    :raises StatusError: 400, 404, 409 (uid or version differs, already bound, being deleted, gated), 422.
    """
    metadata = binding.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if (metadata.get("namespace") or namespace) != namespace:
        raise bad_request("namespace in URL does not match namespace in Binding object")
    target = binding.get("target") or {}
    causes = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(Cause.unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(Cause.required("target.name"))
    if causes:
        raise invalid(_BINDINGS, name, causes)
    conditions = Preconditions(metadata.get("uid") or "", metadata.get("resourceVersion") or "")
    for _ in range(_RETRIES):
        pod = shelf.current(_PODS, namespace, name)
        conditions.check(_PODS, pod, subresource="binding")
        _refuse_unbindable(name, pod)
        if caller.dry_run:
            return
        try:
            shelf.objects.replace(_PODS, pod, _bound(pod, target["name"], metadata, shelf.clock()))
        except StaleError:
            continue
        return
    raise StaleError.of(_PODS, name)


def _refuse_unbindable(name: str, pod: Object) -> None:
    why = ""
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif node := pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{node}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(_PODS, name, why, subresource="binding")


def _bound(pod: Object, node: str, metadata: Object, now: float) -> Object:
    merged = dict(pod["metadata"])
    for kind in ("annotations", "labels"):
        if metadata.get(kind):
            merged[kind] = {**(merged.get(kind) or {}), **metadata[kind]}
    spec = {**pod["spec"], "nodeName": node}
    return {**pod, "metadata": merged, "spec": spec, "status": scheduled(pod.get("status") or {}, now)}
