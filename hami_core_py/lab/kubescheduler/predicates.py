"""The scheduler's own filters: what a node has left, and in kube-scheduler's words why a pod does not fit."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from hami_core_py.codecs.quantities import parse_quantity

Amounts = Mapping[str, Decimal]
ZERO = Decimal(0)


def pod_demand(pod: Mapping[str, Any]) -> dict[str, Decimal]:
    """What a pod asks for: sidecars and apps add up, ordinary init containers take the maximum at their point in time."""
    spec = pod.get("spec") or {}
    running: dict[str, Decimal] = {}
    peak: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or ():
        here = _sum(running, _requests(container))
        if container.get("restartPolicy") == "Always":
            running = here
        peak = {name: max(peak.get(name, ZERO), here.get(name, ZERO)) for name in {*peak, *here}}
    for container in spec.get("containers") or ():
        running = _sum(running, _requests(container))
    demand = {name: max(peak.get(name, ZERO), running.get(name, ZERO)) for name in {*peak, *running}}
    demand["pods"] = Decimal(1)
    return demand


def asks_for(pod: Mapping[str, Any], resources: Iterable[str]) -> bool:
    """Whether any container names one of these resources; kube-scheduler's test of an extender's interest."""
    wanted = set(resources)
    spec = pod.get("spec") or {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        amounts = container.get("resources") or {}
        if wanted & {*(amounts.get("limits") or ()), *(amounts.get("requests") or ())}:
            return True
    return False


def refusals(
    pod: Mapping[str, Any], demand: Amounts, node: Mapping[str, Any], used: Amounts, ignored: frozenset[str]
) -> list[str]:
    """Why a pod cannot run on a node beside what is already there; empty when it can.

    :param ignored: resources whose capacity is not looked at.
    """
    spec, status = node.get("spec") or {}, node.get("status") or {}
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(c.get("type") == "Ready" and c.get("status") != "True" for c in status.get("conditions") or ()):
        return ["node(s) were not ready"]
    if spec.get("unschedulable"):
        return ["node(s) were unschedulable"]
    if any(labels.get(key) != value for key, value in wanted.items()):
        return ["node(s) didn't match Pod's node affinity/selector"]
    allocatable = status.get("allocatable") or {}
    short = (
        name
        for name, amount in sorted(demand.items())
        if amount and name not in ignored and used.get(name, ZERO) + amount > _amount(allocatable.get(name))
    )
    return [f"Insufficient {name}" if name != "pods" else "Too many pods" for name in short]


def _requests(container: Mapping[str, Any]) -> dict[str, Decimal]:
    amounts = container.get("resources") or {}
    asked = {**(amounts.get("limits") or {}), **(amounts.get("requests") or {})}
    return {name: parse_quantity(str(text)) for name, text in asked.items()}


def _amount(text: Any) -> Decimal:
    return ZERO if text is None else parse_quantity(str(text))


def _sum(first: Amounts, second: Amounts) -> dict[str, Decimal]:
    return {name: first.get(name, ZERO) + second.get(name, ZERO) for name in {*first, *second}}
