"""Names of metrics from before HAMi 2.9, for dashboards that still ask for them (pure).

The older memory series carried byte counts as labels, a new series at each change; these are left out. What we measure under no
newer name, as MIG instances, has no older one either.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from hami_core_py.models.samples import Sample

_DEVICE = {"node": "nodeid", "device_index": "deviceidx", "device_uuid": "deviceuuid", "device_type": "devicetype"}
_CONTAINER = {
    "namespace": "podnamespace",
    "pod": "podname",
    "container": "ctrname",
    "vdevice_index": "vdeviceid",
    "device_uuid": "deviceuuid",
}
_POD = {
    "namespace": "podnamespace",
    "node": "nodename",
    "pod": "podname",
    "container_index": "containeridx",
    "device_uuid": "deviceuuid",
}
OLDER: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "hami_host_gpu_memory_used_bytes": ("HostGPUMemoryUsage", _DEVICE),
    "hami_host_gpu_utilization_ratio": ("HostCoreUtilization", _DEVICE),
    "hami_gpu_memory_limit_bytes": ("GPUDeviceMemoryLimit", _DEVICE),
    "hami_gpu_core_limit_ratio": ("GPUDeviceCoreLimit", _DEVICE),
    "hami_gpu_memory_allocated_bytes": ("GPUDeviceMemoryAllocated", {**_DEVICE, "device_cores": "devicecores"}),
    "hami_gpu_shared_count": ("GPUDeviceSharedNum", _DEVICE),
    "hami_gpu_core_allocated_ratio": ("GPUDeviceCoreAllocated", _DEVICE),
    "hami_node_gpu_memory_allocated_ratio": (
        "nodeGPUMemoryPercentage",
        {name: older for name, older in _DEVICE.items() if name != "device_type"},
    ),
    "hami_vgpu_memory_allocated_bytes": ("vGPUMemoryAllocated", _POD),
    "hami_vgpu_core_allocated_ratio": ("vGPUCoreAllocated", _POD),
    "hami_vgpu_memory_used_bytes": ("vGPU_device_memory_usage_in_bytes", _CONTAINER),
    "hami_vgpu_memory_limit_bytes": ("vGPU_device_memory_limit_in_bytes", _CONTAINER),
    "hami_container_device_memory_bytes": ("Device_memory_desc_of_container", _CONTAINER),
    "hami_container_device_utilization_ratio": ("Device_utilization_desc_of_container", _CONTAINER),
    "hami_container_last_kernel_elapsed_seconds": ("Device_last_kernel_of_container", _CONTAINER),
}
"""Our name → the older one, and how it calls the labels."""


def with_older_names(samples: Iterable[Sample]) -> Iterator[Sample]:
    """All samples, each that had an older name followed by itself under that."""
    for sample in samples:
        yield sample
        if sample.name in OLDER:
            name, labels = OLDER[sample.name]
            known = {older: sample.labels[ours] for ours, older in labels.items() if ours in sample.labels}
            yield replace(sample, name=name, labels={**known, "zone": sample.labels.get("zone", "vGPU")}, warning="")
