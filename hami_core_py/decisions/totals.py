"""A node's totals of memory and compute, as extended resources that kube-scheduler can add up against."""

from collections.abc import Iterable, Mapping

from hami_core_py.models.devices import Device, Health
from hami_core_py.models.families import Family, Resources


def node_totals(devices: Iterable[Device], families: Mapping[str, Family]) -> dict[str, int]:
    """Resource → amount over the healthy devices, in the units in which pods ask for it.

    They are coarse, and never the authority: the count resource is not among them, the kubelet counts it.
    """
    totals: dict[str, int] = {}
    for device in devices:
        family = families[device.family]
        resources = family.resources
        is_healthy = device.health is Health.HEALTHY
        amounts = {
            resources.memory: device.memory_mib // family.memory.unit_mib,
            resources.memory_percent: 100,
            resources.core: 100 if family.core.asked_in == "percent" else device.core_units,
        }
        for name, amount in amounts.items():
            if name is not None:
                totals[name] = totals.get(name, 0) + (amount if is_healthy else 0)
    return dict(sorted(totals.items()))


def resources_counted(resources: Resources) -> frozenset[str]:
    """The resources of a family that a node of our own agents shows amounts of, so that kube-scheduler can count them too.

    A pod that asks for any other fits no node by kube-scheduler's own rules, so these must be left to the extender alone.
    """
    counted = (resources.count, resources.memory, resources.memory_percent, resources.core)
    return frozenset(name for name in counted if name)
