"""Reservations: placements that count as used before their pods are bound.

*assumed* – made when filter leaves one node or score ranks one first, because kube-scheduler will most likely bind there. It
ends at the pod's next filter, its deletion, news that the pod could not be scheduled after all, or its deadline; it moves
when kube-scheduler names another node, and yields to a pod of higher priority.

*binding* – made by bind. Only a known outcome ends it: while a call's outcome is unknown the pod may be bound.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from hami_core_py.models.views import PodView


class State(Enum):
    """How far a reservation has come."""

    ASSUMED = "assumed"
    BINDING = "binding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """One pod's reservation on one node.

    :ivar since: when it was made; :ivar deadline: when an assumed one ends. Both by the clock of ``Reservations``.
    :ivar condition: the pod's ``PodScheduled`` condition when kube-scheduler asked; a later one is news.
    :ivar unknown_since: when the outcome of its Binding became unknown; ``None`` while it is not.
    """

    uid: str
    namespace: str
    name: str
    node: str
    state: State
    since: float
    deadline: float
    priority: int = 0
    condition: str = ""
    unknown_since: float | None = None


class Reservations:
    """The reservations of one scheduler. It decides and remembers; the ledger, kept in step by the caller, counts.

    :param clock: monotonic seconds.
    :param assumed_seconds: life of an assumed reservation.
    :param volume_seconds: the same for a pod with unbound volume claims, which kube-scheduler binds before the pod.
    """

    def __init__(
        self, clock: Callable[[], float], *, assumed_seconds: float = 30.0, volume_seconds: float = 660.0
    ) -> None:
        self._clock = clock
        self._assumed_seconds, self._volume_seconds = assumed_seconds, volume_seconds
        self._held: dict[str, Reservation] = {}

    def get(self, uid: str) -> Reservation | None:
        """The reservation of a pod."""
        return self._held.get(uid)

    def all(self) -> tuple[Reservation, ...]:
        """All reservations, by uid."""
        return tuple(held for _, held in sorted(self._held.items()))

    def assume(self, pod: PodView, node: str, *, waits_for_volumes: bool = False, condition: str = "") -> Reservation:
        """Remember that a pod will probably be bound to a node. A pod holds one reservation; this replaces an assumed one."""
        now = self._clock()
        life = self._volume_seconds if waits_for_volumes else self._assumed_seconds
        return self._keep(pod, node, State.ASSUMED, now, now + life, condition)

    def begin_binding(self, pod: PodView, node: str) -> Reservation:
        """Remember that a pod is being bound to a node."""
        now = self._clock()
        return self._keep(pod, node, State.BINDING, now, float("inf"), "")

    def begin_filter(self, uid: str) -> Reservation | None:
        """kube-scheduler looks for a node for the pod anew: an assumed reservation ends, a binding one stays.

        :returns: what the pod held until now.
        """
        held = self._held.get(uid)
        if held is not None and held.state is State.ASSUMED:
            del self._held[uid]
        return held

    def move(self, uid: str, node: str) -> Reservation | None:
        """kube-scheduler named another node: an assumed reservation goes there, with its deadline. ``None``: nothing to move."""
        held = self._held.get(uid)
        if held is None or held.state is not State.ASSUMED or held.node == node:
            return None
        moved = replace(held, node=node)
        self._held[uid] = moved
        return moved

    def end_unscheduled(self, uid: str, condition: str) -> bool:
        """The pod's condition says that it was not scheduled. :returns: whether that ended an assumed reservation."""
        held = self._held.get(uid)
        if held is None or held.state is not State.ASSUMED or condition == held.condition:
            return False
        del self._held[uid]
        return True

    def end(self, uid: str) -> Reservation | None:
        """The outcome is known, or the pod is gone. :returns: what ended."""
        return self._held.pop(uid, None)

    def outcome_unknown(self, uid: str) -> None:
        """The Binding was sent and not answered; see ``unsettled``."""
        held = self._held.get(uid)
        if held is not None and held.state is State.BINDING and held.unknown_since is None:
            self._held[uid] = replace(held, unknown_since=self._clock())

    def unsettled(self) -> tuple[Reservation, ...]:
        """Reservations whose Binding has an unknown outcome, by uid."""
        return tuple(held for held in self.all() if held.unknown_since is not None)

    def expire(self) -> tuple[Reservation, ...]:
        """End the assumed reservations whose time is over. :returns: them, by uid."""
        now = self._clock()
        over = tuple(held for held in self.all() if held.state is State.ASSUMED and held.deadline <= now)
        for held in over:
            del self._held[held.uid]
        return over

    def yielding(self, node: str, priority: int) -> tuple[str, ...]:
        """Uids of the assumed reservations on a node that yield to a pod of this priority, sorted."""
        return tuple(h.uid for h in self.all() if h.node == node and h.state is State.ASSUMED and h.priority < priority)

    def nodes_yielding(self, priority: int) -> frozenset[str]:
        """Nodes on which some reservation yields to a pod of this priority."""
        return frozenset(h.node for h in self._held.values() if h.state is State.ASSUMED and h.priority < priority)

    def _keep(self, pod: PodView, node: str, state: State, now: float, deadline: float, condition: str) -> Reservation:
        held = Reservation(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            node=node,
            state=state,
            since=now,
            deadline=deadline,
            priority=pod.priority,
            condition=condition,
        )
        self._held[pod.uid] = held
        return held
