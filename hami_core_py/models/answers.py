"""Yes, no, and why not: ordinary answers, not errors."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from hami_core_py.models.devices import DeviceId, Share, no_facts


class Reason(Enum):
    """Why a device, a node or a placement was refused. The value is the stable, documented code."""

    UNHEALTHY = "unhealthy"
    CORDONED = "cordoned"
    MODEL = "model-not-selected"
    MODE = "mode-not-offered"
    NOT_SELECTED = "device-not-selected"
    NO_FREE_SLOT = "no-free-slot"
    NOT_IDLE = "not-idle"
    NOT_ENOUGH_MEMORY = "not-enough-memory"
    NOT_ENOUGH_CORES = "not-enough-cores"
    CORES_EXHAUSTED = "cores-exhausted"
    EXCLUSIVE = "exclusive-use"
    NO_PROFILE = "no-profile"
    NOT_ENOUGH_CELLS = "not-enough-cells"
    NUMA = "numa"
    GROUP = "group"
    TOO_FEW_DEVICES = "too-few-devices"
    NO_COMBINATION = "no-combination"
    COUNT_NOT_ALLOWED = "count-not-allowed"
    QUOTA = "quota"
    BACKEND_RULE = "backend-rule"
    BACKEND_FAILED = "backend-failed"
    UNREADABLE_RECORD = "unreadable-record"
    UNREADABLE_INVENTORY = "unreadable-inventory"
    NO_DEVICES = "no-devices"
    UNKNOWN_NODE = "unknown-node"
    AGENT_AWAY = "agent-away"
    LOCKED = "node-locked"
    STALE = "stale-decision"
    ALREADY_BOUND = "already-bound"


UNCURABLE = frozenset(
    {
        Reason.MODEL,
        Reason.MODE,
        Reason.NOT_SELECTED,
        Reason.COUNT_NOT_ALLOWED,
        Reason.NO_DEVICES,
        Reason.UNKNOWN_NODE,
    }
)
"""Reasons that no eviction cures: a node refused only for these is unresolvable for kube-scheduler's preemption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One "no".

    :ivar device: the device struck, ``None`` when the whole node or combination was.
    :ivar container: name of the container that was refused; empty when it does not matter.
    :ivar detail: the numbers behind it, lower case, for people (``asked 4000 MiB, 3000 of 16384 MiB free``).
    :ivar curable: whether room made by evictions could turn it into a yes.
    """

    reason: Reason
    device: DeviceId | None = None
    container: str = ""
    detail: str = ""
    usable: int = 0
    out_of: int = 0
    curable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One "yes": the share that one device would give."""

    share: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One *seat*: a place on a device that would serve a request.

    It has neither id nor node name, so that one answer holds for every node in the same state.

    :ivar index: the device's position on its node.
    :ivar share: the share the seat would give.
    :ivar pod_shares: how many shares this pod already has on the device.
    :ivar device: number of the device within the node's candidates; seats of one device have the same.
    """

    index: int
    share: Share
    numa: int = 0
    model: str = ""
    groups: Mapping[str, str] = field(default_factory=no_facts)
    links: Mapping[int, int] = field(default_factory=no_facts)
    facts: Mapping[str, object] = field(default_factory=no_facts)
    labels: Mapping[str, int] = field(default_factory=no_facts)
    slots: int = 1
    memory_mib: int = 0
    core_units: int = 100
    used_slots: int = 0
    used_memory_mib: int = 0
    used_core_units: int = 0
    occupied: int = 0
    pod_shares: int = 0
    device: int = 0
