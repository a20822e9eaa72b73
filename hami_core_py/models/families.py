"""A family: one kind of device, described by tables that the core turns into behaviour.

A field exists when two vendors need it, or when it is a spelling on the wire; what only one vendor does is a hook.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import Profile, no_facts
from hami_core_py.models.requests import WHOLE_DEVICE, CoreAsk, CoreUnits, MemoryAsk

Role = Literal["count", "memory", "memory_percent", "core", "priority"]


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Names of the extended resources a container asks with; ``None``: this family has no such resource.

    :ivar read_from: whether amounts may also stand in ``resources.requests``.
    :ivar unmanaged: roles that are left to kube-scheduler.
    """

    count: str
    memory: str | None = None
    memory_percent: str | None = None
    core: str | None = None
    priority: str | None = None
    read_from: Literal["limits", "limits-then-requests"] = "limits-then-requests"
    unmanaged: frozenset[str] = frozenset()

    def names(self) -> tuple[str, ...]:
        """All names of this family, count first."""
        found = (self.count, self.memory, self.memory_percent, self.core, self.priority)
        return tuple(name for name in found if name)


@dataclass(frozen=True, kw_only=True)
class MemoryRule:
    """The number in the memory resource → MiB of one device.

    :ivar unit_mib: MiB per unit of the resource.
    :ivar step_mib: amounts are rounded up to a multiple of this.
    :ivar max_mib: the largest amount of one device that can be asked.
    :ivar allowed_units: the only numbers that may be asked.
    :ivar per: whether the number means each device or the whole container.
    :ivar bytes_with_suffix: a number with a byte suffix means bytes, a bare one units.
    :ivar default: what a container that names no memory gets.
    """

    unit_mib: int = 1
    step_mib: int = 1
    max_mib: int | None = None
    allowed_units: frozenset[int] | None = None
    per: Literal["device", "container"] = "device"
    bytes_with_suffix: bool = False
    default: MemoryAsk = WHOLE_DEVICE


@dataclass(frozen=True, kw_only=True)
class CoreRule:
    """The number in the core resource → core units of one device.

    :ivar asked_in: ``units``, or ``percent`` of the device's own units.
    :ivar lowest: smallest amount that may be asked; ``highest``: largest; beyond them the request is refused.
    :ivar clamp_at: larger amounts are lowered to this; ``None``: they are not.
    """

    asked_in: Literal["units", "percent"] = "units"
    per: Literal["device", "container"] = "device"
    default: CoreAsk = CoreUnits(100)
    lowest: int = 0
    highest: int | None = None
    clamp_at: int | None = 100


@dataclass(frozen=True, kw_only=True)
class Group:
    """Devices that belong together: same fact, or same block of indexes.

    :ivar fact: key of the device's facts whose value is the group.
    :ivar index_block: devices ``i`` and ``j`` belong together when ``i // block == j // block``.
    :ivar when: only devices whose fact (first) has this value (second) are grouped.
    """

    name: str
    fact: str | None = None
    index_block: int | None = None
    when: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class CapacityDevices:
    """Devices counted from node capacity: one per ``per_device`` of a resource; ids are ``<node>-<infix>-<i>``.

    :ivar memory_mib: of one device; ``None``: the node's memory capacity, divided.
    """

    role: Role
    infix: str
    per_device: int = 1
    slots: int = 1
    core_units: int = 100
    numa_nodes: int = 1
    memory_mib: int | None = None


@dataclass(frozen=True, kw_only=True)
class AnnotatedDevices:
    """Devices written by a node plugin into a node annotation.

    :ivar key: the annotation.
    :ivar form: ``json`` or ``text`` of the v2.10 dialect; ``own``: only the backend's hook can read it.
    :ivar also: further annotations and labels whose change counts.
    :ivar core_units: overrides what the annotation says.
    """

    key: str
    form: Literal["json", "text", "own"] = "json"
    groups: tuple[Group, ...] = ()
    core_units: int | None = None
    also: tuple[str, ...] = ()
    profiles_key: str | None = None
    links_key: str | None = None


@dataclass(frozen=True, kw_only=True)
class Placing:
    """How shares are put on devices.

    :ivar accounts: amounts held against capacity; slots always are.
    :ivar exclusive: a device serves one share at a time.
    :ivar exclusive_core: core 100 wants an idle device, core 0 one that is not full.
    :ivar one_device_per_pod: all shares of a pod lie on one device.
    :ivar counts: the only counts that may be asked.
    :ivar mutex_group: name of the group in which the ``mutex`` policy wants no other tenant.
    :ivar together: name of the group whose members score higher together.
    :ivar whole_groups: name of the group that is given as a whole.
    """

    accounts: frozenset[str] = frozenset({"memory", "core"})
    exclusive: bool = False
    exclusive_core: bool = True
    one_device_per_pod: bool = False
    counts: frozenset[int] | None = None
    mutex_group: str | None = None
    together: str | None = None
    whole_groups: str | None = None


