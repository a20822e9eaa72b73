"""What a pod asks for, read once from its containers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from hami_core_py.models.devices import no_facts


@dataclass(frozen=True, slots=True)
class MemoryMib:
    """Ask for so many MiB of every device."""

    value: int


@dataclass(frozen=True, slots=True)
class MemoryPercent:
    """Ask for a part of every device's memory: ``floor(total × value / 100)`` MiB."""

    value: int


@dataclass(frozen=True, slots=True)
class Cells:
    """Ask for so many of the equal parts a device can be cut in."""

    value: int


WholeDevice = Literal["whole-device"]
WHOLE_DEVICE: WholeDevice = "whole-device"
MemoryAsk = MemoryMib | MemoryPercent | Cells | WholeDevice


@dataclass(frozen=True, slots=True)
class CoreUnits:
    """Ask for so many core units of every device; 0 asks for no guaranteed compute."""

    value: int


@dataclass(frozen=True, slots=True)
class CorePercent:
    """Ask for a part of every device's compute: ``floor(total × value / 100)`` core units, at least 1."""

    value: int


CoreAsk = CoreUnits | CorePercent


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which devices the author of the pod wants or does not want. ``None``: no constraint.

    :ivar ids: only these device ids; ``not_ids``: none of these; compared exactly.
    :ivar models: only devices whose model matches one of these words; ``not_models``: none that matches. A word matches
        when it is part of the model in any case, or, written ``=Model Name``, when it is the whole model.
    """

    ids: frozenset[str] | None = None
    not_ids: frozenset[str] | None = None
    models: tuple[str, ...] | None = None
    not_models: tuple[str, ...] | None = None


ANY_DEVICE = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRequest:
    """What one container asks of one family.

    :ivar family: name of the family.
    :ivar count: how many devices, at least 1.
    :ivar memory: per device.
    :ivar core: per device.
    :ivar mode: operating mode the device must offer; empty: any.
    :ivar profiled: whether the share must be cut to a profile even on a device that could give free amounts.
    :ivar labels: words the share will carry.
    :ivar selection: devices wanted and not wanted.
    :ivar numa_bind: whether all devices of the container must sit on one NUMA node.
    """

    family: str
    count: int
    memory: MemoryAsk = WHOLE_DEVICE
    core: CoreAsk = CoreUnits(100)
    mode: str = ""
    profiled: bool = False
    labels: tuple[str, ...] = ()
    selection: Selection = ANY_DEVICE
    numa_bind: bool = False


class ContainerKind(Enum):
    """How long a container lives beside the others of its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """One container of a pod and what it asks; it keeps its position when it asks for nothing."""

    name: str
    kind: ContainerKind = ContainerKind.APP
    devices: tuple[DeviceRequest, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """How much slots, cores and memory count in the score of a device; whole numbers, not all zero."""

    slot: int = 1
    core: int = 1
    memory: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """How to choose among what fits.

    :ivar node: ``binpack`` or ``spread``.
    :ivar device: chain of ``binpack``, ``spread``, ``mutex``, ``numa``, ``topology-aware``, in order of precedence.
    :ivar weights: of the device score.
    """

    node: str = "binpack"
    device: tuple[str, ...] = ("spread",)
    weights: Weights = Weights()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """What a whole pod asks.

    :ivar containers: init containers and sidecars first, in the pod's order, then app containers.
    :ivar policies: how to choose among what fits.
    """

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerRequest, ...]
    policies: Policies = Policies()
    priority: int = 0
    annotations: Mapping[str, str] = field(default_factory=no_facts)

    @property
    def families(self) -> tuple[str, ...]:
        """Names of the families asked for, sorted; empty when the pod asks for no device."""
        return tuple(sorted({device.family for container in self.containers for device in container.devices}))
