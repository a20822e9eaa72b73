"""Which pod is tried next: by priority and age, refused ones after a back-off and when something changed."""

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
    sleeps_until: float = 0.0
    is_stale: bool = False
    """Something has changed since it was taken to be tried."""


@dataclass
class SchedulingQueue:
    """Unbound pods. Times are seconds of the caller's clock.

    :ivar first_backoff_seconds: wait after the first refusal, doubled each time up to ``longest_backoff_seconds``.
    :ivar longest_sleep_seconds: a pod is tried again after so long also when nothing changed: the extender may have heard of
        a change a moment later than we did. The real scheduler waits minutes.
    """

    first_backoff_seconds: float = 0.2
    longest_backoff_seconds: float = 2.0
    longest_sleep_seconds: float = 5.0
    pods: dict[Key, Waiting] = field(default_factory=dict)

    def put(self, key: Key, uid: str, priority: int, created: str) -> None:
        """A pod appeared or changed; a changed pod is worth another try."""
        known = self.pods.get(key)
        if known is None or known.uid != uid:
            self.pods[key] = Waiting(uid, priority, created)
        else:
            _wake(known)

    def drop(self, key: Key) -> None:
        """A pod was bound or deleted."""
        self.pods.pop(key, None)

    def wake(self) -> None:
        """Something changed that may let refused pods fit."""
        for waiting in self.pods.values():
            _wake(waiting)

    def refused(self, key: Key, now: float, *, asleep: bool) -> None:
        """A pod's attempt failed; ``asleep``: a change wakes it, also one that came during the attempt."""
        if waiting := self.pods.get(key):
            waiting.attempts += 1
            delay = self.first_backoff_seconds * 2 ** (waiting.attempts - 1)
            waiting.not_before = now + min(delay, self.longest_backoff_seconds)
            waiting.sleeps_until = now + self.longest_sleep_seconds if asleep and not waiting.is_stale else 0.0

    def next(self, now: float) -> Key | None:
        """The pod to try now; ``None`` when none may be tried yet."""
        ready = [(-w.priority, w.created, key) for key, w in self.pods.items() if _due(w) <= now]
        if not ready:
            return None
        key = min(ready)[2]
        self.pods[key].is_stale = False
        return key

    def next_time(self) -> float | None:
        """When the next pod may be tried; ``None`` when there is none."""
        return min((_due(waiting) for waiting in self.pods.values()), default=None)


def _wake(waiting: Waiting) -> None:
    waiting.sleeps_until, waiting.is_stale = 0.0, True


def _due(waiting: Waiting) -> float:
    return max(waiting.not_before, waiting.sleeps_until)
