"""What one pod holds, and what that rests on: the values that the ledger keeps and tells."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from hami_core_py.decisions.usage import pod_usage
from hami_core_py.models.allocations import Placement, RecordedShare
from hami_core_py.models.devices import IDLE, DeviceId, Share, Usage
from hami_core_py.models.requests import ContainerKind


class State(Enum):
    """What a holding rests on.

    ``ASSUMED`` – decided, not promised: ends by its deadline and yields to pods of higher priority.
    ``BINDING`` – a Binding is on its way: ends only by a known outcome.
    ``BOUND`` – the pod's record says so.
    """

    ASSUMED = "assumed"
    BINDING = "binding"
    BOUND = "bound"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """What one pod holds.

    :ivar containers: name and kind of each container in the pod's order, init containers and sidecars first; a share of a
        container that is not named counts like an app container's.
    :ivar finished: the pod has succeeded or failed: it holds nothing any more. A terminating pod still holds.
    """

    uid: str
    namespace: str
    name: str
    node: str
    shares: tuple[RecordedShare, ...] = ()
    containers: tuple[tuple[str, ContainerKind], ...] = ()
    priority: int = 0
    finished: bool = False

    def peaks(self) -> dict[DeviceId, Usage]:
        """What is charged to each device."""
        held: dict[str, list[tuple[DeviceId, Share]]] = {}
        for share in self.shares:
            held.setdefault(share.container, []).append((share.device, share.share))
        known = [(kind, held.pop(name, ())) for name, kind in self.containers]
        strangers = [(ContainerKind.APP, shares) for shares in held.values()]
        return pod_usage([*known, *strangers])


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One amount the index had wrong: found and repaired by ``recount``. ``pod`` is set when a whole holding was stale."""

    node: str
    device: DeviceId | None = None
    pod: str = ""
    had: Usage = IDLE
    should: Usage = IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A reservation as others may see it. ``deadline``: on the clock of whoever made it; ``None``: it has none."""

    uid: str
    node: str
    state: State
    priority: int
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A holding as the ledger keeps it.

    :ivar peaks: what it charges to each device. :ivar since: ``changes`` of the ledger before it came.
    """

    holding: Holding
    peaks: Mapping[DeviceId, Usage]
    state: State
    deadline: float | None
    since: int

    def shown(self) -> Reservation:
        """As others may see it."""
        return Reservation(
            uid=self.holding.uid,
            node=self.holding.node,
            state=self.state,
            priority=self.holding.priority,
            deadline=self.deadline,
        )


def recorded_shares(placement: Placement) -> tuple[RecordedShare, ...]:
    """A placement's shares as its record will state them, in the order of the containers."""
    return tuple(
        RecordedShare(
            container=c.name, family=device.family, device=device.id, share=share, model=device.model, numa=device.numa
        )
        for c in placement.containers
        for device, share in c.pairs
    )
