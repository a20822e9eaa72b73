"""Devices of a node, the shares given away of them, and the sum of these shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, NewType

DeviceId = NewType("DeviceId", str)
"""Stable identity of a device on the whole cluster, such as a UUID; compared exactly."""

NO_FACTS: Mapping[str, Any] = MappingProxyType({})
"""The shared empty mapping of values that have nothing to say."""


def no_facts() -> Mapping[Any, Any]:
    """The shared empty mapping, as a default of frozen fields."""
    return NO_FACTS


class Health(Enum):
    """Whether a device may serve new shares."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A size the hardware can be cut into.

    :ivar name: the vendor's name; empty for a size without one (a whole device, a step).
    :ivar memory_mib: memory of one cut, in MiB.
    :ivar core_units: compute of one cut, in core units.
    :ivar cells: how many equal parts of the device one cut occupies; 0 when cells do not matter.
    :ivar starts: legal first cells, preferred first; empty when only the sum of cells counts.
    """

    name: str
    memory_mib: int
    core_units: int = 0
    cells: int = 0
    starts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator, or one fixed hardware partition, that can be shared.

    :ivar id: stable identity.
    :ivar family: name of the family whose rules apply.
    :ivar index: position on its node, from 0.
    :ivar model: product name as the vendor writes it; selections match it.
    :ivar slots: how many containers may share it at once.
    :ivar memory_mib: schedulable memory in MiB, after scaling.
    :ivar core_units: schedulable compute, 100 a device unless its family says otherwise.
    :ivar numa: NUMA node, 0 when unknown.
    :ivar modes: operating modes it offers; empty fits every asked mode.
    :ivar groups: devices that belong together: name of the group → its value on this device.
    :ivar links: peer device → link score, higher is closer.
    :ivar facts: what else the inventory says, opaque to the core.
    :ivar cells: number of equal parts that profiles occupy; 0 when it cannot be cut.
    :ivar blocked_cells: bit mask of cells that strangers hold.
    :ivar profiles: sizes this device can be cut into; empty: the family's.
    """

    id: DeviceId
    family: str
    index: int = 0
    model: str = ""
    slots: int = 1
    memory_mib: int = 0
    core_units: int = 100
    numa: int = 0
    health: Health = Health.HEALTHY
    modes: tuple[str, ...] = ()
    groups: Mapping[str, str] = field(default_factory=no_facts)
    links: Mapping[DeviceId, int] = field(default_factory=no_facts)
    facts: Mapping[str, Any] = field(default_factory=no_facts)
    cells: int = 0
    blocked_cells: int = 0
    profiles: tuple[Profile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of one device given to one container. What is charged *is* what is recorded.

    :ivar slots: 1, or 0 for a bare reservation that no container claims.
    :ivar memory_mib: memory in MiB.
    :ivar core_units: compute in core units.
    :ivar profile: name of the profile it was cut to; empty when free amounts.
    :ivar start: first cell, when the profile's place matters.
    :ivar cells: number of cells it occupies.
    :ivar labels: words that other tenants' rules look at.
    """

    slots: int = 1
    memory_mib: int = 0
    core_units: int = 0
    profile: str = ""
    start: int | None = None
    cells: int = 0
    labels: tuple[str, ...] = ()

    @property
    def mask(self) -> int:
        """Bit mask of the cells this share holds; 0 when it holds none or its place does not matter."""
        return 0 if self.start is None else ((1 << self.cells) - 1) << self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Sum of the shares on a device; adding and removing a share is the whole of charging.

    :ivar occupied: bit mask of the cells in use.
    :ivar labels: label → number of shares that carry it, without zeros.
    """

    slots: int = 0
    memory_mib: int = 0
    core_units: int = 0
    cells: int = 0
    occupied: int = 0
    labels: Mapping[str, int] = field(default_factory=no_facts)


IDLE = Usage()
"""The usage of a device that nobody shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What one node says about its devices of one family.

    :ivar devices: in the order the node reports them; empty means "nothing here".
    :ivar facts: what else this node says, opaque to the core.
    """

    devices: tuple[Device, ...] = ()
    facts: Mapping[str, str] = field(default_factory=no_facts)
