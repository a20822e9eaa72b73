"""Filter, score and preempt: questions that change nothing but assumed reservations."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from hami_core_py.codecs.v210.reasons import render_refusals, word
from hami_core_py.decisions.sentences import sentence
from hami_core_py.decisions.verdicts import ScoredNode, Verdicts
from hami_core_py.errors import BackendError, BadInputError
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.views import NodeView, node_view, pod_view
from hami_core_py.services.engine import Engine
from hami_core_py.services.intake import NodeIntake
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.reservations import Reservations
from hami_core_py.services.scheduling.answers import FilterAnswer
from hami_core_py.services.scheduling.binding import Binder
from hami_core_py.services.scheduling.nominating import Nominator
from hami_core_py.services.scheduling.recent import Asked, Recent
from hami_core_py.services.scheduling.telling import Teller

log = logging.getLogger(__name__)

JsonObject = Mapping[str, Any]
Mode = Literal["all-nodes", "single-node"]

BEST_RANK = 10
"""Highest score of the extender protocol."""

RANKINGS_REMEMBERED = 1024
"""Pods whose filter was answered and whose score is awaited."""

TRIES = 3
"""How often a decision is taken anew when the chosen node filled up meanwhile."""


class Scheduling:
    """Answers kube-scheduler.

    :param ready: answers ``None`` once nodes and pods are known, else one sentence that says what is missing.
    :param shortlist: how many of the best fitting nodes filter answers; 0: all.
    :param mode: ``single-node``: filter answers the one node it chose, and refusals in v2.10's words.
    """

    def __init__(
        self,
        engine: Engine,
        reservations: Reservations,
        binder: Binder,
        recent: Recent,
        *,
        teller: Teller | None = None,
        nominator: Nominator | None = None,
        ready: Callable[[], str | None] = lambda: None,
        shortlist: int = 16,
        mode: Mode = "all-nodes",
    ) -> None:
        self._engine, self._reservations, self._recent = engine, reservations, recent
        self._binder, self._teller, self._ready = binder, teller, ready
        self._nominator = nominator
        self._shortlist, self._mode = shortlist, mode
        self._ranked: OrderedDict[str, Sequence[str]] = OrderedDict()

    def filter(
        self, pod: JsonObject, names: Sequence[str] | None, nodes: Sequence[JsonObject] | None = None
    ) -> FilterAnswer:
        """Which nodes can hold a pod.

        :param names: the candidates. :param nodes: the candidates as whole objects, instead: those we do not know are judged
            by what they say, as if nobody used them, and nothing is remembered of them.
        """
        if missing := self._ready():
            return FilterAnswer(error=f"cannot decide yet: {missing}")
        strangers: list[NodeView] = []
        if nodes is not None:
            views = [node_view(node) for node in nodes]
            names = [view.name for view in views]
            strangers = [view for view in views if self._engine.inventory.node(view.name) is None]
        if names is None:
            return FilterAnswer(error="extender args: expected NodeNames or Nodes, got neither")
        try:
            asked = self._recent.read(pod)
        except BackendError as problem:
            # The backend's requests are refused; what else is scheduled goes on.
            log.warning("request not read", extra={"problem": str(problem)})
            return FilterAnswer(names=[], failed=dict.fromkeys(names, sentence(Reason.BACKEND_FAILED)))
        except BadInputError as problem:
            if self._teller is not None:
                self._teller.not_read(pod_view(pod), str(problem))
            return FilterAnswer(error=str(problem))
        except (TypeError, AttributeError, KeyError, ValueError) as problem:
            return FilterAnswer(
                error=f"extender args: Pod: expected a pod object, got one that cannot be read ({problem!r})"
            )
        if not asked.request.families:
            return FilterAnswer(names=list(names))
        if asked.pod.node:
            return FilterAnswer(error=f"pod {_named(asked)} is bound to node {asked.pod.node} already")
        return self._decide(asked, names, strangers)

    def score(self, pod: JsonObject, names: Sequence[str]) -> list[tuple[str, int]]:
        """Ranks of nodes: the best 10, the next 9, and so on; nodes on which the pod does not fit get 0.

        The pod is assumed to be bound to the best one.
        :raises BadInputError: it asks for something that cannot be read. :raises BackendError: its backend failed.
        """
        asked = self._recent.read(pod)
        if not asked.request.families or self._ready() is not None:
            return [(name, 0) for name in names]
        held = self._reservations.begin_filter(asked.pod.uid)
        if held is not None:
            return [(name, BEST_RANK if name == held.node else 0) for name in names]
        fitting = self._still_ranked(asked, names)
        tries = 0 if fitting else TRIES
        for _ in range(tries):
            fitting = [scored.node for scored in self._engine.evaluate(asked.pod, asked.request, names).fitting]
            if not fitting or self._assume(asked, fitting[0]) is None:
                break
        ranks = {name: max(0, BEST_RANK - position) for position, name in enumerate(fitting)}
        return [(name, ranks.get(name, 0)) for name in names]

    def preempt(self, pod: JsonObject, victims: Mapping[str, Sequence[str]]) -> list[str]:
        """The nodes on which the pod would fit once exactly these victims are gone.

        :param victims: node → uids of the pods that kube-scheduler would evict there.
        """
        asked = self._recent.read(pod)
        if not asked.request.families:
            return list(victims)
        if missing := self._ready():
            raise BadInputError("preemption", "a scheduler that knows its cluster", missing)
        return [node for node, uids in victims.items() if self._fits_without(asked, node, uids)]

    def bind(self, namespace: str, name: str, uid: str, node: str) -> str:
        """Bind a pod to a node. May wait for the API server. :returns: why it was not bound; empty: it is."""
        if missing := self._ready():
            return f"cannot bind yet: {missing}"
        return self._binder.bind(namespace, name, uid, node)

    def _decide(self, asked: Asked, names: Sequence[str], strangers: Sequence[NodeView]) -> FilterAnswer:
        self._ranked.pop(asked.pod.uid, None)
        held = self._reservations.begin_filter(asked.pod.uid)
        if held is not None:
            if held.node in names:
                return FilterAnswer(names=[held.node])
            return FilterAnswer(
                error=f"pod {_named(asked)} is being bound to node {held.node}; its outcome is not known yet"
            )
        known = names
        if strangers:
            unknown = {view.name for view in strangers}
            known = [name for name in names if name not in unknown]
        places = 1 if self._mode == "single-node" else self._shortlist
        for _ in range(TRIES):
            verdicts = self._engine.evaluate(asked.pod, asked.request, known, shortlist=places)
            chosen = verdicts.fitting[0].node if verdicts.fitting else ""
            # With one node left kube-scheduler skips scoring, so that filter is the last word before bind.
            is_last_word = not strangers and len(verdicts.fitting) == 1
            if not is_last_word or self._assume(asked, chosen) is None:
                break
        simulated: Engine | None = None
        if strangers:
            simulated = self._simulated(strangers)
            theirs = simulated.evaluate(asked.pod, asked.request, [view.name for view in strangers])
            verdicts = _joined(verdicts, theirs, places)
        if not verdicts.fitting and self._teller is not None and not strangers:
            self._teller.refused(asked, verdicts)
        if not verdicts.fitting and self._nominator is not None and not strangers:
            self._nominator.refused(asked, names)
        if self._mode == "single-node":
            return self._in_v210_words(asked, verdicts, simulated)
        failed, unresolvable = verdicts.failed(sentence)
        fitting = [scored.node for scored in verdicts.fitting]
        if not strangers and len(fitting) > 1:
            self._await_score(asked, fitting)
        return FilterAnswer(names=fitting, failed=failed, unresolvable=unresolvable)

    def _await_score(self, asked: Asked, fitting: Sequence[str]) -> None:
        """Remember the order of filter's answer: a moment later kube-scheduler asks for it."""
        self._ranked[asked.pod.uid] = fitting
        if len(self._ranked) > RANKINGS_REMEMBERED:
            self._ranked.popitem(last=False)

    def _still_ranked(self, asked: Asked, names: Sequence[str]) -> list[str]:
        """The nodes in the order in which filter answered them, the first one assumed; empty: decide anew.

        Between filter and score lie milliseconds, in which nothing may happen that takes the best node away; that is what
        assuming it finds out.
        """
        ranked, wanted = self._ranked.pop(asked.pod.uid, ()), set(names)
        fitting = [name for name in ranked if name in wanted]
        if not fitting or len(fitting) < len(wanted):
            return []
        return fitting if self._assume(asked, fitting[0]) is None else []

    def _assume(self, asked: Asked, node: str) -> tuple[Refusal, ...] | None:
        """Count the pod on a node. :returns: why it does not fit there any more; ``None``: it does."""
        taken = self._reservations.assume(
            asked.pod, asked.request, node, condition=asked.condition, waits_for_volumes=asked.has_claims
        )
        return None if isinstance(taken, Placement) else taken

    def _fits_without(self, asked: Asked, node: str, uids: Sequence[str]) -> bool:
        placed = self._engine.evaluate_without(asked.request, asked.pod, node, uids)
        return isinstance(placed, Placement)

    def _simulated(self, strangers: Sequence[NodeView]) -> Engine:
        """An engine for nodes that exist only in the call."""
        inventory, ask = Inventory(), self._engine.ask
        NodeIntake(inventory, ask).sync(strangers)
        return Engine(inventory, Ledger(), ask)

    def _in_v210_words(self, asked: Asked, verdicts: Verdicts, simulated: Engine | None) -> FilterAnswer:
        """The one node chosen, else why not the others; of nodes that exist only in the call v2.10 says both."""
        failed = {}
        if not verdicts.fitting or simulated is not None:
            failed = {node: self._v210_reason(asked, node, simulated) for node in verdicts.refused_nodes}
        return FilterAnswer(names=[scored.node for scored in verdicts.fitting[:1]] or None, failed=failed)

    def _v210_reason(self, asked: Asked, node: str, simulated: Engine | None) -> str:
        is_stranger = simulated is not None and simulated.inventory.node(node) is not None
        engine = simulated if simulated is not None and is_stranger else self._engine
        placed = engine.place(asked.request, asked.pod, node)
        if isinstance(placed, Placement):
            return ""
        state = engine.inventory.node(node)
        if state is None or all(state.closed.get(device.family) is Reason.AGENT_AWAY for device in state.devices):
            return word(Reason.UNKNOWN_NODE)  # v2.10 forgets devices whose plugin is away, and a node without devices
        families = {device.id: device.family for device in state.devices}
        struck = next((families[r.device] for r in placed if r.device in families), asked.request.families[0])
        return render_refusals(placed, self._engine.ask.families.get(struck))


def _joined(one: Verdicts, other: Verdicts, places: int) -> Verdicts:
    """Verdicts over two sets of nodes as one."""
    fitting: list[ScoredNode] = sorted((*one.fitting, *other.fitting), key=lambda s: (-s.score, s.node))
    return Verdicts(
        fitting=tuple(fitting[:places] if places else fitting),
        fits=one.fits + other.fits,
        refused_nodes=[*one.refused_nodes, *other.refused_nodes],
        ranks=[*one.ranks, *other.ranks],
        incurable=[*one.incurable, *other.incurable],
    )


def _named(asked: Asked) -> str:
    return f"{asked.pod.namespace}/{asked.pod.name}"
