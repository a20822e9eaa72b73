"""Bind: take the devices, lock the node where its plugin needs that, and create one Binding that carries the record.

A step that is known to have failed leaves nothing behind. A Binding whose answer was lost keeps what it took until the pod
itself has been looked at.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from hami_core_py.cluster import pods
from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError, NotFound, ServerFailed
from hami_core_py.cluster.locks import LockHeld, NodeLocks
from hami_core_py.errors import BackendError, BadInputError, HamiError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Refusal
from hami_core_py.models.families import SHARED_LOCK, NodeLock
from hami_core_py.models.views import PodView
from hami_core_py.services.holding import State
from hami_core_py.services.intake import NodeIntake
from hami_core_py.services.reservations import Reservations
from hami_core_py.services.scheduling.recent import Asked, Recent
from hami_core_py.services.scheduling.recording import check_complete, families_of, record_of
from hami_core_py.services.scheduling.telling import Teller

log = logging.getLogger(__name__)


class Binder:
    """Binds pods. Safe for threads; each call waits for the API server.

    :param served: who serves the devices of a node.
    :param lock_wait_seconds: how long bind waits for a node lock that another pod holds; kube-scheduler gives up after 5 s.
    :param clock: monotonic seconds; ``clock_ns``: nanoseconds since the Unix epoch; ``pause``: waits so many seconds.
    """

    def __init__(
        self,
        client: Client,
        reservations: Reservations,
        recent: Recent,
        served: NodeIntake,
        ask: Ask,
        *,
        locks: NodeLocks | None = None,
        teller: Teller | None = None,
        lock_wait_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        clock_ns: Callable[[], int] = time.time_ns,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client, self._reservations, self._recent = client, reservations, recent
        self._served, self._ask, self._teller = served, ask, teller
        self._locks = locks or NodeLocks(client)
        self._lock_wait_seconds = lock_wait_seconds
        self._clock, self._clock_ns, self._pause = clock, clock_ns, pause
        self._guard = threading.Lock()
        self._in_flight: set[str] = set()
        self._locked: dict[str, tuple[NodeLock, ...]] = {}

    def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """Bind a pod to a node. :returns: why it was not bound; empty: it is."""
        with self._guard:
            if uid in self._in_flight:
                return f"pod {namespace}/{name} is being bound already"
            self._in_flight.add(uid)
        try:
            return self._bind(namespace, name, uid, node)
        finally:
            with self._guard:
                self._in_flight.discard(uid)

    def settle(self) -> None:
        """Look at the pods whose Binding has an unknown outcome."""
        for held, note in self._reservations.unsettled():
            with self._guard:
                if held.uid in self._in_flight:
                    continue
            self._look(note.pod, held.node, self._clock() - (note.unknown_since or 0.0))

    def _bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        held = self._reservations.get(uid)
        if held is not None and held.state is State.BINDING:
            answer = self._answer_again(uid, held.node, node)
            if answer is not None:
                return answer
        try:
            asked = self._recall(namespace, name, uid)
        except HamiError as problem:
            if isinstance(problem, NotFound):
                self._reservations.pod_gone(uid)
            self._reservations.refused(uid)
            return f"pod {namespace}/{name}: {problem}"
        taken = self._reservations.begin_binding(asked.pod, asked.request, node)
        if not isinstance(taken, Placement):
            if self._reservations.holds(uid, node):
                return ""  # asked again for what has happened meanwhile
            self._reservations.refused(uid)
            return self._refuse(asked.pod, f"node {node}: {_words(taken)}")
        return self._carry_out(asked, taken)

    def _carry_out(self, asked: Asked, placement: Placement) -> str:
        """Everything between the reservation and its known outcome."""
        pod, node = asked.pod, placement.node
        ordered = frozenset(f for f in families_of(placement) if self._is_ordered(node, f))
        held: list[NodeLock] = []
        began = self._clock()
        try:
            check_complete(asked.request, placement)
            # A pod that asks for nothing of ours is bound as anybody would bind it.
            written = {}
            if asked.request.families:
                written = record_of(pod, placement, self._ask, at_ns=self._clock_ns(), ordered=ordered)
            for lock in self._locks_of(node, ordered):
                self._take_lock(node, pod, lock)
                held.append(lock)
            pods.bind(self._client, pod.namespace, pod.name, pod.uid, node, written)
        except ApiError as problem:
            if problem.outcome_unknown and problem.call.endswith("/binding"):
                return self._unknown(pod, node, tuple(held), problem, began)
            return self._undo(pod, node, held, problem)
        except (BadInputError, BackendError, HamiError) as problem:
            return self._undo(pod, node, held, problem)
        except BaseException:
            self._undo(pod, node, held, HamiError("internal error"))
            raise
        self._happened(pod)
        return ""

    def _unknown(self, pod: PodView, node: str, held: tuple[NodeLock, ...], problem: ApiError, began: float) -> str:
        """The Binding may have happened: find out now if there is time, else keep everything for ``settle``.

        A call that ran out of its own time leaves none: another one would outlast kube-scheduler's patience with us.
        """
        self._reservations.unknown(pod.uid)
        with self._guard:
            self._locked[pod.uid] = held
        # A server that answered has ended the call; only one that ran out of time may still store it.
        has_ended = isinstance(problem, ServerFailed) and problem.status not in (0, 504)
        has_time = self._clock() - began < self._client.timeout_seconds / 2
        outcome = self._look(pod, node, float("inf") if has_ended else 0.0) if has_time else None
        if outcome is True:
            return ""
        if outcome is False:
            return self._refuse(pod, str(problem))
        return self._refuse(pod, f"{problem}; whether it was bound is not known yet")

    def _look(self, pod: PodView, node: str, unknown_for_seconds: float) -> bool | None:
        """Settle a Binding by its pod. :returns: whether it happened; ``None``: not known yet."""
        outcome = self._outcome(pod, node, unknown_for_seconds)
        if outcome is None:
            return None
        with self._guard:
            held = self._locked.pop(pod.uid, ())
        if outcome:
            self._happened(pod)
        else:
            self._release_locks(pod, node, list(held))
            self._reservations.failed(pod.uid)
        log.info("binding settled", extra={"pod": f"{pod.namespace}/{pod.name}", "node": node, "bound": outcome})
        return outcome

    def _outcome(self, pod: PodView, node: str, unknown_for_seconds: float) -> bool | None:
        try:
            found = pods.get_pod(self._client, pod.namespace, pod.name)
        except NotFound:
            return False
        except ApiError as problem:
            log.warning("binding not settled", extra={"pod": pod.name, "problem": str(problem)})
            return None
        if (found.get("metadata") or {}).get("uid") != pod.uid:
            return False
        bound_to = (found.get("spec") or {}).get("nodeName") or ""
        if bound_to:
            return bool(bound_to == node)
        # The server was told to give the call up after one time-out; two later nothing can happen any more.
        return False if unknown_for_seconds > 3 * self._client.timeout_seconds else None

    def _answer_again(self, uid: str, held_node: str, node: str) -> str | None:
        """A second bind while the first one's outcome is unknown. :returns: ``None``: the first did not happen."""
        note = self._reservations.note(uid)
        if note is None:
            return None
        since = note.unknown_since
        outcome = self._look(note.pod, held_node, 0.0 if since is None else self._clock() - since)
        if outcome is None:
            return f"pod is being bound to node {held_node}; its outcome is not known yet"
        if outcome:
            return "" if node == held_node else f"pod is bound to node {held_node} already"
        return None

    def _recall(self, namespace: str, name: str, uid: str) -> Asked:
        """The pod as filter saw it, or as the API server has it. :raises HamiError: it is not this pod, or not readable."""
        known = self._recent.get(uid)
        if known is not None and (known.pod.namespace, known.pod.name) == (namespace, name):
            return known
        found = pods.get_pod(self._client, namespace, name)
        if (found.get("metadata") or {}).get("uid") != uid:
            raise NotFound(404, "NotFound", f"the pod with uid {uid} is gone; another has its name")
        return self._recent.read(found)

    def _is_ordered(self, node: str, family: str) -> bool:
        how = self._served.served(node, family)
        return how is not None and how.ordered

    def _locks_of(self, node: str, ordered: frozenset[str]) -> list[NodeLock]:
        """The locks that the servers of these families need, each once, by backend and family."""
        found: dict[str, NodeLock] = {}
        for family in sorted((self._ask.families[name] for name in ordered), key=lambda f: (f.backend, f.name)):
            how = self._served.served(node, family.name)
            # Our own agent finds its pod by the lock, whatever the family's older plugin did.
            lock = family.lock or (SHARED_LOCK if how is not None and how.ours else None)
            if lock is not None:
                found.setdefault(lock.key, lock)
        return list(found.values())

    def _take_lock(self, node: str, pod: PodView, lock: NodeLock) -> None:
        until = self._clock() + self._lock_wait_seconds
        while True:
            try:
                self._locks.take(node, pod.namespace, pod.name, lock)
                return
            except LockHeld:
                if self._clock() >= until:
                    raise
                self._pause(0.1)

    def _happened(self, pod: PodView) -> None:
        self._reservations.happened(pod.uid)
        self._recent.forget(pod.uid)
        if self._teller is not None:
            self._teller.bound(pod)

    def _undo(self, pod: PodView, node: str, held: list[NodeLock], problem: HamiError) -> str:
        self._release_locks(pod, node, held)
        self._reservations.failed(pod.uid)
        if isinstance(problem, NotFound):
            self._recent.forget(pod.uid)
        return self._refuse(pod, str(problem))

    def _release_locks(self, pod: PodView, node: str, held: list[NodeLock]) -> None:
        """In reverse order; a lock that cannot be released expires, and must not hide why we release it."""
        for lock in reversed(held):
            with suppress(HamiError):
                try:
                    self._locks.release(node, pod.namespace, pod.name, lock)
                except HamiError as problem:
                    log.warning(
                        "node lock not released", extra={"node": node, "key": lock.key, "problem": str(problem)}
                    )
                    raise

    def _refuse(self, pod: PodView, problem: str) -> str:
        if self._teller is not None:
            self._teller.not_bound(pod, problem)
        return problem


def _words(refusals: tuple[Refusal, ...]) -> str:
    """Refusals in one line for an error; the first few say enough."""
    said = []
    for refusal in refusals[:4]:
        device = f"{refusal.device}: " if refusal.device else ""
        said.append(device + (refusal.detail or refusal.reason.value))
    return "; ".join(said) or "the pod does not fit there any more"
