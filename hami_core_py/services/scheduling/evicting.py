"""Ends pods whose limits do not hold, where that is wanted, on the word of the monitor of their node.

The monitor only says what it sees, as an event on the pod. An event is easily written, so it counts for little by itself:
the API server must refuse such events by anybody but a node's agent (which is tried before each eviction), and a node's word
counts for pods alone that hold a record there. The eviction goes through the API for evictions, where disruption budgets count.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError, Busy, Conflict, NotFound
from hami_core_py.cluster.events import EVENTS, About, Events, is_kept_from_others
from hami_core_py.cluster.pods import evict
from hami_core_py.cluster.watch import Watcher
from hami_core_py.codecs.times import SECOND_NS, parse_time
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.warnings import COMPONENT, FRESH_SECONDS, REASON

log = logging.getLogger(__name__)

EVICTED = "EvictedForLimit"
MESSAGE = "evicted because its limits do not hold on node {node}; the event LimitNotHeld says which"
OUTCOMES = ("evicted", "held_back", "failed", "unguarded")
"""Of an attempt: it was taken up, a disruption budget stood in the way, it went wrong, or anybody could have asked for it."""
GUARD_SECONDS = 60.0
"""How long an answer of the API server counts that events are kept from others."""
RETRY_SECONDS = 10.0
TICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Warned:
    """A pod that a monitor has warned about. :ivar at: seconds since the Unix epoch, when it last did."""

    uid: str
    namespace: str
    name: str
    node: str
    at: float


def read_warning(event: dict[str, Any]) -> Warned | None:
    """What an event says; ``None``: it is no monitor's warning about a pod."""
    about, source = event.get("involvedObject") or {}, event.get("source") or {}
    if event.get("reason") != REASON or event.get("reportingComponent") != COMPONENT or about.get("kind") != "Pod":
        return None
    told = (about.get("uid"), about.get("namespace"), about.get("name"), source.get("host"))
    uid, namespace, name, node = (str(field or "") for field in told)
    at = parse_time(event.get("lastTimestamp") or "", "lastTimestamp of a monitor's event")
    return Warned(uid, namespace, name, node, at / SECOND_NS)


class Evictor:
    """Evicts in a thread of its own.

    :param ready: what is not known of the cluster yet; nobody is evicted before all is.
    :param clock: monotonic seconds. :param now: seconds since the Unix epoch.
    :ivar outcomes: how often each of ``OUTCOMES`` came about.
    """

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        events: Events,
        *,
        ready: Callable[[], str | None],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        back_off_seconds: tuple[float, float] = (0.2, 5.0),
    ) -> None:
        self.outcomes: Counter[str] = Counter()
        self._client, self._ledger, self._events = client, ledger, events
        self._ready, self._clock, self._now = ready, clock, now
        self._lock = threading.Lock()
        self._warned: dict[str, Warned] = {}
        self._not_before: dict[str, float] = {}
        self._guarded_until = float("-inf")
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._watch = Watcher(
            client,
            EVENTS,
            {"fieldSelector": f"reason={REASON}"},
            on_event=lambda kind, warned: None if kind == "DELETED" else self.note([warned]),
            on_sync=self.note,
            transform=read_warning,
            name="watch warnings",
            back_off_seconds=back_off_seconds,
        )
        self._thread = threading.Thread(target=self._run, name="evict", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._watch.start()
        self._thread.start()

    def stop(self) -> None:
        """End both threads."""
        self._stopped.set()
        self._woken.set()
        self._watch.stop()
        if self._thread.is_alive():
            self._thread.join(5.0)

    def note(self, warnings: Iterable[Warned | None]) -> None:
        """Remember what monitors said; what is too old to count is left out."""
        oldest = self._now() - FRESH_SECONDS
        with self._lock:
            for warned in warnings:
                if warned is not None and warned.at >= oldest:
                    self._warned[warned.uid] = warned
        self._woken.set()

    def tick(self) -> None:
        """Evict whom it is time to evict."""
        if self._ready() is not None:
            return
        oldest = self._now() - FRESH_SECONDS
        with self._lock:
            waiting = list(self._warned.values())
        for warned in waiting:
            if warned.at < oldest or not self._holds(warned):
                self._forget(warned)
            elif self._clock() >= self._not_before.get(warned.uid, float("-inf")):
                self._try(warned)

    def _holds(self, warned: Warned) -> bool:
        """Whether the pod holds something on the node whose monitor spoke, by a record and not by a mere reservation."""
        held = self._ledger.holding(warned.uid)
        if held is None or held.finished or self._ledger.reservation(warned.uid) is not None:
            return False
        return (held.node, held.namespace, held.name) == (warned.node, warned.namespace, warned.name)

    def _try(self, warned: Warned) -> None:
        fields = {"pod": warned.name, "namespace": warned.namespace, "node": warned.node}
        try:
            if not self._is_guarded():
                self._later(warned, "unguarded", GUARD_SECONDS)
                return
            evict(self._client, warned.namespace, warned.name, warned.uid)
        except (NotFound, Conflict):
            self._forget(warned)  # it is gone, or another one
        except Busy as problem:
            log.info("eviction held back", extra={**fields, "problem": str(problem)})
            self._later(warned, "held_back", problem.retry_after_seconds or RETRY_SECONDS)
        except ApiError as problem:
            log.warning("pod not evicted", extra={**fields, "problem": str(problem)})
            self._later(warned, "failed", RETRY_SECONDS)
        else:
            log.warning("pod evicted: its limits do not hold", extra=fields)
            self._later(warned, "evicted", FRESH_SECONDS)  # it ends within its grace period
            about = About("Pod", warned.name, warned.namespace, warned.uid)
            self._events.say(about, "Warning", EVICTED, MESSAGE.format(node=warned.node))

    def _is_guarded(self) -> bool:
        """Whether the API server keeps such events from others: it must refuse one of ours."""
        if self._clock() < self._guarded_until:
            return True
        if not is_kept_from_others(self._client, COMPONENT, REASON):
            log.error(
                "no pod is evicted: anybody who may write events could have one evicted; "
                "install the chart with admissionPolicy.enabled, or set monitor.evict: false"
            )
            return False
        self._guarded_until = self._clock() + GUARD_SECONDS
        return True

    def _later(self, warned: Warned, outcome: str, seconds: float) -> None:
        self.outcomes[outcome] += 1
        self._not_before[warned.uid] = self._clock() + seconds

    def _forget(self, warned: Warned) -> None:
        """Unless the monitor has spoken again meanwhile."""
        with self._lock:
            if self._warned.get(warned.uid) == warned:
                del self._warned[warned.uid]
                self._not_before.pop(warned.uid, None)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._woken.wait(TICK_SECONDS if self._warned else None)
            self._woken.clear()
            if self._stopped.is_set():
                return
            try:
                self.tick()
            except Exception:
                log.exception("warnings not followed this time")
