"""What is wrong with a pod, in the API server's words, and what may change once it exists."""

from __future__ import annotations

import re

from hami_core_py.codecs.quantities import is_extended
from hami_core_py.lab.apiserver.meta import LABEL_MESSAGE, is_dns_label, is_subdomain
from hami_core_py.lab.apiserver.pod_defaults import CONTAINER_LISTS, containers_of
from hami_core_py.lab.apiserver.quantities import value_of
from hami_core_py.lab.apiserver.status import Cause, Object

_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_RESOURCE_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_IMMUTABLE_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_causes(pod: Object) -> list[Cause]:
    """Every rule that a pod breaks; empty for a valid one."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return [Cause.required("spec.containers")]
    causes = []
    if not spec.get("containers"):
        causes.append(Cause.required("spec.containers"))
    seen: set[str] = set()
    for path, container in containers_of(spec):
        causes += _container_causes(path, container, seen)
    if spec["restartPolicy"] not in _RESTART_POLICIES:
        causes.append(Cause.unsupported("spec.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES))
    if spec.get("nodeName") and not is_subdomain(spec["nodeName"]):
        causes.append(Cause.invalid("spec.nodeName", spec["nodeName"], "a node name is a lowercase RFC 1123 subdomain"))
    volumes = [volume.get("name", "") for volume in spec.get("volumes") or ()]
    for i, name in enumerate(volumes):
        if not is_dns_label(name):
            causes.append(Cause.invalid(f"spec.volumes[{i}].name", name, LABEL_MESSAGE))
        elif name in volumes[:i]:
            causes.append(Cause.duplicate(f"spec.volumes[{i}].name", name))
    return causes


def pod_update_causes(pod: Object, old: Object) -> list[Cause]:
    """What an ordinary update may not change: nearly all of the spec; a node is given by a Binding only."""
    if _without_mutable(pod["spec"], old["spec"]) == _without_mutable(old["spec"], old["spec"]):
        return []
    return [Cause.forbidden("spec", _IMMUTABLE_MESSAGE)]


def ephemeral_causes(pod: Object, old: Object) -> list[Cause]:
    """What an update of pods/ephemeralcontainers may not do: drop or change one that exists."""
    names = {one.get("name"): one for one in pod["spec"].get("ephemeralContainers") or ()}
    field = "spec.ephemeralContainers"
    causes = []
    for i, one in enumerate(old["spec"].get("ephemeralContainers") or ()):
        if one["name"] not in names:
            causes.append(Cause.forbidden(field, f'existing ephemeral containers "{one["name"]}" may not be removed'))
        elif names[one["name"]] != one:
            message = f'existing ephemeral containers "{one["name"]}" may not be changed'
            causes.append(Cause.forbidden(f"{field}[{i}]", message))
    return causes


def quality_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory as Kubernetes defines it."""
    asked = limited = False
    equal = True
    for name in ("initContainers", "containers"):
        for container in spec.get(name) or ():
            resources = container.get("resources") or {}
            requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
            for resource in ("cpu", "memory"):
                request, limit = value_of(requests.get(resource, "0")), value_of(limits.get(resource, "0"))
                asked, limited = asked or request > 0, limited or limit > 0
                equal = equal and limit > 0 and request == limit
    if not asked and not limited:
        return "BestEffort"
    return "Guaranteed" if equal else "Burstable"


def _container_causes(path: str, container: Object, seen: set[str]) -> list[Cause]:
    causes = []
    name = container.get("name")
    if not name:
        causes.append(Cause.required(f"{path}.name"))
    elif not is_dns_label(name):
        causes.append(Cause.invalid(f"{path}.name", name, LABEL_MESSAGE))
    elif name in seen:
        causes.append(Cause.duplicate(f"{path}.name", name))
    seen.add(name or "")
    if not container.get("image"):
        causes.append(Cause.required(f"{path}.image"))
    for i, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            causes.append(Cause.required(f"{path}.env[{i}].name"))
        if not isinstance(variable.get("value", ""), str | None):
            causes.append(Cause.invalid(f"{path}.env[{i}].value", variable["value"], "must be a string; quote it"))
    return causes + _resource_causes(f"{path}.resources", container["resources"])


def _resource_causes(path: str, resources: Object) -> list[Cause]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    causes = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            causes += _amount_causes(f"{path}.{kind}[{name}]", name, amount)
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is None:
            if is_extended(name):
                causes.append(Cause.required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
        elif is_extended(name) and value_of(amount) != value_of(limit):
            causes.append(Cause.invalid(f"{path}.requests", amount, f"must be equal to {name} limit of {limit}"))
        elif value_of(amount) > value_of(limit):
            message = f"must be less than or equal to {name} limit of {limit}"
            causes.append(Cause.invalid(f"{path}.requests", amount, message))
    return causes


def _amount_causes(field: str, name: str, amount: str) -> list[Cause]:
    causes = []
    domain, slash, short = name.rpartition("/")
    if slash and not (is_subdomain(domain) and len(short) <= 63 and _RESOURCE_NAME.match(short)):
        causes.append(Cause.invalid(field, name, "a qualified name must consist of a DNS subdomain, '/' and a name"))
    elif not slash and name not in _STANDARD and not name.startswith("hugepages-"):
        causes.append(Cause.invalid(field, name, "must be a standard resource type or fully qualified"))
        causes.append(Cause.invalid(field, name, "must be a standard resource for containers"))
    if value_of(amount) < 0:
        causes.append(Cause.invalid(field, amount, "must be greater than or equal to 0"))
    if is_extended(name) and value_of(amount).denominator != 1:
        causes.append(Cause.invalid(field, amount, "must be an integer"))
    return causes


def _without_mutable(spec: Object, old: Object) -> Object:
    """A spec with everything that may change brought to the old one's value."""
    fixed = dict(spec)
    fixed.pop("activeDeadlineSeconds", None)
    for name in CONTAINER_LISTS:
        if name in fixed:
            fixed[name] = [{key: value for key, value in one.items() if key != "image"} for one in fixed[name]]
    kept = old.get("tolerations") or []
    if all(one in (fixed.get("tolerations") or []) for one in kept):
        fixed["tolerations"] = kept
    if old.get("terminationGracePeriodSeconds", 0) < 0 and fixed.get("terminationGracePeriodSeconds") == 1:
        fixed["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    gates = [one for one in fixed.get("schedulingGates") or () if one in (old.get("schedulingGates") or ())]
    if len(gates) == len(fixed.get("schedulingGates") or ()):
        fixed["schedulingGates"] = old.get("schedulingGates") or []
    return fixed
