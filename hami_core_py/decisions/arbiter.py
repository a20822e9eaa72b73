"""The node's last word: what the pods on a device may hold together must fit it.

Pods are added up, not containers: init and app containers of one pod do not run side by side, and each pod counts with its
peak.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hami_core_py.decisions.usage import plus, pod_usage
from hami_core_py.models.devices import IDLE, Device, DeviceId, Share, Usage
from hami_core_py.models.families import Family
from hami_core_py.models.requests import ContainerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldShare:
    """One share of a pod, with the kind of the container that holds it."""

    container: str
    kind: ContainerKind
    family: str
    device: DeviceId
    share: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One pod that holds devices, or waits to.

    :ivar shares: in the order of the pod's containers, init containers and sidecars first.
    :ivar has_started: whether a container of it was granted its devices; such a pod comes before those that wait.
    :ivar at_ns: time of its record; of two pods the one with the older record comes first.
    """

    uid: str
    shares: tuple[HeldShare, ...]
    has_started: bool = False
    at_ns: int = 0

    @property
    def rank(self) -> tuple[bool, int, str]:
        """Order in which pods are served; the later one yields."""
        return (not self.has_started, self.at_ns, self.uid)

    @property
    def usage(self) -> dict[DeviceId, Usage]:
        """What the pod holds of each device at its peak."""
        containers: dict[str, list[HeldShare]] = {}
        for share in self.shares:
            containers.setdefault(share.container, []).append(share)
        return pod_usage((held[0].kind, [(s.device, s.share) for s in held]) for held in containers.values())


def refusal_of(
    pod: Holder, others: Iterable[Holder], devices: Mapping[DeviceId, Device], families: Mapping[str, Family]
) -> str | None:
    """Whether a pod must wait before its container starts.

    :param others: the other pods alive on the node, and those gone whose containers still run, as started ones.
    :param devices: the devices of the node; shares of others are not judged.
    :returns: ``None``: it may start; else one sentence with the numbers.
    """
    before = [other.usage for other in others if other.uid != pod.uid and other.rank < pod.rank]
    for device_id, own in sorted(pod.usage.items()):
        device = devices.get(device_id)
        if device is None:
            continue
        held = IDLE
        for usage in before:
            held = plus(held, usage.get(device_id, IDLE))
        if problem := _beyond(device, held, own, families[device.family]):
            return f"device {device_id} is held by other pods, {problem}; the container starts once they have ended"
    return None


def _beyond(device: Device, held: Usage, own: Usage, family: Family) -> str | None:
    amounts = [("slots", held.slots, own.slots, device.slots)]
    if "memory" in family.placing.accounts:
        amounts.append(("MiB", held.memory_mib, own.memory_mib, device.memory_mib))
    if "core" in family.placing.accounts:
        amounts.append(("core units", held.core_units, own.core_units, device.core_units))
    if device.cells:
        amounts.append(("cells", held.cells, own.cells, device.cells))
    for unit, taken, needed, total in amounts:
        if needed and taken + needed > total:
            return f"{taken} of {total} {unit} are taken and {needed} needed"
    if clash := held.occupied & own.occupied:
        return f"cells {[i for i in range(clash.bit_length()) if clash >> i & 1]} are taken"
    return None
