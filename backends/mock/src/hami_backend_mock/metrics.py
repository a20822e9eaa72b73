"""Invented measurements (pure)."""

from collections.abc import Sequence

from hami_core_py.models.allocations import Allocation
from hami_core_py.models.samples import Sample

BYTES_PER_MIB = 2**20


def samples(allocations: Sequence[Allocation]) -> tuple[Sample, ...]:
    """Memory in use: half of each share, per container and device."""
    return tuple(
        Sample(
            name="hami_mock_container_memory_used_bytes",
            value=share.memory_mib * BYTES_PER_MIB / 2,
            help="Invented: half of the memory that the container may use on the device.",
            labels={
                "namespace": allocation.namespace,
                "pod": allocation.pod,
                "container": allocation.container,
                "device_uuid": str(device.id),
            },
        )
        for allocation in allocations
        for device, share in allocation.pairs
    )
