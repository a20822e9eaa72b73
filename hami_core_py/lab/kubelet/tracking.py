"""What the kubelet remembers of one container of a pod, and when it may be started again."""

from __future__ import annotations

from dataclasses import dataclass, field

from hami_core_py.lab.kubelet import pods
from hami_core_py.lab.kubelet.api import Json
from hami_core_py.lab.kubelet.runtime import Instance


@dataclass(slots=True)
class Tracked:
    """One container of a pod; times are those of a monotonic clock."""

    spec: Json
    is_init: bool
    instance: Instance | None = None
    """Its latest run."""
    previous: Instance | None = None
    """The run before, which has ended."""
    waiting_reason: str = ""
    waiting_message: str = ""
    is_due: bool = True
    """Whether a new run is wanted: it never ran, or ended and its policy says so."""
    next_try: float = 0.0
    attempts_failed: int = 0
    """How often in a row it could not be created."""
    ends: list[str] = field(default_factory=list)
    """Ids of the runs whose end was seen in a row, for the back-off."""

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.spec["name"])

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that stays."""
        return self.is_init and pods.is_sidecar(self.spec)

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self.instance is not None and self.instance.is_running

    @property
    def has_ended(self) -> bool:
        """Whether its latest run is over."""
        return self.instance is not None and not self.instance.is_running

    @property
    def has_succeeded(self) -> bool:
        """Whether it ran to a good end."""
        return self.has_ended and self.instance is not None and self.instance.exit_code == 0

    @property
    def is_done(self) -> bool:
        """Whether it has ended and stays so."""
        return self.has_ended and not self.is_due

    def delay_after_end(self, base_seconds: float, longest_seconds: float) -> float:
        """How long to wait before the next run: nothing at first, then the base, doubling each time."""
        assert self.instance is not None
        finished = self.instance.finished_at or self.instance.started_at
        if finished - self.instance.started_at > 2 * longest_seconds:
            self.ends.clear()
        if self.instance.id not in self.ends:
            self.ends.append(self.instance.id)
        doublings = len(self.ends) - 2
        return 0.0 if doublings < 0 else min(longest_seconds, base_seconds * 2.0 ** min(doublings, 20))
