"""NVIDIA GPUs as a table."""

from hami_backend_nvidia.settings import Settings
from hami_core_py.models.families import (
    SHARED_LOCK,
    V210,
    AdmissionRule,
    AnnotatedDevices,
    CoreRule,
    Family,
    Handshake,
    MemoryRule,
    Resources,
    Selectors,
)
from hami_core_py.models.requests import WHOLE_DEVICE, CoreUnits, MemoryMib

NAME = "NVIDIA"
SOFT_MODE = "hami-core"
"""The mode of devices whose tenants are held apart by software, as opposed to MIG."""


def nvidia(settings: Settings) -> Family:
    """The family of all NVIDIA GPUs."""
    return Family(
        name=NAME,
        resources=Resources(
            count=settings.resource_count_name,
            memory=settings.resource_memory_name,
            memory_percent=settings.resource_memory_percentage_name,
            core=settings.resource_core_name,
            priority=settings.resource_priority_name,
        ),
        memory=MemoryRule(
            unit_mib=max(settings.memory_factor, 1),
            default=MemoryMib(settings.default_memory) if settings.default_memory else WHOLE_DEVICE,
        ),
        core=CoreRule(default=CoreUnits(settings.default_cores)),
        inventory=AnnotatedDevices(key="hami.io/node-nvidia-register", links_key="hami.io/node-nvidia-score"),
        admission=AdmissionRule(
            default_count=settings.default_gpu_num or None,
            runtime_class=settings.runtime_class_name or None,
            close_always=settings.overwrite_env,
        ),
        selectors=Selectors(
            ids=("nvidia.com/use-gpuuuid",),
            not_ids=("nvidia.com/nouse-gpuuuid",),
            models=("nvidia.com/use-gputype",),
            not_models=("nvidia.com/nouse-gputype",),
            mode=("nvidia.com/vgpu-mode",),
            numa_bind=("nvidia.com/numa-bind",),
        ),
        liveness=Handshake("hami.io/node-handshake", or_capacity_lost=True),
        lock=SHARED_LOCK,
        tells_numa=settings.enable_numa_topology,
        v210=V210(
            allocated="hami.io/vgpu-devices-allocated",
            to_allocate="hami.io/vgpu-devices-to-allocate",
            partitions_metric="hami_node_gpu_mig_instance_info",
        ),
    )
