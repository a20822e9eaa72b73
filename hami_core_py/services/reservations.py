"""Reservations: placements that count as used before their pods are bound. The ledger counts them; here is their life.

*assumed* – made when filter leaves one node or score ranks one first, because kube-scheduler will most likely bind there. It
ends at the pod's next filter, its deletion, news that the pod could not be scheduled after all, or its deadline; it moves
when kube-scheduler names another node, and yields to a pod of higher priority.

*binding* – made by bind. Only a known outcome ends it: while a call's outcome is unknown the pod may be bound.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from threading import Lock

from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.requests import PodRequest
from hami_core_py.models.views import PodView
from hami_core_py.services.engine import Engine
from hami_core_py.services.holding import Reservation, State

Answer = Placement | tuple[Refusal, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What we remember of a pod beside what the ledger counts.

    :ivar condition: the pod's ``PodScheduled`` condition when kube-scheduler asked; a later one is news.
    :ivar unknown_since: when the outcome of its Binding became unknown, on our clock; ``None`` while it is not.
    """

    pod: PodView
    request: PodRequest
    condition: str = ""
    deadline: float | None = None
    unknown_since: float | None = None


class Reservations:
    """The reservations of one scheduler; listens to the pods that are not bound yet. Safe for threads.

    :param clock: monotonic seconds.
    :param assumed_seconds: life of an assumed reservation.
    :param volume_seconds: the same for a pod with volume claims, which kube-scheduler may bind before the pod.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float] = time.monotonic,
        *,
        assumed_seconds: float = 30.0,
        volume_seconds: float = 660.0,
    ) -> None:
        self._engine, self._ledger, self._clock = engine, engine.ledger, clock
        self._assumed_seconds, self._volume_seconds = assumed_seconds, volume_seconds
        self._lock = Lock()
        self._notes: dict[str, Note] = {}
        # Pods that the ledger knows from us alone, by the number of the last list that had begun by then.
        self._unheard: dict[str, int] = {}
        self._lists = 0

    def get(self, uid: str) -> Reservation | None:
        """A pod's reservation."""
        return self._ledger.reservation(uid)

    def holds(self, uid: str, node: str) -> bool:
        """Whether a pod is known to be bound to a node, by its record or by a Binding that happened."""
        holding = self._ledger.holding(uid)
        return holding is not None and holding.node == node and self._ledger.reservation(uid) is None

    def note(self, uid: str) -> Note | None:
        """What is remembered of a pod that holds a reservation."""
        return self._notes.get(uid)

    def begin_filter(self, uid: str) -> Reservation | None:
        """kube-scheduler looks for a node for the pod anew: an assumed reservation ends, a binding one stays.

        :returns: the binding reservation, which alone may be answered.
        """
        return self._end_assumed(uid)

    def assume(
        self,
        pod: PodView,
        request: PodRequest,
        node: str,
        *,
        condition: str = "",
        waits_for_volumes: bool = False,
    ) -> Answer:
        """Count the pod on the node that kube-scheduler will probably choose, in place of its earlier reservation.

        :param condition: see ``Note``. :returns: its placement, or why it does not fit there.
        """
        deadline = self._clock() + (self._volume_seconds if waits_for_volumes else self._assumed_seconds)
        with self._lock:
            held = self._ledger.reservation(pod.uid)
            if held is not None and held.state is State.BINDING:
                return (Refusal(reason=Reason.ALREADY_BOUND, detail=f"is being bound to node {held.node}"),)
            taken = self._engine.reserve(request, pod, node, State.ASSUMED, deadline=deadline)
            if isinstance(taken, Placement):
                self._notes[pod.uid] = Note(pod=pod, request=request, condition=condition, deadline=deadline)
                self._unheard[pod.uid] = self._lists
        return taken

    def begin_binding(self, pod: PodView, request: PodRequest, node: str) -> Answer:
        """Take the shares for a Binding that is about to be sent. :returns: its placement, or why it does not fit."""
        with self._lock:
            taken = self._engine.reserve(request, pod, node, State.BINDING)
            if isinstance(taken, Placement):
                self._notes[pod.uid] = Note(pod=pod, request=request)
                self._unheard[pod.uid] = self._lists
        return taken

    def refused(self, uid: str) -> None:
        """A bind was refused before any Binding was sent: what was assumed of the pod ends, wherever that was."""
        self._end_assumed(uid)

    def happened(self, uid: str) -> None:
        """The Binding is known to have happened: the shares are held from now on."""
        with self._lock:
            self._ledger.settle(uid)
            self._notes.pop(uid, None)

    def failed(self, uid: str) -> None:
        """The Binding is known not to have happened: nothing is left behind."""
        self._end(uid)

    def unknown(self, uid: str) -> None:
        """The Binding was sent and not answered; ``unsettled`` names it until somebody has found out."""
        with self._lock:
            if (note := self._notes.get(uid)) is not None and note.unknown_since is None:
                self._notes[uid] = replace(note, unknown_since=self._clock())

    def unsettled(self) -> tuple[tuple[Reservation, Note], ...]:
        """Reservations whose Binding has an unknown outcome, by uid."""
        with self._lock:
            notes = sorted((uid, note) for uid, note in self._notes.items() if note.unknown_since is not None)
        held = ((self._ledger.reservation(uid), note) for uid, note in notes)
        return tuple((reservation, note) for reservation, note in held if reservation is not None)

    def expire(self) -> tuple[str, ...]:
        """End the assumed reservations whose time is over. :returns: uids of their pods, sorted."""
        with self._lock:
            over = self._ledger.expire(self._clock())
            for uid in over:
                self._forget(uid)
        return over

    def pod_bound(self, uid: str, node: str) -> None:  # noqa: ARG002
        """The pod is on a node. Its record has replaced the reservation, or somebody bound it without us."""
        held = self._ledger.reservation(uid)
        if held is not None:
            self._end_assumed(uid)
        elif uid in self._unheard:
            with self._lock:
                self._forget(uid)

    def pod_gone(self, uid: str) -> None:
        """The pod was deleted or has ended; a Binding of it can no longer happen."""
        with self._lock:
            self._forget(uid)
            self._ledger.remove(uid)

    def pod_waits(self, uid: str, condition: str, nominated: str) -> None:
        """The pod is not bound: kube-scheduler may have given it up, or named a node for it."""
        note = self._notes.get(uid)
        held = self._ledger.reservation(uid) if note is not None else None
        if note is None or held is None or held.state is not State.ASSUMED:
            return
        if condition and condition != note.condition:
            self._end_assumed(uid)
        elif nominated and nominated != held.node:
            self._go(note, held, nominated)

    def list_begins(self) -> None:
        """All pods are about to be listed."""
        with self._lock:
            self._lists += 1

    def list_ends(self, uids: Collection[str]) -> None:
        """These are all pods there were when the last list began, or came since: who held something before is gone."""
        with self._lock:
            gone = sorted(uid for uid, number in self._unheard.items() if number < self._lists and uid not in uids)
        for uid in gone:
            self.pod_gone(uid)

    def _go(self, note: Note, held: Reservation, node: str) -> None:
        """Move an assumed reservation, with its deadline; where the pod does not fit it just ends."""
        with self._lock:
            if self._ledger.reservation(held.uid) != held:
                return
            taken = self._engine.reserve(note.request, note.pod, node, State.ASSUMED, deadline=note.deadline)
            if not isinstance(taken, Placement):
                self._ledger.release(held.uid)
                self._forget(held.uid)

    def _end_assumed(self, uid: str) -> Reservation | None:
        """End an assumed reservation. :returns: a binding one, which stays, also when it became one just now."""
        with self._lock:
            held = self._ledger.reservation(uid)
            if held is not None and held.state is State.ASSUMED:
                self._ledger.release(uid)
                self._forget(uid)
                return None
            return held

    def _end(self, uid: str) -> None:
        with self._lock:
            if self._ledger.release(uid):
                self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._notes.pop(uid, None)
        self._unheard.pop(uid, None)
