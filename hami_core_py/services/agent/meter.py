"""What the agent counts about itself; an exporter reads it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the duration histogram; the kubelet gives up after 30 s."""


@dataclass(frozen=True, kw_only=True)
class Durations:
    """A histogram: counts per bucket (the last one has no bound), and the sum in seconds."""

    counts: tuple[int, ...] = (0,) * (len(BUCKETS_SECONDS) + 1)
    sum_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """All counts at one moment.

    :ivar allocations: (family, outcome) → count. :ivar discovery_errors: backend → count.
    """

    allocations: Mapping[tuple[str, str], int] = field(default_factory=dict)
    discovery_errors: Mapping[str, int] = field(default_factory=dict)
    prestart: Durations = Durations()
    registrations: Mapping[str, int] = field(default_factory=dict)


class Meter:
    """Counts; may be used from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._allocations: Counter[tuple[str, str]] = Counter()
        self._discovery_errors: Counter[str] = Counter()
        self._registrations: Counter[str] = Counter()
        self._buckets = [0] * (len(BUCKETS_SECONDS) + 1)
        self._sum = 0.0

    def allocated(self, family: str, outcome: str) -> None:
        """One container was served, or refused: ``granted``, or the cause of the refusal."""
        with self._lock:
            self._allocations[family, outcome] += 1

    def discovery_failed(self, backend: str) -> None:
        """A backend raised, or did not answer in time."""
        with self._lock:
            self._discovery_errors[backend] += 1

    def registered(self, family: str) -> None:
        """The kubelet accepted a plugin."""
        with self._lock:
            self._registrations[family] += 1

    def prestart_took(self, seconds: float) -> None:
        """One PreStartContainer call has been answered."""
        with self._lock:
            self._buckets[sum(bound < seconds for bound in BUCKETS_SECONDS)] += 1
            self._sum += seconds

    def read(self) -> Reading:
        """All counts now."""
        with self._lock:
            return Reading(
                allocations=dict(self._allocations),
                discovery_errors=dict(self._discovery_errors),
                prestart=Durations(counts=tuple(self._buckets), sum_seconds=self._sum),
                registrations=dict(self._registrations),
            )
