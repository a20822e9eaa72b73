"""Nominations: a pod that every node shown to us refused is sent to a node that would hold it all the same: one outside the
sample that kube-scheduler shows of a large cluster, or one whose room we heard of only after kube-scheduler had tried.

Setting ``status.nominatedNodeName`` wakes the refused pod, and that node is tried first. It is a hint: nothing is counted for
it, kube-scheduler's own rules still apply there, and it takes the field back when they refuse the node.
"""

import heapq
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError, NotFound
from hami_core_py.cluster.pods import get_pod, nominate
from hami_core_py.services.engine import Engine
from hami_core_py.services.intake.pods import scheduled_condition
from hami_core_py.services.scheduling.recent import Asked

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.3
"""Until kube-scheduler has written its refusal, which would take an earlier nomination back."""

PAUSE_SECONDS = 1.0
"""Between two looks for a node for one pod, at least; it grows with the time since the refusal."""

LAG_SECONDS = 300.0
"""How long after a refusal room is looked for: kube-scheduler may hear of a pod's end, and try too early, long before us when our
watch was cut. After so long it tries a refused pod of its own accord."""

LONGEST_PAUSE_SECONDS = 300.0
"""The pause doubles with each nomination that kube-scheduler refused, up to this."""

REST = 4.0
"""Rest after a look, in times of the processor time it took: filters are answered meanwhile, whatever the backlog."""

REMEMBERED = 4096
"""Pods whose earlier nominations are known."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """A pod's earlier nominations: the nodes, and from when on there may be another (monotonic seconds)."""

    nodes: frozenset[str] = frozenset()
    not_before: float = 0.0


@dataclass(order=True, slots=True)
class _Waiting:
    """A refused pod.

    :ivar due: when it is looked at. :ivar since: when it was first to be looked at after its last refusal.
    :ivar sample: the nodes that refused it, for the first look.
    :ivar seen: ``Engine.room`` at the last look, after which nothing fits before it has changed.
    """

    due: float
    number: int
    asked: Asked = field(compare=False)
    sample: frozenset[str] = field(compare=False)
    since: float = field(compare=False)
    seen: int | None = field(compare=False, default=None)


