"""Device ids as the kubelet counts them: one per slot of a device, and which of them to prefer."""

from collections import Counter
from collections.abc import Iterable, Sequence

from hami_core_py.models.devices import Device, DeviceId

_SEPARATOR = "::"


def kubelet_ids(device: Device) -> tuple[str, ...]:
    """One id per slot, ``<device id>::<slot>`` with slots from 0."""
    return tuple(f"{device.id}{_SEPARATOR}{slot}" for slot in range(device.slots))


def device_of(kubelet_id: str) -> DeviceId | None:
    """The device an id stands for; ``None``: it is not of our making.

    Read strictly from the right, as device ids may hold any character.
    """
    device, separator, slot = kubelet_id.rpartition(_SEPARATOR)
    is_ours = separator and device and slot.isascii() and slot.isdigit() and str(int(slot)) == slot
    return DeviceId(device) if is_ours else None


def preferred_ids(
    available: Iterable[str], must_include: Iterable[str], size: int, wanted: Sequence[DeviceId] | None
) -> tuple[str, ...]:
    """Which ids the kubelet had better give.

    :param wanted: the devices of the container, one per id; ``None``: not known, and then the ids are spread over the
        devices that have most of them left.
    :returns: ``size`` ids, those that must be included first; empty when there are no such ids, which lets the kubelet
        choose by itself.
    """
    chosen = sorted(must_include)
    free: dict[DeviceId, list[str]] = {}
    for one in sorted(set(available) - set(chosen), key=_by_slot):
        device = device_of(one)
        if device is not None:
            free.setdefault(device, []).append(one)
    held = Counter(device for one in chosen if (device := device_of(one)) is not None)
    if wanted is not None:
        for device, count in (Counter(wanted) - held).items():
            chosen += free.get(device, [])[:count]
    else:
        while len(chosen) < size and any(free.values()):
            best = min((d for d in free if free[d]), key=lambda d: (held[d], -len(free[d]), d))
            chosen.append(free[best].pop(0))
            held[best] += 1
    return tuple(chosen) if len(chosen) == size else ()


def _by_slot(kubelet_id: str) -> tuple[str, int]:
    device, _, slot = kubelet_id.rpartition(_SEPARATOR)
    return device, int(slot) if slot.isascii() and slot.isdigit() else 0
