"""Placing pods: the two indexes, the decisions, and the promise that both agree."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from hami_core_py.decisions.explain import NodeExplanation, describe
from hami_core_py.decisions.nodes import Blocked, NodeState
from hami_core_py.decisions.placement import Describe, Refusals, Walk, placement_views
from hami_core_py.decisions.plan import Plan, compile_plan
from hami_core_py.decisions.score import combined, core_score, fullness
from hami_core_py.decisions.verdicts import ScoredNode, Verdicts, headline
from hami_core_py.errors import BackendError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.devices import DeviceId, Usage
from hami_core_py.models.requests import PodRequest
from hami_core_py.models.views import PodView
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger, State

MOST_TRIES = 5
"""How often a reservation is decided anew when the node changes in between."""


class Engine:
    """Answers about placing one pod; keeps no state of its own but what it derives from inventory and ledger."""

    def __init__(self, inventory: Inventory, ledger: Ledger, ask: Ask) -> None:
        self.inventory, self.ledger, self.ask = inventory, ledger, ask

    def evaluate(
        self,
        pod: PodView,
        request: PodRequest,
        nodes: Sequence[str] | None = None,
        *,
        shortlist: int = 0,
    ) -> Verdicts:
        """Which of these nodes can hold the pod, how good each is, and why the others cannot.

        :param nodes: names of the candidates; ``None``: all that are known.
        :param shortlist: how many of the best to answer; 0: all that fit. Backends score the members of the shortlist only.
        """
        plan = compile_plan(request, pod, self.ask)
        names = self.inventory.names() if nodes is None else nodes
        fitting: list[tuple[float, str]] = []
        refused: list[tuple[str, Reason, bool]] = []
        for name in names:
            verdict = self._verdict(plan, request, name)
            if isinstance(verdict, float):
                fitting.append((-verdict, name))
            else:
                refused.append((name, *verdict))
        fitting.sort()
        best = fitting[:shortlist] if shortlist else fitting
        return Verdicts(
            fitting=self._ranked(plan, request, [(name, -score) for score, name in best]),
            fits=len(fitting),
            refused_nodes=[r[0] for r in refused],
            reasons=[r[1] for r in refused],
            incurable=[r[2] for r in refused],
        )

    def place(self, request: PodRequest, pod: PodView, node: str) -> Placement | Refusals:
        """The shares the pod would get on one node, with the node's score, or why it does not fit."""
        return self._place(compile_plan(request, pod, self.ask), request, node)[0]

    def evaluate_without(
        self, request: PodRequest, pod: PodView, node: str, victim_uids: Iterable[str]
    ) -> Placement | Refusals:
        """The same once the victims are gone."""
        return self._place(compile_plan(request, pod, self.ask), request, node, without=victim_uids)[0]

    def explain(
        self, request: PodRequest, pod: PodView, nodes: Sequence[str] | None = None
    ) -> tuple[NodeExplanation, ...]:
        """For every node the placement, or every rule that struck a device and the numbers behind it; best first."""
        plan = compile_plan(request, pod, self.ask)
        names = self.inventory.names() if nodes is None else nodes
        answers = [_explanation(name, self._place(plan, request, name, describe)[0]) for name in names]
        return tuple(sorted(answers, key=lambda a: (not a.fits, -a.score, a.node)))

    def reserve(
        self, request: PodRequest, pod: PodView, node: str, state: State, *, deadline: float | None = None
    ) -> Placement | Refusals:
        """Place the pod on a node and take the shares; decided anew while the node keeps changing in between.

        :param deadline: see ``Ledger.reserve``.
        """
        plan = compile_plan(request, pod, self.ask)
        refused: Refusal | None = None
        for _ in range(MOST_TRIES):
            placed, generation = self._place(plan, request, node)
            if not isinstance(placed, Placement):
                return placed
            refused = self.ledger.reserve(request.uid, placed, request, generation, state, deadline=deadline)
            if refused is None:
                return placed
            if refused.reason is not Reason.STALE:
                break
        return (refused,) if refused else ()

    def _place(
        self,
        plan: Plan,
        request: PodRequest,
        name: str,
        describe: Describe | None = None,
        without: Iterable[str] = (),
    ) -> tuple[Placement | Refusals, int]:
        node = self.inventory.node(name)
        if node is None:
            return (Refusal(reason=Reason.UNKNOWN_NODE, detail=f"node {name} is not known", curable=False),), 0
        usage, blocked, generation = self.ledger.view(name, uid=request.uid, priority=request.priority, without=without)
        placed = Walk(plan, node, usage, self.ask, blocked=blocked, describe=describe).place()
        if isinstance(placed, Placement):
            placed = self._scored(plan, node, usage, placed)
        return placed, generation

    def _scored(
        self, plan: Plan, node: NodeState, usage: Mapping[DeviceId, Usage], placed: Placement
    ) -> Placement | Refusals:
        """The placement with its node's score; families with a weight are asked for theirs."""
        core = core_score(fullness(node.devices, usage), plan.policies.node)
        opinions = []
        for view in placement_views(plan, node, usage, placed):
            weight = self.ask.families[view.family].score_weight
            if not weight:
                continue
            try:
                opinion = self.ask.score_placement(view)
            except BackendError as problem:
                return (Refusal(reason=Reason.BACKEND_FAILED, detail=str(problem)),)
            if opinion is not None:
                opinions.append((opinion, weight))
        return replace(placed, score=combined(core, opinions))

    def _verdict(self, plan: Plan, request: PodRequest, name: str) -> float | tuple[Reason, bool]:
        """The core's own score when the pod fits; else the reason, and whether no eviction cures it."""
        node = self.inventory.node(name)
        if node is None:
            return Reason.UNKNOWN_NODE, True
        usage, blocked, _ = self.ledger.view(name, uid=request.uid, priority=request.priority)
        refusals = exact_refusals(plan, node, usage, blocked, self.ask)
        if not refusals:
            return core_score(fullness(node.devices, usage), plan.policies.node)
        return headline(refusals), fits_never(plan, node, self.ask)

    def _ranked(self, plan: Plan, request: PodRequest, best: Sequence[tuple[str, float]]) -> tuple[ScoredNode, ...]:
        """The shortlist with the backends' scores, best first; without such families the order stands."""
        if not any(self.ask.families[f].score_weight for f in plan.families if f in self.ask.families):
            return tuple(ScoredNode(name, score) for name, score in best)
        scored = []
        for name, _ in best:
            placed, _ = self._place(plan, request, name)
            if isinstance(placed, Placement):
                scored.append(ScoredNode(name, placed.score))
        return tuple(sorted(scored, key=lambda s: (-s.score, s.node)))


def exact_refusals(
    plan: Plan, node: NodeState, usage: Mapping[DeviceId, Usage], blocked: Blocked, ask: Ask
) -> Refusals:
    """Why the pod does not fit; empty when it does. A request that fails alone is named before any that fails beside others."""
    if len(plan.questions) > 1 and not plan.unknown:
        for single in plan.singles():
            placed = Walk(single, node, usage, ask, blocked=blocked).place()
            if not isinstance(placed, Placement):
                return placed
    placed = Walk(plan, node, usage, ask, blocked=blocked).place()
    return () if isinstance(placed, Placement) else placed


def fits_never(plan: Plan, node: NodeState, ask: Ask) -> bool:
    """Whether one of the requests would not fit even if the node were empty."""
    if plan.unknown:
        return True
    walks = (Walk(single, node, {}, ask) for single in plan.singles())
    return not all(isinstance(walk.place(), Placement) for walk in walks)


def _explanation(name: str, placed: Placement | Refusals) -> NodeExplanation:
    if isinstance(placed, Placement):
        return NodeExplanation(node=name, fits=True, score=placed.score, placement=placed)
    return NodeExplanation(node=name, fits=False, refusals=placed)
