"""What the author of a pod is told: one event for an attempt that found no node, with the numbers behind it, or for a bind that
failed. That a pod was bound kube-scheduler tells itself, and a second event would cost the API server as much as the bind.

Numbers are looked up on a thread of their own, after kube-scheduler has its answer.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hami_core_py.cluster.background import Worker
from hami_core_py.cluster.events import About, EventType
from hami_core_py.decisions.sentences import sentence
from hami_core_py.decisions.verdicts import Verdicts
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.views import PodView
from hami_core_py.services.engine import Engine
from hami_core_py.services.scheduling.recent import Asked

log = logging.getLogger(__name__)

REASONS_TOLD = 4
"""Reasons spelled out in one event, the most frequent first."""

MOST_WAITING = 100
"""Refusals that may wait to be explained."""

SILENT_SECONDS = 30.0
"""A refused pod may be tried many times a second; within this the same reasons are not explained again, nor the same words
repeated."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What a pod was told last.

    :ivar at: monotonic seconds. :ivar ranks: numbers of the reasons that it has heard by then.
    """

    reason: str
    message: str
    at: float
    ranks: frozenset[int] = frozenset()


class Speaker(Protocol):
    """Whoever writes events."""

    def say(self, about: About, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        """Queue one event; returns at once."""


def about(pod: PodView) -> About:
    """A pod as the object of an event."""
    return About("Pod", pod.name, pod.namespace, pod.uid)


class Teller:
    """Says what became of a pod.

    :param clock: monotonic seconds.
    """

    def __init__(self, engine: Engine, events: Speaker, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engine, self._events, self._clock = engine, events, clock
        self._said: dict[str, _Said] = {}
        self._worker = Worker(self._explain, "explain", most=MOST_WAITING)

    def refused(self, asked: Asked, verdicts: Verdicts) -> None:
        """No node fits. Returns at once; when too many wait to be explained, this one is left out."""
        before = self._lately(asked.pod)
        if before is not None and before.reason == "FilteringFailed" and before.ranks.issuperset(verdicts.ranks):
            return
        if not self._worker.take((asked, verdicts)):
            log.debug("refusal not explained", extra={"pod": asked.pod.name})

    def not_read(self, pod: PodView, problem: str) -> None:
        """What the pod asks cannot be read."""
        self._say(pod, "FilteringFailed", problem)

    def bound(self, pod: PodView) -> None:
        """The pod is bound: what it was told before is forgotten."""
        self._said.pop(pod.uid, None)

    def not_bound(self, pod: PodView, problem: str) -> None:
        """The pod could not be bound."""
        self._say(pod, "BindingFailed", problem)

    def wait(self) -> None:
        """Until everything asked for so far has been said."""
        self._worker.wait()

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """End the thread."""
        self._worker.stop(timeout_seconds)

    def _explain(self, waiting: tuple[Asked, Verdicts]) -> None:
        asked, verdicts = waiting
        self._say(asked.pod, "FilteringFailed", self._summary(asked, verdicts), frozenset(verdicts.ranks))

    def _say(self, pod: PodView, reason: str, message: str, ranks: frozenset[int] = frozenset()) -> None:
        before = self._lately(pod)
        if before is not None:
            # All that it has heard: kube-scheduler shows other nodes each time, and their reasons may come and go.
            ranks |= before.ranks
            if (before.reason, before.message) == (reason, message):
                return
        if len(self._said) > 10_000:
            self._said.clear()
        self._said[pod.uid] = _Said(reason, message, self._clock(), ranks)
        self._events.say(about(pod), "Warning", reason, message)

    def _lately(self, pod: PodView) -> _Said | None:
        before = self._said.get(pod.uid)
        return before if before is not None and self._clock() - before.at < SILENT_SECONDS else None

    def _summary(self, asked: Asked, verdicts: Verdicts) -> str:
        counted = Counter(verdicts.refused.values()).most_common()
        first: dict[Reason, str] = {}
        for node, reason in verdicts.refused.items():
            first[reason] = min(first.get(reason, node), node)
        parts = [self._part(asked, reason, count, first[reason]) for reason, count in counted[:REASONS_TOLD]]
        more = sum(count for _, count in counted[REASONS_TOLD:])
        parts += [f"{more} for other reasons"] if more else []
        return f"no node of {len(verdicts.refused)} fits: {'; '.join(parts)}"

    def _part(self, asked: Asked, reason: Reason, count: int, node: str) -> str:
        """How many nodes a reason strikes, with the numbers of one of them."""
        explained = self._engine.explain(asked.request, asked.pod, [node])
        refusals = [r for answer in explained for r in answer.refusals]
        detail = next((_shown(r) for r in refusals if r.reason is reason and r.detail), "")
        return f"{count} because {sentence(reason)} ({node}{': ' + detail if detail else ''})"


def _shown(refusal: Refusal) -> str:
    return f"{refusal.device}: {refusal.detail}" if refusal.device else refusal.detail
