"""The answer for many nodes: which fit, how good they are, and one reason for each that does not."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from hami_core_py.decisions.fit import TESTED_IN_ORDER
from hami_core_py.models.answers import UNCURABLE, Reason, Refusal

_RANK = {reason: rank for rank, reason in enumerate(TESTED_IN_ORDER)}


@dataclass(frozen=True, slots=True)
class ScoredNode:
    """A node that fits. ``score``: 0–1, higher is better."""

    node: str
    score: float


@dataclass(frozen=True, kw_only=True)
class Verdicts:
    """One pod over many nodes.

    :ivar fitting: best first, ties by name; at most as many as the shortlist has places.
    :ivar fits: how many nodes fit, beyond the shortlist too.
    :ivar refused_nodes: names of the nodes that do not fit; ``reasons``: why, one each;
    :ivar incurable: whether no eviction could help, one each.
    """

    fitting: tuple[ScoredNode, ...]
    fits: int
    refused_nodes: Sequence[str] = ()
    reasons: Sequence[Reason] = ()
    incurable: Sequence[bool] = ()

    @cached_property
    def refused(self) -> dict[str, Reason]:
        """Node → why it does not fit."""
        return dict(zip(self.refused_nodes, self.reasons, strict=True))

    @cached_property
    def unresolvable(self) -> frozenset[str]:
        """Nodes that no eviction would help."""
        return frozenset(n for n, never in zip(self.refused_nodes, self.incurable, strict=True) if never)

    def failed(self, sentence: Callable[[Reason], str]) -> tuple[dict[str, str], dict[str, str]]:
        """Node → sentence, for those that an eviction may cure, and for those that none does."""
        known = {reason: sentence(reason) for reason in set(self.reasons)}
        curable: dict[str, str] = {}
        never: dict[str, str] = {}
        for node, reason, incurable in zip(self.refused_nodes, self.reasons, self.incurable, strict=True):
            (never if incurable else curable)[node] = known[reason]
        return curable, never


def headline(refusals: Collection[Refusal]) -> Reason:
    """The one reason that stands for a node: that of the device which came closest to fitting, or of the node itself."""
    devices = [r.reason for r in refusals if r.device is not None]
    if devices:
        return max(devices, key=lambda reason: _RANK.get(reason, -1))
    return next(iter(refusals)).reason


def is_incurable(refusals: Collection[Refusal]) -> bool:
    """Whether the refusals alone say that no eviction cures the node."""
    return all(r.reason in UNCURABLE or not r.curable for r in refusals)
