"""HAMi backend for NVIDIA GPUs: the hooks, a few lines each.

Rules live beside it (``families``, ``admission``, ``grants``, ``topology``, ``health``); the driver is read by
``nvml`` in a child process.
"""

from collections.abc import Sequence
from pathlib import Path

from hami_backend_nvidia import admission, families, grants, limiter, nvml
from hami_backend_nvidia.settings import Settings
from hami_core_py.hooks import API, hookimpl
from hami_core_py.models.allocations import Allocation, Grant, HealthChange
from hami_core_py.models.backends import Admission, BackendInfo
from hami_core_py.models.devices import Device
from hami_core_py.models.families import Family
from hami_core_py.models.samples import Sample
from hami_core_py.models.views import ContainerView

MAX_DEVICES = 16
"""As many devices of one container as the limiter has limits for."""
PARTITIONS = "hami.io/vgpu-mig-allocations"
"""Annotation by which v2.10's node plugins learn which partitions a pod holds."""
LIMITER_ENV = (
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_SM_LIMIT",
    *(f"CUDA_DEVICE_MEMORY_LIMIT_{i}" for i in range(MAX_DEVICES)),
    *(f"CUDA_DEVICE_SM_LIMIT_{i}" for i in range(MAX_DEVICES)),
    "CUDA_DEVICE_MEMORY_SHARED_CACHE",
    "CUDA_DISABLE_CONTROL",
    "CUDA_OVERSUBSCRIBE",
    admission.CORE_POLICY,
)


@hookimpl
def hami_backend() -> BackendInfo:
    """Who we are."""
    return BackendInfo(
        name="nvidia",
        vendor="NVIDIA",
        api=API,
        settings=Settings,
        section="nvidia",
        annotations=(PARTITIONS,),
        reserved_env=(admission.VISIBLE, *LIMITER_ENV),
        closing_env={admission.VISIBLE: admission.NOTHING_VISIBLE},
        host_files=limiter.host_files(),
    )


@hookimpl
def hami_families(settings: Settings) -> Sequence[Family]:
    """One family: every NVIDIA GPU."""
    return (families.nvidia(settings),)


@hookimpl
def hami_admit_container(container: ContainerView, settings: Settings) -> Admission:
    """Variables, the core amount of a whole device, or a denial."""
    return admission.admit(container, settings)


@hookimpl
def hami_discover_devices(settings: Settings) -> Sequence[Device]:
    """GPUs that the driver shows; ``()`` without a driver."""
    return nvml.discover(settings)


@hookimpl
def hami_check_health(devices: Sequence[Device], settings: Settings) -> Sequence[HealthChange]:
    """What critical events of the driver, or their absence, changed."""
    return nvml.check_health(devices, settings)


@hookimpl
def hami_allocate(allocation: Allocation, settings: Settings) -> Grant:
    """Visible devices, the limiter with its limits, and device nodes."""
    return grants.grant(allocation, settings, exists=lambda path: Path(path).exists())


@hookimpl
def hami_collect_metrics(allocations: Sequence[Allocation], settings: Settings) -> Sequence[Sample]:
    """Memory and utilisation of the GPUs of this host, and what containers use of them."""
    return nvml.collect(allocations, settings)
