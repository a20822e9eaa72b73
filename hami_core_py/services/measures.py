"""From devices, usage and holdings of one node to metric samples (pure).

Each amount has our name, in base units and from 0 to 1, and the name that other HAMi versions give it, whose ratios go from
0 to 100 and whose samples carry the label ``zone``, so that their dashboards keep working.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from hami_core_py.models.allocations import RecordedShare
from hami_core_py.models.devices import Device, DeviceId, Health, Usage
from hami_core_py.models.families import Family
from hami_core_py.models.samples import Sample
from hami_core_py.services.holding import Holding

MIB = 2**20
ZONE = "vGPU"

HELP = {
    "hami_device_memory_total_bytes": "Memory of the device that can be given away.",
    "hami_device_memory_allocated_bytes": "Memory of the device that is given away.",
    "hami_device_memory_allocated_ratio": "Part of the device's memory that is given away, 0-1.",
    "hami_device_core_allocated_ratio": "Part of the device's compute that is given away, 0-1.",
    "hami_device_slots": "How many containers may share the device.",
    "hami_device_slots_allocated": "How many containers share the device.",
    "hami_device_healthy": "Whether the device is healthy, 0 or 1.",
    "hami_container_memory_limit_bytes": "Memory of the device that the container may use.",
    "hami_container_core_limit_ratio": "Part of the device's compute that the container may use, 0-1.",
    "hami_gpu_memory_limit_bytes": "Memory of the device that can be given away.",
    "hami_gpu_memory_allocated_bytes": "Memory of the device that is given away.",
    "hami_gpu_core_limit_ratio": "Compute of the device that can be given away, in percent.",
    "hami_gpu_core_allocated_ratio": "Compute of the device that is given away, in percent.",
    "hami_gpu_shared_count": "How many containers share the device.",
    "hami_node_gpu_memory_allocated_ratio": "Part of the device's memory that is given away, 0-1.",
    "hami_vgpu_memory_limit_bytes": "Memory of the device that the container may use.",
    "hami_vgpu_memory_allocated_bytes": "Memory of the device that is given to the container.",
    "hami_vgpu_core_allocated_ratio": "Compute of the device that is given to the container, in percent.",
}


def node_samples(
    node: str,
    devices: Iterable[Device],
    usage: Mapping[DeviceId, Usage],
    holdings: Iterable[Holding],
    families: Mapping[str, Family],
) -> tuple[Sample, ...]:
    """Everything about the devices of one node and who holds them."""
    known = {device.id: device for device in devices}
    return tuple(
        chain(
            chain.from_iterable(_device(node, d, usage.get(d.id, Usage()), families) for d in known.values()),
            chain.from_iterable(_pod(node, holding, known, families) for holding in holdings),
        )
    )


def _device(node: str, device: Device, used: Usage, families: Mapping[str, Family]) -> Iterator[Sample]:
    labels = {"node": node, "device_uuid": str(device.id), "device_index": str(device.index)}
    ours = {**labels, "device_type": device.model, "family": device.family}
    yield _sample("hami_device_memory_total_bytes", device.memory_mib * MIB, ours)
    yield _sample("hami_device_memory_allocated_bytes", used.memory_mib * MIB, ours)
    yield _sample("hami_device_slots", device.slots, ours)
    yield _sample("hami_device_slots_allocated", used.slots, ours)
    yield _sample("hami_device_healthy", device.health is Health.HEALTHY, ours)
    if device.memory_mib:
        yield _sample("hami_device_memory_allocated_ratio", used.memory_mib / device.memory_mib, ours)
    if device.core_units:
        yield _sample("hami_device_core_allocated_ratio", used.core_units / device.core_units, ours)

    theirs = {**labels, "device_type": device.model, "zone": ZONE}
    cores = {**theirs, "device_cores": str(device.core_units)}
    yield _sample("hami_gpu_memory_limit_bytes", device.memory_mib * MIB, theirs)
    yield _sample("hami_gpu_memory_allocated_bytes", used.memory_mib * MIB, cores)
    yield _sample("hami_gpu_shared_count", used.slots, theirs)
    if device.memory_mib:
        yield _sample("hami_node_gpu_memory_allocated_ratio", used.memory_mib / device.memory_mib, theirs)
    if device.core_units:
        yield _sample("hami_gpu_core_limit_ratio", _percent(device.core_units, device, families), theirs)
        yield _sample("hami_gpu_core_allocated_ratio", _percent(used.core_units, device, families), theirs)


def _pod(
    node: str, holding: Holding, known: Mapping[DeviceId, Device], families: Mapping[str, Family]
) -> Iterator[Sample]:
    positions: Counter[str] = Counter()
    indexes = {name: str(position) for position, (name, _) in enumerate(holding.containers)}
    for recorded in _summed(holding.shares):
        position = positions[recorded.container]
        positions[recorded.container] += 1
        memory_bytes = recorded.share.memory_mib * MIB
        pod = {"namespace": holding.namespace, "pod": holding.name, "device_uuid": str(recorded.device)}
        ours = {**pod, "node": node, "container": recorded.container}
        yield _sample("hami_container_memory_limit_bytes", memory_bytes, ours)
        theirs = {**pod, "container": recorded.container, "vdevice_index": str(position), "zone": ZONE}
        yield _sample("hami_vgpu_memory_limit_bytes", memory_bytes, theirs)
        allocated = {**pod, "node": node, "container_index": indexes.get(recorded.container, "0"), "zone": ZONE}
        yield _sample("hami_vgpu_memory_allocated_bytes", memory_bytes, allocated)
        device = known.get(recorded.device)
        if device is not None and device.core_units:
            yield _sample("hami_container_core_limit_ratio", recorded.share.core_units / device.core_units, ours)
            percent = _percent(recorded.share.core_units, device, families)
            yield _sample("hami_vgpu_core_allocated_ratio", percent, allocated)


def _summed(shares: Iterable[RecordedShare]) -> Iterator[RecordedShare]:
    """One entry per container and device: several partitions of a device in one container are one series."""
    found: dict[tuple[str, DeviceId], RecordedShare] = {}
    for one in shares:
        key = (one.container, one.device)
        before = found.get(key)
        if before is not None:
            both = replace(
                one.share,
                memory_mib=before.share.memory_mib + one.share.memory_mib,
                core_units=before.share.core_units + one.share.core_units,
            )
            one = replace(one, share=both)
        found[key] = one
    yield from found.values()


def _percent(units: int, device: Device, families: Mapping[str, Family]) -> float:
    """Core units as other versions show them: as they are where a unit is a percent, else rounded up to percent."""
    family = families.get(device.family)
    if (family is None or family.core.asked_in == "units") and device.core_units >= 100:
        return units
    return -(-100 * units // device.core_units)


def _sample(name: str, value: float, labels: Mapping[str, str]) -> Sample:
    return Sample(name=name, value=float(value), help=HELP[name], labels=labels)
