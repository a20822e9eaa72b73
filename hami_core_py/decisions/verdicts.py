"""The answer for many nodes: which fit, how good they are, and one reason for each that does not."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from hami_core_py.decisions.fit import Question, Standing, closed, fit, id_selected, kind_refused, without_rules
from hami_core_py.decisions.nodes import NOT_BLOCKED, Blocked, NodeState
from hami_core_py.decisions.placement import Walk
from hami_core_py.decisions.plan import Plan
from hami_core_py.decisions.ranks import RANK, REASON
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.devices import IDLE, DeviceId, Share, Usage


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
    :ivar refused_nodes: names of the nodes that do not fit, in the order they were asked about.
    :ivar ranks: the number of each one's reason. :ivar incurable: for each, whether no eviction could help.
    """

    fitting: tuple[ScoredNode, ...]
    fits: int
    refused_nodes: Sequence[str] = ()
    ranks: Sequence[int] = ()
    incurable: Sequence[bool] = ()

    @cached_property
    def refused(self) -> dict[str, Reason]:
        """Node → why it does not fit."""
        return dict(zip(self.refused_nodes, map(REASON.__getitem__, self.ranks), strict=True))

    @cached_property
    def unresolvable(self) -> frozenset[str]:
        """Nodes that no eviction would help."""
        return frozenset(n for n, never in zip(self.refused_nodes, self.incurable, strict=True) if never)

    def failed(self, sentence: Callable[[Reason], str]) -> tuple[dict[str, str], dict[str, str]]:
        """Node → sentence, for those that an eviction may cure, and for those that none does."""
        known = {rank: sentence(REASON[rank]) for rank in set(self.ranks)}
        sentences = map(known.__getitem__, self.ranks)
        if not any(self.incurable):
            return dict(zip(self.refused_nodes, sentences, strict=True)), {}
        curable: dict[str, str] = {}
        never: dict[str, str] = {}
        for node, text, incurable in zip(self.refused_nodes, sentences, self.incurable, strict=True):
            (never if incurable else curable)[node] = text
        return curable, never


def exact_reason(
    plan: Plan, node: NodeState, usage: Mapping[DeviceId, Usage], blocked: Blocked, ask: Ask
) -> Reason | None:
    """Why a pod does not fit a node, in one word; ``None`` when it does.

    A request that fails alone names the reason; where each would fit alone, it is that they do not fit together.
    """
    if plan.unknown:
        return Reason.NO_DEVICES
    singles = plan.singles()
    for single in singles:
        placed = Walk(single, node, usage, ask, blocked=blocked).place()
        if not isinstance(placed, Placement):
            return headline(placed, single.questions[0].request.count)
    if len(singles) < 2:
        return None
    together = Walk(plan, node, usage, ask, blocked=blocked).place()
    return None if isinstance(together, Placement) else Reason.NO_COMBINATION


def headline(refusals: Collection[Refusal], count: int) -> Reason:
    """The reason that stands for all refusals of one request for ``count`` devices.

    It is that of the device which came closest to fitting, unless enough would fit were they on one NUMA node.
    """
    on_other_numa = sum(r.reason is Reason.NUMA for r in refusals)
    fitting = on_other_numa + sum(r.usable for r in refusals if r.device is None)
    if on_other_numa and fitting >= count:
        return Reason.NUMA
    whole = [r.reason for r in refusals if r.device is None and r.reason is not Reason.TOO_FEW_DEVICES]
    devices = [r.reason for r in refusals if r.device is not None and r.reason is not Reason.NUMA]
    if whole:
        return whole[-1]
    return max(devices, key=RANK.__getitem__) if devices else Reason.TOO_FEW_DEVICES


def could_ever_fit(plan: Plan, node: NodeState) -> bool:
    """Whether each request would find enough devices by the common rules if nobody used the node."""
    return not plan.unknown and all(_could_ever(q, node) for q in plan.questions)


def _could_ever(question: Question, node: NodeState) -> bool:
    request, placing = question.request, question.family.placing
    if placing.counts is not None and request.count not in placing.counts:
        return False
    plain = without_rules(question)
    by_numa: dict[int, int] = {}
    members = node.of_family(question.family.name)
    for device in members:
        empty = Standing(device=device, before=IDLE, now=IDLE)
        if (
            closed(node, NOT_BLOCKED, device) is None
            and kind_refused(device, question) is None
            and id_selected(device.id, request.selection)
            and isinstance(fit(plain, empty), Share)
        ):
            numa = device.numa if request.numa_bind else 0
            by_numa[numa] = by_numa.get(numa, 0) + 1
    is_cut = any(device.cells for device in members)
    return max(by_numa.values(), default=0) >= (1 if is_cut else request.count)
