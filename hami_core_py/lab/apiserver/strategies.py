"""What is peculiar to a kind: its defaults, its built-in admission, what it resets and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hami_core_py.lab.apiserver.meta import timestamp
from hami_core_py.lab.apiserver.pod_defaults import admit_pod_spec, canonical_quantities, default_pod_spec
from hami_core_py.lab.apiserver.pod_rules import ephemeral_causes, pod_causes, pod_update_causes, quality_class
from hami_core_py.lab.apiserver.resources import Resource
from hami_core_py.lab.apiserver.status import Cause, Object, bad_request, forbidden

Lookup = Callable[[str], Sequence[Object]]
"""All objects of a resource that has no namespace, by its name."""


class Strategy:
    """The rules of an ordinary kind: whatever a client sends is stored, status apart."""

    keeps_status = False  # whether a new object may bring its status along
    rules_spec_only = False  # whether nothing here has to look again at an object whose spec did not change
    is_graceful = False  # whether a deleted object is marked first even when nothing holds it

    def default(self, obj: Object) -> None:
        """Fill in what decoding fills in; called again after webhooks changed the object."""

    def admit(self, resource: Resource, obj: Object, lookup: Lookup) -> None:
        """The server's own admission of a new object. :raises StatusError: 403 when it is refused."""

    def prepare_create(self, obj: Object) -> None:
        """Reset what a client cannot set."""

    def causes(self, obj: Object) -> list[Cause]:  # noqa: ARG002 - for kinds that have rules
        """What is wrong with the object, metadata apart."""
        return []

    def update_causes(self, obj: Object, old: Object, subresource: str) -> list[Cause]:  # noqa: ARG002 - likewise
        """What this change may not change."""
        return []

    def grace_seconds(self, obj: Object, asked: int | None) -> int:  # noqa: ARG002 - likewise
        """How long a deleted object stays, marked, for someone to end it; 0 removes it at once."""
        return 0


class PodStrategy(Strategy):
    rules_spec_only = True
    is_graceful = True

    def default(self, obj: Object) -> None:
        if not isinstance(obj.get("spec"), dict):
            raise bad_request("pod: expected a spec with containers")
        default_pod_spec(obj["spec"])

    def admit(self, resource: Resource, obj: Object, lookup: Lookup) -> None:
        spec = obj["spec"]
        admit_pod_spec(spec)
        self._set_priority(resource, obj, lookup)
        runtime = spec.get("runtimeClassName")
        if runtime and not any(one["metadata"]["name"] == runtime for one in lookup("runtimeclasses.node.k8s.io")):
            why = f'pod rejected: RuntimeClass "{runtime}" not found'
            raise forbidden(resource, obj["metadata"].get("name", ""), why)

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Pending", "qosClass": quality_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            message = "Scheduling is blocked due to non-empty scheduling gates"
            gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": message}
            obj["status"]["conditions"] = [{**gated, "lastProbeTime": None, "lastTransitionTime": None}]

    def causes(self, obj: Object) -> list[Cause]:
        return pod_causes(obj)

    def update_causes(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "ephemeralcontainers":
            return ephemeral_causes(obj, old)
        return [] if subresource else pod_update_causes(obj, old)

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        if not obj["spec"].get("nodeName") or obj.get("status", {}).get("phase") in ("Failed", "Succeeded"):
            return 0  # no kubelet has it, or nothing of it runs
        grace = asked if asked is not None else obj["spec"].get("terminationGracePeriodSeconds", 30)
        return int(grace) if grace >= 0 else 1

    @staticmethod
    def _set_priority(resource: Resource, obj: Object, lookup: Lookup) -> None:
        spec, name = obj["spec"], obj["spec"].get("priorityClassName")
        classes = lookup("priorityclasses.scheduling.k8s.io")
        if name:
            chosen = [one for one in classes if one["metadata"]["name"] == name]
            if not chosen:
                why = f"no PriorityClass with name {name} was found"
                raise forbidden(resource, obj["metadata"].get("name", ""), why)
        else:
            chosen = sorted((one for one in classes if one.get("globalDefault")), key=lambda one: one.get("value", 0))
            if chosen:
                spec["priorityClassName"] = chosen[0]["metadata"]["name"]
        spec["priority"] = chosen[0].get("value", 0) if chosen else 0
        spec["preemptionPolicy"] = (chosen[0] if chosen else {}).get("preemptionPolicy") or "PreemptLowerPriority"


class NodeStrategy(Strategy):
    keeps_status = True  # a kubelet registers with it

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})
        status = obj.setdefault("status", {})
        for name in ("capacity", "allocatable"):
            if isinstance(status.get(name), dict):
                status[name] = canonical_quantities(status[name], f"status.{name}")


