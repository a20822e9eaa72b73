"""Answers to kube-scheduler, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterAnswer:
    """Which nodes can hold the pod.

    :ivar names: best first; ``None`` when nothing could be decided.
    :ivar failed: node → fixed sentence, where an eviction could help; ``unresolvable``: where none could.
    :ivar error: why nothing could be decided; empty otherwise.
    """

    names: list[str] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    error: str = ""

    @property
    def outcome(self) -> str:
        """One word for the metric."""
        return "error" if self.error else "fits" if self.names else "refused"