@dataclass(frozen=True, kw_only=True)
class AdmissionRule:
    """What the webhook does for this family without asking its backend.

    :ivar default_count: count given to a container that names memory or cores only; ``None``: none is.
    :ivar runtime_class: runtime class of pods that ask for this family and have none.
    :ivar write_memory: whether the rounded amount is written back.
    :ivar mirror: whether limits are copied into requests, and the other way round.
    :ivar close_always: whether the backend's closing variables also go into pods that ask for no device at all.
    """

    default_count: int | None = None
    runtime_class: str | None = None
    write_memory: Literal["never", "if-asked", "always"] = "never"
    mirror: bool = False
    close_always: bool = False


@dataclass(frozen=True, kw_only=True)
class Selectors:
    """Keys of the pod annotations that select devices; several keys of one role all hold.

    :ivar ids: keys listing wanted ids; ``not_ids``: unwanted.
    :ivar models: keys listing wanted model words; ``not_models``: unwanted.
    :ivar mode: key naming wanted modes. :ivar numa_bind: key of the boolean that binds a container to one NUMA node.
    """

    ids: tuple[str, ...] = ()
    not_ids: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    not_models: tuple[str, ...] = ()
    mode: tuple[str, ...] = ()
    numa_bind: tuple[str, ...] = ()


@dataclass(frozen=True)
class Always:
    """Nodes under another's plugin are always taken for alive."""


@dataclass(frozen=True)
class WhileCapacity:
    """Alive while the node's allocatable amount of a role is above zero."""

    role: Role


@dataclass(frozen=True)
class Handshake:
    """Alive by the v2.10 handshake annotation; ``or_capacity_lost``: dead as well when allocatable falls to zero."""

    key: str
    or_capacity_lost: bool = False


Liveness = Always | WhileCapacity | Handshake


@dataclass(frozen=True, kw_only=True)
class NodeLock:
    """The v2.10 node annotation that lets one pod at a time pass from bind to Allocate."""

    key: str
    expires_seconds: int = 300
    names_pod: bool = True


SHARED_LOCK = NodeLock(key="hami.io/mutex.lock")


@dataclass(frozen=True, kw_only=True)
class V210:
    """Spellings of the v2.10 dialect; the native one needs none.

    :ivar allocated: pod annotation of the durable record. :ivar to_allocate: pod annotation of the work list.
    :ivar register: node annotation our own agent writes for older readers; ``None``: the key of ``AnnotatedDevices``.
    :ivar reason_words: reason → word, where it differs from the common table.
    """

    allocated: str
    to_allocate: str | None = None
    partitions_metric: str | None = None
    type_field: Literal["family", "model"] = "family"
    cores_field: Literal["units", "cells-mask"] = "units"
    reason_words: Mapping[Reason, str] = field(default_factory=no_facts)
    shown_first: tuple[Reason, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Family:
    """One kind of device of a backend, with its own resource names and rules.

    :ivar backend: name of the owning backend; filled in by the core.
    :ivar v210: ``None``: this family is in no older HAMi, native dialect only.
    :ivar inventory: ``None``: only our own node agent reports its devices.
    :ivar profiles: sizes of every device; ``Device.profiles`` wins.
    :ivar profile_covers: amounts that a fitting profile must reach.
    :ivar lock: for v2.10 plugins and ordered mode only.
    :ivar score_weight: weight of the backend's score against the core's own 0–1.
    :ivar served: whether our node agent serves this family's count resource.
    :ivar tells_numa: whether the kubelet's topology manager is told the devices' NUMA nodes. It aligns by the ids that the
        kubelet picks, which need not stand for the devices of the pod's record.
    """

    name: str
    resources: Resources
    backend: str = ""
    v210: V210 | None = None
    inventory: CapacityDevices | AnnotatedDevices | None = None
    memory: MemoryRule = MemoryRule()
    core: CoreRule = CoreRule()
    placing: Placing = Placing()
    admission: AdmissionRule = AdmissionRule()
    profiles: tuple[Profile, ...] = ()
    profile_covers: frozenset[str] = frozenset({"memory"})
    selectors: Selectors = Selectors()
    liveness: Liveness = Always()
    lock: NodeLock | None = None
    score_weight: float = 0.0
    served: bool = True
    tells_numa: bool = False
