"""The section ``nvidia`` of the device configuration, as v2.10 spells it."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from hami_core_py.hooks import BackendSettings

MAX_AMOUNT = 2**31 - 1
XIDS = r"^\s*((all|xids|\d+)(\s*,\s*(all|xids|\d+))*\s*)?$"
"""Comma-separated XIDs, or a word for all of them."""


class AllowedProfiles(BaseModel):
    """Models (parts of the product name) and the MIG profiles they may be cut into."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    models: tuple[str, ...] = Field(min_length=1)
    profiles: tuple[str, ...] = Field(min_length=1)

    @field_validator("profiles")
    @classmethod
    def _well_formed(cls, profiles: tuple[str, ...]) -> tuple[str, ...]:
        for profile in profiles:
            slices, dot, memory = profile.partition(".")
            if not dot or not memory or len(slices) < 2 or not slices.endswith("g"):
                raise ValueError(f"MIG profiles such as '1g.5gb', got {profile!r}")
        return profiles


def _allow(models: str, profiles: str) -> AllowedProfiles:
    return AllowedProfiles(models=tuple(models.split(",")), profiles=tuple(profiles.split()))


ALLOWED_PROFILES = (
    _allow("A30", "1g.6gb 2g.12gb 4g.24gb"),
    _allow("A100-SXM4-40GB,A100-40GB-PCIe,A100-PCIE-40GB", "1g.5gb 2g.10gb 3g.20gb 7g.40gb"),
    _allow("A100-SXM4-80GB,A100-80GB-PCIe,A100-PCIE-80GB", "1g.10gb 2g.20gb 3g.40gb 7g.79gb"),
    _allow("H100-PCIE-80GB,H100-SXM5-80GB", "1g.10gb 2g.20gb 3g.40gb 7g.80gb"),
    _allow("H100-PCIE-94GB,H100-SXM5-94GB", "1g.12gb 2g.24gb 3g.47gb 7g.94gb"),
    _allow("H20,H100 on GH200", "1g.12gb 2g.24gb 3g.48gb 7g.96gb"),
    _allow("H200 NVL,H200-SXM5", "1g.18gb 2g.35gb 3g.71gb 7g.141gb"),
    _allow("B200", "1g.23gb 2g.45gb 3g.90gb 7g.180gb"),
    _allow("RTX PRO 6000 Blackwell Server Edition", "1g.24gb 2g.48gb 4g.96gb"),
)


class FilteredDevices(BackendSettings):
    """Devices that are left to other uses."""

    uuid: frozenset[str] = frozenset()
    """Not offered: these UUIDs, compared exactly."""
    index: frozenset[int] = frozenset()
    """Not offered: the devices at these NVML indexes."""


