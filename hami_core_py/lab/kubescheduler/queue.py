"""Which pod is tried next: by priority and age, refused ones after a back-off and only when something changed."""

from collections.abc import Iterable
from dataclasses import dataclass, field

Key = tuple[str, str]
"""Namespace and name of a pod."""


@dataclass
class Waiting:
    """One pod that is not bound."""

    uid: str
    priority: int
    created: str
    attempts: int = 0
    not_before: float = 0.0
    asleep: bool = False


@dataclass
class SchedulingQueue:
    """Unbound pods. Times are seconds of the caller's clock.

    :ivar first_backoff_seconds: wait after the first refusal, doubled each time up to ``longest_backoff_seconds``.
    """

    first_backoff_seconds: float = 0.2
    longest_backoff_seconds: float = 2.0
    pods: dict[Key, Waiting] = field(default_factory=dict)

    def put(self, key: Key, uid: str, priority: int, created: str) -> None:
        """A pod appeared or changed; a changed pod is worth another try."""
        known = self.pods.get(key)
        if known is None or known.uid != uid:
            self.pods[key] = Waiting(uid, priority, created)
        else:
            known.asleep = False

    def drop(self, key: Key) -> None:
        """A pod was bound or deleted."""
        self.pods.pop(key, None)

    def wake(self) -> None:
        """Something changed that may let refused pods fit."""
        for waiting in self.pods.values():
            waiting.asleep = False

    def refused(self, key: Key, now: float, *, asleep: bool) -> None:
        """A pod's attempt failed; ``asleep``: only a change wakes it."""
        if waiting := self.pods.get(key):
            waiting.attempts += 1
            delay = self.first_backoff_seconds * 2 ** (waiting.attempts - 1)
            waiting.not_before = now + min(delay, self.longest_backoff_seconds)
            waiting.asleep = asleep

    def next(self, now: float) -> Key | None:
        """The pod to try now; ``None`` when none may be tried yet."""
        ready = [(-w.priority, w.created, key) for key, w in self._awake() if w.not_before <= now]
        return min(ready)[2] if ready else None

    def next_time(self) -> float | None:
        """When the next pod may be tried; ``None`` when all wait for a change."""
        return min((w.not_before for _, w in self._awake()), default=None)

    def _awake(self) -> Iterable[tuple[Key, Waiting]]:
        return ((key, waiting) for key, waiting in self.pods.items() if not waiting.asleep)
