"""Why a pod that asks for a device is not let in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hami_core_py.codecs.requests import place
from hami_core_py.decisions.amounts import impossible_percent, refuse_impossible
from hami_core_py.decisions.requests import families_named
from hami_core_py.decisions.wishes import Wishes
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.requests import PodRequest
from hami_core_py.models.views import PodView

ANNOTATIONS_LIMIT_BYTES: Final = 256 * 1024
"""Most bytes that keys and values of an object's annotations may have together."""


@dataclass(frozen=True)
class Denial:
    """A sentence for the author of the pod, an HTTP code, and a word for programs."""

    message: str
    code: int = 403
    reason: str = "Forbidden"

    @classmethod
    def of_amount(cls, message: str) -> "Denial":
        """An amount that cannot be read or granted; other HAMi versions answer such a pod with this code, and no word."""
        return cls(message, 500, "")


def impossible_amount(pod: PodView, ask: Ask) -> Denial | None:
    """An amount that no device could ever grant. :raises RequestError: likewise, or one that cannot be read."""
    for container in pod.containers:
        for family in families_named(container, ask):
            if sentence := impossible_percent(container, family):
                return Denial.of_amount(sentence)
            refuse_impossible(container, pod, family)
    return None


def privileged(pod: Mapping[str, Any]) -> Denial | None:
    """A privileged container sees all devices of its node, whatever another container of the pod was granted."""
    spec = pod.get("spec") or {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if (container.get("securityContext") or {}).get("privileged"):
            return Denial(f"container {container.get('name')} is privileged")
    return None


def node_assigned(pod: PodView) -> Denial | None:
    """A pod with a node of its own passes no scheduler, so nobody would give it devices."""
    if not pod.node:
        return None
    return Denial(
        "pod has node assigned; leave spec.nodeName empty and choose nodes with spec.nodeSelector or affinity"
    )


def wrong_count(pod: PodView, request: PodRequest, ask: Ask) -> Denial | None:
    """A number of devices that a family never gives to one container."""
    for container, asked in zip(pod.containers, request.containers, strict=True):
        for device in asked.devices:
            family = ask.families[device.family]
            counts = family.placing.counts
            if counts is not None and device.count not in counts:
                allowed = ", ".join(str(count) for count in sorted(counts))
                where = place(pod, container, family.resources.count)
                return Denial.of_amount(f"{where}: expected one of {allowed} devices, got {device.count}")
    return None


def reserved_variables(pod: Mapping[str, Any], request: PodRequest, wishes: Wishes, ask: Ask) -> Denial | None:
    """A container with devices sets a variable by which its backend limits them.

    A variable with the very value that admission gives it is no offence: the pod was admitted before.
    """
    spec = pod.get("spec") or {}
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    for position, (container, asked) in enumerate(zip(containers, request.containers, strict=True)):
        ours = wishes.env(position)
        owners = {ask.owner(device.family).info.name: ask.owner(device.family).info for device in asked.devices}
        for backend, info in sorted(owners.items()):
            reserved = frozenset(info.reserved_env)
            for variable in container.get("env") or ():
                name = variable["name"]
                is_ours = name in ours and "valueFrom" not in variable and variable.get("value", "") == ours[name]
                if name in reserved and not is_ours:
                    return Denial(
                        f"container {asked.name} sets the variable {name}, which backend {backend!r} alone may set "
                        "in a container with its devices; remove it"
                    )
    return None


def no_annotation_room(pod: Mapping[str, Any], room_bytes: int) -> Denial | None:
    """The pod's own annotations leave too little room for its allocation record."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    size = sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items())
    most = ANNOTATIONS_LIMIT_BYTES - room_bytes
    if size <= most:
        return None
    return Denial(
        f"annotations take {size} bytes; a pod with devices may use {most}, the rest is for its allocation record"
    )