class NamespaceStrategy(Strategy):
    def default(self, obj: Object) -> None:
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), "kubernetes.io/metadata.name": name}
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"phase": "Active"}


class QuotaStrategy(Strategy):
    def default(self, obj: Object) -> None:
        for part, name in (("spec", "hard"), ("status", "hard"), ("status", "used")):
            holder = obj.get(part)
            if isinstance(holder, dict) and isinstance(holder.get(name), dict):
                holder[name] = canonical_quantities(holder[name], f"{part}.{name}")


class WebhookStrategy(Strategy):
    """Webhooks are called at a URL: the lab has no network of services."""

    def default(self, obj: Object) -> None:
        for one in obj.get("webhooks") or ():
            one.setdefault("failurePolicy", "Fail")
            one.setdefault("matchPolicy", "Equivalent")
            one.setdefault("namespaceSelector", {})
            one.setdefault("objectSelector", {})
            one.setdefault("timeoutSeconds", 10)
            if obj["kind"] == "MutatingWebhookConfiguration":
                one.setdefault("reinvocationPolicy", "Never")
            for rule in one.get("rules") or ():
                rule.setdefault("scope", "*")

    def causes(self, obj: Object) -> list[Cause]:
        causes = []
        for i, one in enumerate(obj.get("webhooks") or ()):
            client = one.get("clientConfig") or {}
            field = f"webhooks[{i}].clientConfig"
            if not one.get("name"):
                causes.append(Cause.required(f"webhooks[{i}].name"))
            if client.get("service"):
                why = "the lab has no network of services; give clientConfig.url, such as https://127.0.0.1:8443/mutate"
                causes.append(Cause.forbidden(f"{field}.service", why))
            elif not str(client.get("url", "")).startswith("https://"):
                why = "'https' is the only allowed URL scheme"
                causes.append(Cause.invalid(f"{field}.url", client.get("url", ""), why))
            if one.get("sideEffects") not in ("None", "NoneOnDryRun"):
                got = str(one.get("sideEffects", ""))
                causes.append(Cause.unsupported(f"webhooks[{i}].sideEffects", got, ("None", "NoneOnDryRun")))
            if not 1 <= one["timeoutSeconds"] <= 30:
                why = "the timeout value must be between 1 and 30 seconds"
                causes.append(Cause.invalid(f"webhooks[{i}].timeoutSeconds", one["timeoutSeconds"], why))
        return causes


_PLAIN = Strategy()
_STRATEGIES: dict[str, Strategy] = {
    "pods": PodStrategy(),
    "nodes": NodeStrategy(),
    "namespaces": NamespaceStrategy(),
    "resourcequotas": QuotaStrategy(),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": WebhookStrategy(),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": WebhookStrategy(),
}


def strategy_of(resource: Resource) -> Strategy:
    return _STRATEGIES.get(resource.qualified, _PLAIN)


def scheduled(status: Object, now: float) -> Object:
    """A pod's status once it has been given a node."""
    condition: Object = {"type": "PodScheduled", "status": "True"}
    condition |= {"lastProbeTime": None, "lastTransitionTime": timestamp(now)}
    conditions: list[Any] = [one for one in status.get("conditions") or () if one.get("type") != "PodScheduled"]
    result = {key: value for key, value in status.items() if key != "nominatedNodeName"}
    return {**result, "conditions": [*conditions, condition]}
