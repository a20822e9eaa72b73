"""One family's shares in a pod ⇄ the text that v2.10 keeps of them, by the family's spellings."""

from collections.abc import Sequence

from hami_core_py.codecs.v210.numbers import INT32_MAX
from hami_core_py.codecs.v210.pods import PodDevice, parse_pod_devices, render_pod_devices
from hami_core_py.errors import RecordError
from hami_core_py.models.allocations import ContainerPlacement, Pair, RecordedShare
from hami_core_py.models.devices import DeviceId, Share
from hami_core_py.models.families import V210, Family
from hami_core_py.models.views import ContainerView


def render_family_shares(containers: Sequence[ContainerPlacement], family: Family, v210: V210) -> str:
    """One entry per container, those without the family's devices empty.

    :raises RecordError: an amount is more than the text's readers can hold.
    """
    own = [[pair for pair in container.pairs if pair[0].family == family.name] for container in containers]
    return render_pod_devices([[_pod_device(pair, family, v210) for pair in pairs] for pairs in own])


def parse_family_shares(
    text: str, containers: Sequence[ContainerView], family: Family, v210: V210, where: str
) -> list[RecordedShare]:
    """The shares that a text states; those of entries beyond the pod's containers with container ``""``.

    :raises RecordError: an entry cannot be read, names no device or states an amount below 0.
    """
    entries = parse_pod_devices(text, where)
    names = _containers(containers, family, entries)
    return [
        _recorded(device, name, family, v210, where)
        for name, devices in zip(names, entries, strict=True)
        for device in devices
    ]


def _pod_device(pair: Pair, family: Family, v210: V210) -> PodDevice:
    device, share = pair
    word = device.model if v210.type_field == "model" else family.name
    cores = share.mask if v210.cores_field == "cells-mask" else share.core_units
    if cores > INT32_MAX:
        raise RecordError(f"device {device.id}: cores", f"at most {INT32_MAX}", str(cores))
    return PodDevice(id=device.id, type=word, memory_mib=share.memory_mib, cores=cores)


def _containers(
    containers: Sequence[ContainerView], family: Family, entries: Sequence[Sequence[PodDevice]]
) -> list[str]:
    """Which container each entry belongs to.

    Entries count from the first container. v2.10 itself forgets the entries of containers without a device, so that the
    others shift to the front: such a short text, with as many entries as containers that ask, belongs to those in order.
    """
    stated = len(entries) - (1 if entries and not entries[-1] else 0)
    if stated < len(containers):
        asking = [container.name for container in containers if _asks(container, family.resources.count)]
        if len(asking) == stated and all(entries[:stated]):
            return asking + [""] * (len(entries) - stated)
    names = [container.name for container in containers][: len(entries)]
    return names + [""] * (len(entries) - len(names))


def _asks(container: ContainerView, resource: str) -> bool:
    return container.limits.get(resource, container.requests.get(resource, "0")).strip("0") != ""


def _recorded(device: PodDevice, container: str, family: Family, v210: V210, where: str) -> RecordedShare:
    place = f"{where}: device {device.id!r}"
    if not device.id:
        raise RecordError(where, "an id for every device", "''")
    if device.memory_mib < 0 or device.cores < 0:
        raise RecordError(place, "amounts from 0", f"memory {device.memory_mib}, cores {device.cores}")
    is_mask = v210.cores_field == "cells-mask"
    amounts = Share(memory_mib=device.memory_mib, core_units=device.cores)
    return RecordedShare(
        container=container,
        family=family.name,
        device=DeviceId(device.id),
        model=device.type if v210.type_field == "model" else "",
        share=_masked(device, place) if is_mask else amounts,
    )


def _masked(device: PodDevice, where: str) -> Share:
    """The share whose cells the cores field is the mask of; a cell is one core unit."""
    mask = device.cores
    if mask == 0:
        return Share(memory_mib=device.memory_mib)
    start = (mask & -mask).bit_length() - 1
    cells = mask.bit_length() - start
    if mask != ((1 << cells) - 1) << start:
        raise RecordError(f"{where}: cores", "a mask of neighbouring cells", f"{mask:#b}")
    return Share(memory_mib=device.memory_mib, core_units=cells, start=start, cells=cells)