class Settings(BackendSettings):
    """How NVIDIA GPUs are asked for, offered and granted. A resource name that is ``null`` or empty does not exist."""

    resource_count_name: str = Field(default="nvidia.com/gpu", min_length=1)
    """Number of devices."""
    resource_memory_name: str | None = "nvidia.com/gpumem"
    """Memory of each device, in units of ``memoryFactor`` MiB."""
    resource_memory_percentage_name: str | None = "nvidia.com/gpumem-percentage"
    """Memory of each device, in percent of the device's."""
    resource_core_name: str | None = "nvidia.com/gpucores"
    """Compute of each device, in percent."""
    resource_priority_name: str | None = "nvidia.com/priority"
    """Priority of the container's work among the tenants of a device; 0 is high."""
    overwrite_env: bool = False
    """Whether containers of any pod that ask for no GPU are shown none. Containers of admitted pods always are."""
    default_memory: int = Field(default=0, ge=0, le=MAX_AMOUNT)
    """MiB where neither memory nor percentage is asked; 0: the whole device."""
    default_cores: int = Field(default=0, ge=0, le=100)
    """Percent of compute where none is asked; 0: no guaranteed compute."""
    default_gpu_num: int = Field(default=1, ge=0, le=MAX_AMOUNT, alias="defaultGPUNum")
    """Count given to containers that ask for memory or compute only; 0: none is given."""
    memory_factor: int = Field(default=1, ge=0, le=MAX_AMOUNT)
    """MiB per unit of the memory resource; 0 and 1 mean 1."""
    mig_profile_allowlist: tuple[AllowedProfiles, ...] = ALLOWED_PROFILES
    """Which MIG profiles may be used on which models."""
    gpu_core_policy: Literal["", "default", "force", "disable"] = "default"
    """Whether compute limits hold as the container asks, always, or never."""
    runtime_class_name: str = ""
    """Runtime class of pods that ask for a GPU and have none."""
    disable_core_limit: bool = False
    """Whether compute limits are off on this node."""
    device_split_count: int = Field(default=10, ge=1)
    """How many containers may share a device."""
    device_memory_scaling: float = Field(default=1.0, gt=0)
    """Offered memory ÷ physical memory; above 1 memory is over-committed."""
    device_core_scaling: float = Field(default=1.0, gt=0)
    """Offered compute ÷ physical compute."""
    pre_configured_device_memory: int = Field(default=0, ge=0)
    """MiB of devices whose driver does not report memory; 0: such devices are not offered."""
    lib_cuda_log_level: str = "1"
    """Verbosity of the limiter: 0 errors, 1 warnings, 3 information, 4 debugging; empty: its own default."""
    require_limiter: bool = False
    """Whether a container is refused where the limiter library is not installed, instead of started without limits."""
    priority_feedback: bool = False
    """Whether the monitor pauses containers that share a device with more important active ones, and lifts compute limits
    where nobody competes. It must be able to write the node agent's state directory."""
    context_memory: int = Field(default=0, ge=0, le=MAX_AMOUNT)
    """MiB set aside for each context of a process; 0: the limiter goes by what contexts were seen to take."""
    enable_numa_topology: bool = False
    """Whether kubelet's topology manager is told the devices' NUMA nodes."""
    filter_devices: FilteredDevices = FilteredDevices()
    """Devices that are not offered."""
    topology_scores: bool = True
    """Whether links between devices are read, for the policy ``topology-aware``."""
    pass_device_specs: bool = True
    """Whether device nodes are handed to the container beside the variables that the vendor's runtime reads."""
    health_checks_disabled: str = Field(default="", pattern=XIDS)
    """XIDs that do not make a device unhealthy, comma separated; ``all``: none does. Empty: ``DP_DISABLE_HEALTHCHECKS``."""
    health_checks_enabled: str = Field(default="", pattern=XIDS)
    """XIDs that make a device unhealthy although they are ignored otherwise. Empty: ``DP_ENABLE_HEALTHCHECKS``."""
    recovery_seconds: float = Field(default=300.0, gt=0)
    """Time without a critical event after which an unhealthy device that answers counts as healthy again."""
    probe_timeout_seconds: float = Field(default=30.0, gt=0)
    """Time after which a driver that does not answer is given up."""

    @field_validator(
        "resource_memory_name",
        "resource_memory_percentage_name",
        "resource_core_name",
        "resource_priority_name",
        mode="after",
    )
    @classmethod
    def _empty_is_none(cls, name: str | None) -> str | None:
        return name or None

    @field_validator("lib_cuda_log_level", mode="before")
    @classmethod
    def _number_is_text(cls, level: object) -> object:
        return str(level) if isinstance(level, int) else level

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [name for name in self.resource_names() if name]
        double = next((name for name in names if names.count(name) > 1), None)
        if double:
            raise ValueError(f"five different resource names, got {double!r} twice")
        return self

    def resource_names(self) -> tuple[str | None, ...]:
        """Names of count, memory, percentage, core and priority."""
        return (
            self.resource_count_name,
            self.resource_memory_name,
            self.resource_memory_percentage_name,
            self.resource_core_name,
            self.resource_priority_name,
        )