class Nominator:
    """Nominates from a thread of its own; one nomination for each refused attempt at most.

    :param clock: monotonic seconds. :param settle_seconds: see ``SETTLE_SECONDS``.
    """

    def __init__(
        self,
        client: Client,
        engine: Engine,
        *,
        clock: Callable[[], float] = time.monotonic,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        self._client, self._engine, self._clock, self._settle_seconds = client, engine, clock, settle_seconds
        self._waiting: list[_Waiting] = []
        self._of_pod: dict[str, _Waiting] = {}
        self._tried: OrderedDict[str, _Tried] = OrderedDict()
        self._named: dict[str, float] = {}
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._number = 0
        self._thread = threading.Thread(target=self._run, name="nominate", daemon=True)
        self._thread.start()

    def refused(self, asked: Asked, sample: Collection[str]) -> None:
        """None of these nodes holds the pod. Returns at once."""
        uid, now = asked.pod.uid, self._clock()
        with self._changed:
            # Too soon after the last look is later, not never: nobody may ask again for minutes.
            due = max(now + self._settle_seconds, self._tried.get(uid, _Tried()).not_before)
            waiting = self._of_pod.get(uid)
            if waiting is not None and waiting.due <= due:
                # Not put off: a pod that is refused many times a second has its turn, too.
                waiting.asked, waiting.sample, waiting.since, waiting.seen = asked, frozenset(sample), due, None
                return
            self._number += 1
            self._push(_Waiting(due, self._number, asked, frozenset(sample), since=due))

    def stop(self) -> None:
        """End the thread; what waits is dropped."""
        self._stopping.set()
        with self._changed:
            self._changed.notify()
        self._thread.join(5.0)

    def _run(self) -> None:
        while (waiting := self._next()) is not None:
            began = time.thread_time()
            try:
                self._nominate(waiting)
            except NotFound:
                log.debug("pod went away before it was nominated", extra={"pod": waiting.asked.pod.name})
            except ApiError as problem:
                log.warning("not nominated yet", extra={"pod": waiting.asked.pod.name, "problem": str(problem)})
                self._look_again(waiting)
            except Exception:
                log.exception("not nominated", extra={"pod": waiting.asked.pod.name})
            self._stopping.wait(REST * (time.thread_time() - began))

    def _next(self) -> _Waiting | None:
        """The refusal that is due; ``None``: we are stopped."""
        with self._changed:
            while not self._stopping.is_set():
                pause = self._waiting[0].due - self._clock() if self._waiting else None
                if pause is not None and pause <= 0:
                    waiting = heapq.heappop(self._waiting)
                    if self._of_pod.get(waiting.asked.pod.uid) is not waiting:
                        continue  # a later refusal has taken its place
                    del self._of_pod[waiting.asked.pod.uid]
                    return waiting
                self._changed.wait(pause)
        return None

    def _push(self, waiting: _Waiting) -> None:
        self._of_pod[waiting.asked.pod.uid] = waiting
        heapq.heappush(self._waiting, waiting)
        self._changed.notify()

    def _look_again(self, waiting: _Waiting, seen: int | None = None) -> None:
        """The pod was not nominated this time: later, and less often the longer nobody has refused it anew."""
        now, uid = self._clock(), waiting.asked.pod.uid
        pause = max(PAUSE_SECONDS, (now - waiting.since) / 2)
        with self._changed:
            if now < waiting.since + LAG_SECONDS and uid not in self._of_pod:
                self._push(replace(waiting, due=now + pause, sample=frozenset(), seen=seen))

    def _nominate(self, waiting: _Waiting) -> None:
        asked, sample, pod = waiting.asked, waiting.sample, waiting.asked.pod
        tried = self._tried.get(pod.uid) or _Tried()
        room = self._engine.room
        if waiting.seen == room:
            self._look_again(waiting, room)
            return
        # Those outside the sample first. One inside may fit by now: both of us hear of a pod's end, in either order, and
        # what kube-scheduler tried too early it would not try again for minutes.
        named = self._named_lately()
        names = [name for name in self._engine.inventory.names() if name not in tried.nodes and name not in named]
        fitting = (
            self._engine.evaluate(pod, asked.request, [n for n in names if n not in sample], shortlist=1).fitting
            or self._engine.evaluate(pod, asked.request, [n for n in names if n in sample], shortlist=1).fitting
        )
        if not fitting:
            # A refused pod may be tried many times a second. What kube-scheduler refused once, it may take later.
            self._remember(pod.uid, _Tried(not_before=self._clock() + PAUSE_SECONDS))
            self._look_again(waiting, None if named else room)
            return
        found = get_pod(self._client, pod.namespace, pod.name)
        if not _waits(found, pod.uid):
            return
        if not _is_given_up(found):
            self._look_again(waiting)
            return
        node = fitting[0].node
        nominate(self._client, pod.namespace, pod.name, pod.uid, node)
        self._named[node] = self._clock() + PAUSE_SECONDS
        log.info("nominated", extra={"pod": f"{pod.namespace}/{pod.name}", "node": node})
        nodes = tried.nodes | {node}
        pause = min(LONGEST_PAUSE_SECONDS, PAUSE_SECONDS * 2.0 ** min(len(nodes) - 1, 20))
        self._remember(pod.uid, _Tried(nodes, self._clock() + pause))

    def _named_lately(self) -> frozenset[str]:
        """Nodes that another pod was sent to a moment ago. A crowd that waits for one room must not be sent there at once:
        kube-scheduler counts the others' nominations when it tries one of them, so that none would fit."""
        now = self._clock()
        self._named = {node: until for node, until in self._named.items() if until > now}
        return frozenset(self._named)

    def _remember(self, uid: str, tried: _Tried) -> None:
        with self._changed:
            self._tried[uid] = tried
            self._tried.move_to_end(uid)
            while len(self._tried) > REMEMBERED:
                self._tried.popitem(last=False)


def _waits(found: Mapping[str, Any], uid: str) -> bool:
    """Whether this is the pod, and kube-scheduler still looks for a node for it."""
    metadata, spec = found.get("metadata") or {}, found.get("spec") or {}
    return bool(
        metadata.get("uid") == uid
        and not metadata.get("deletionTimestamp")
        and not spec.get("nodeName")
        and not spec.get("schedulingGates")
    )


def _is_given_up(found: Mapping[str, Any]) -> bool:
    """Whether kube-scheduler has written that it found no node, and names none; on a busy machine it comes to that late."""
    status = found.get("status") or {}
    return bool(not status.get("nominatedNodeName") and scheduled_condition(status.get("conditions") or ()))
