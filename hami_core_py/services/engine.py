"""Placing pods: the two indexes, the decisions, and the promise that both agree."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from hami_core_py.decisions.columns import Flags, Numbers
from hami_core_py.decisions.explain import NodeExplanation, describe
from hami_core_py.decisions.nodes import NodeState
from hami_core_py.decisions.placement import Walk
from hami_core_py.decisions.placement_views import placement_views
from hami_core_py.decisions.plan import Plan, compile_plan
from hami_core_py.decisions.ranks import RANK
from hami_core_py.decisions.room import Describe
from hami_core_py.decisions.score import combined, core_score, fullness
from hami_core_py.decisions.seating import Refusals
from hami_core_py.decisions.shortlist import shortlisted
from hami_core_py.decisions.verdicts import ScoredNode, Verdicts, could_ever_fit, exact_reason
from hami_core_py.errors import BackendError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.devices import DeviceId, Usage
from hami_core_py.models.requests import PodRequest
from hami_core_py.models.views import PodView
from hami_core_py.services.board import UNDECIDED, Board
from hami_core_py.services.holding import State
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.node_numbers import UNKNOWN
from hami_core_py.services.walked import Walked

MOST_TRIES = 5
"""How often a reservation is decided anew when the node changes in between."""


class Engine:
    """Answers about placing one pod; keeps no state of its own but what it derives from inventory and ledger."""

    def __init__(self, inventory: Inventory, ledger: Ledger, ask: Ask) -> None:
        self.inventory, self.ledger, self.ask = inventory, ledger, ask
        self._lock = Lock()
        self._board = Board(inventory, ledger, ask.families)
        self._walked = Walked()

    @property
    def room(self) -> int:
        """Grows whenever a pod that fitted nowhere may fit somewhere."""
        return self.ledger.freed + self.inventory.generation

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
        with self._lock:
            self._board.sync()
            numbers = self._board.nodes.resolve(names)
            judged = self._board.judge(plan)
            reason, ever = judged.reason.take(numbers, mode="clip"), judged.ever.take(numbers, mode="clip")
            is_known = numbers >= 0
            reason[~is_known], ever[~is_known] = RANK[Reason.UNKNOWN_NODE], False
            score = self._core_scores(plan, numbers)
            self._decide_by_walk(plan, names, numbers, reason)
            self._see_as(plan, request, names, numbers, reason, ever, score)
            fits = reason == 0
            best = shortlisted(fits, score, self._board.nodes.ranks.take(numbers, mode="clip"), shortlist)
        refused = (~fits).nonzero()[0]
        return Verdicts(
            fitting=self._ranked(plan, request, [(names[i], float(score[i])) for i in best.tolist()]),
            fits=int(fits.sum()),
            refused_nodes=[names[i] for i in refused.tolist()],
            ranks=reason[refused].tolist(),
            incurable=(~ever[refused]).tolist(),
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

    def _core_scores(self, plan: Plan, numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        full = self._board.fullness.take(numbers, mode="clip")
        return 1.0 - full if plan.policies.node == "spread" else full

    def _decide_by_walk(self, plan: Plan, names: Sequence[str], numbers: NDArray[np.intp], reason: Numbers) -> None:
        """Walk the nodes that arrays cannot decide, each state of a node once."""
        undecided = (reason == UNDECIDED).nonzero()[0]
        if not len(undecided):
            return
        states = self._board.states_of(plan, numbers[undecided])
        known = self._walked.answers(plan.key)
        for i, state in zip(undecided.tolist(), states, strict=True):
            answer = known.get(state)
            if answer is None:
                node = self.inventory.node(names[i])
                if node is None:
                    continue
                usage, blocked, generation = self.ledger.view(names[i])
                found = exact_reason(plan, node, usage, blocked, self.ask)
                answer = RANK[found] if found else 0
                if self._board.shows(int(numbers[i]), node, generation):
                    known[state] = answer
            reason[i] = answer

    def _see_as(
        self,
        plan: Plan,
        request: PodRequest,
        names: Sequence[str],
        numbers: NDArray[np.intp],
        reason: Numbers,
        ever: Flags,
        score: NDArray[np.float64],
    ) -> None:
        """Decide anew the nodes that this pod sees otherwise than they are counted."""
        seen_otherwise = self.ledger.nodes_seen_otherwise(request.uid, request.priority)
        if not seen_otherwise:
            return
        wanted = {self._board.nodes.of[name] for name in seen_otherwise} - {UNKNOWN}
        for i in np.isin(numbers, list(wanted)).nonzero()[0].tolist():
            node = self.inventory.node(names[i])
            if node is None:
                continue
            usage, blocked, _ = self.ledger.view(names[i], uid=request.uid, priority=request.priority)
            found = exact_reason(plan, node, usage, blocked, self.ask)
            reason[i], ever[i] = RANK[found] if found else 0, could_ever_fit(plan, node)
            score[i] = core_score(fullness(node.devices, usage), plan.policies.node)

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


def _explanation(name: str, placed: Placement | Refusals) -> NodeExplanation:
    if isinstance(placed, Placement):
        return NodeExplanation(node=name, fits=True, score=placed.score, placement=placed)
    return NodeExplanation(node=name, fits=False, refusals=placed)
