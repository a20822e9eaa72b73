"""The whole cluster as columns, following inventory and ledger by deltas; answers one pod over all nodes at once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hami_core_py.decisions import masks, sweep
from hami_core_py.decisions.beside import Compared, Parts, enough, has_seats
from hami_core_py.decisions.columns import FamilyColumns, Flags, Numbers, Row
from hami_core_py.decisions.fit import Question, closed, names_ids
from hami_core_py.decisions.nodes import NOT_BLOCKED, Blocked, NodeState
from hami_core_py.decisions.plan import Plan
from hami_core_py.decisions.ranks import FITS, RANK
from hami_core_py.decisions.score import fullness
from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import IDLE, Device, DeviceId, Usage
from hami_core_py.models.families import Family
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.node_numbers import UNKNOWN, NodeNumbers

UNDECIDED = -1
"""Instead of a reason: the arrays cannot tell, the exact walk must."""

SHAPES_REMEMBERED = 1024
"""Request shapes whose comparison with the kinds of device is kept; the least recently used goes."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Per node number: ``reason`` is 0 where the pod fits, ``UNDECIDED`` or the rank of the reason."""

    reason: Numbers
    ever: Flags


class Board:
    """Numbers of nodes, their fullness, and the columns of every family. Whoever owns it serialises the calls."""

    def __init__(self, inventory: Inventory, ledger: Ledger, families: Mapping[str, Family]) -> None:
        self._inventory, self._ledger = inventory, ledger
        self.families = {name: FamilyColumns(f.placing.mutex_group) for name, f in families.items()}
        self.nodes = NodeNumbers()
        self._shown: dict[int, tuple[NodeState, int]] = {}
        self.fullness = np.zeros(0, np.float64)
        self.generation = np.zeros(0, np.int64)
        self._closed_families: dict[str, dict[int, int]] = {name: {} for name in families}
        self._compared: OrderedDict[Hashable, Compared] = OrderedDict()

    # Following the indexes

    def sync(self) -> None:
        """Take over what has changed since the last call."""
        moved = set(self._inventory.take_changed())
        touched: dict[str, set[DeviceId]] = {}
        for name, device in self._ledger.take_changed():
            if device is None:
                moved.add(name)
            else:
                touched.setdefault(name, set()).add(device)
        for name in sorted(moved):
            self._set_node(name)
        for name in touched.keys() - moved:
            self._set_usage(name, touched[name])

    def _set_node(self, name: str) -> None:
        state = self._inventory.node(name)
        if state is None:
            self._forget(name)
            return
        number = self.nodes.take(name)
        if number >= len(self.fullness):
            self.fullness = np.concatenate([self.fullness, np.zeros(max(64, number), np.float64)])
            self.generation = np.concatenate([self.generation, np.zeros(max(64, number), np.int64)])
        usage, blocked, generation = self._ledger.view(name)
        for family, columns in self.families.items():
            columns.set_node(number, [_row(state, blocked, d, usage) for d in state.of_family(family)])
            reason = state.closed.get(family)
            if reason:
                self._closed_families[family][number] = RANK[reason]
            else:
                self._closed_families[family].pop(number, None)
        self._refresh(number, state, usage, generation)

    def _set_usage(self, name: str, devices: Iterable[DeviceId]) -> None:
        number, state = self.nodes.of[name], self._inventory.node(name)
        if number == UNKNOWN or state is None:
            return
        usage, _, generation = self._ledger.view(name)
        for device in devices:
            for columns in self.families.values():
                columns.set_usage(number, device, usage.get(device, IDLE))
        self._refresh(number, state, usage, generation)

    def _refresh(self, number: int, state: NodeState, usage: Mapping[DeviceId, Usage], generation: int) -> None:
        self._shown[number] = (state, generation)
        self.fullness[number] = fullness(state.devices, usage)
        self.generation[number] += 1

    def shows(self, number: int, state: NodeState, generation: int) -> bool:
        """Whether the columns of a node are those of this inventory and this generation of the ledger."""
        shown = self._shown.get(number)
        return shown is not None and shown[0] is state and shown[1] == generation

    def _forget(self, name: str) -> None:
        number = self.nodes.give_back(name)
        if number == UNKNOWN:
            return
        for family, columns in self.families.items():
            columns.set_node(number, ())
            self._closed_families[family].pop(number, None)
        self.generation[number] += 1
        del self._shown[number]

    # Answers

    def judge(self, plan: Plan) -> Judged:
        """One pod over all nodes. A request that fails alone names the reason before any that fails beside others."""
        reason = np.zeros(len(self.nodes), np.int8)
        ever = np.ones(len(self.nodes), np.bool_)
        if plan.unknown:
            reason[:] = RANK[Reason.NO_DEVICES]
            return Judged(reason, ~ever)
        fitting_rows: dict[str, list[tuple[Question, Compared, Flags]]] = {}
        known: dict[Hashable, tuple[Numbers, Flags, Flags]] = {}
        for question in plan.questions:
            key = question.key
            compared = self._compare(key, question)
            if key not in known:
                known[key] = self._judge_question(question, compared)
            answer, can_ever, rows = known[key]
            np.copyto(reason, answer, where=reason == 0)
            ever &= can_ever
            fitting_rows.setdefault(question.family.name, []).append((question, compared, rows))
        if len(plan.questions) > 1 and (reason == 0).any():
            self._judge_together(plan, fitting_rows, reason)
        return Judged(reason, ever)

    def states_of(self, plan: Plan, numbers: NDArray[np.intp]) -> list[Hashable]:
        """What decides the exact walk on each node: the states of its devices, or the node itself at its generation.

        Nodes in equal states answer alike, unless devices are asked for by id or a rule looks at the node.
        """
        by_name = any(q.node_rules or names_ids(q.request.selection) for q in plan.questions)
        if by_name:
            return list(zip(numbers.tolist(), self.generation[numbers].tolist(), strict=True))
        per_family = []
        for family in plan.families:
            columns = self.families[family]
            by_node = np.full(len(self.nodes), UNKNOWN, np.intp)
            state = columns.segment_state
            live = columns.segment_node >= 0
            by_node[columns.segment_node[live]] = state[live]
            per_family.append([(columns.states.epoch, number) for number in by_node[numbers].tolist()])
        return list(zip(*per_family, strict=True))

    def _judge_question(self, question: Question, compared: Compared) -> tuple[Numbers, Flags, Flags]:
        """Per node the reason and whether it could ever fit, and per row whether it fits."""
        family, count = question.family, question.request.count
        columns = self.families[family.name]
        reason = np.full(len(self.nodes), RANK[Reason.NO_DEVICES], np.int8)
        ever = np.zeros(len(self.nodes), np.bool_)
        for number, closed_for in self._closed_families[family.name].items():
            reason[number] = closed_for
        if not columns.segments:
            return reason, ever, np.zeros(0, np.bool_)
        live = columns.segment_node >= 0
        nodes = columns.segment_node[live]
        if family.placing.counts is not None and count not in family.placing.counts:
            reason[nodes] = RANK[Reason.COUNT_NOT_ALLOWED]
            return reason, ever, np.zeros(columns.size, np.bool_)
        rows = masks.struck(question, columns, compared.limits, compared.seats)
        answers = masks.per_segment(question, columns, rows)
        by_segment = np.where(answers.fitting >= count, np.int8(0), answers.reason)
        self._leave_to_walk(question, columns, answers, by_segment)
        reason[nodes] = by_segment[live]
        ever[nodes] = self._ever(question, columns, compared)[live]
        fits: Flags = rows == FITS
        return reason, ever, fits

    def _leave_to_walk(
        self, question: Question, columns: FamilyColumns, answers: masks.NodeAnswers, by_segment: Numbers
    ) -> None:
        """Mark what arrays cannot tell: several cuts of one device, combinations, rules about nodes."""
        placing, count = question.family.placing, question.request.count
        if count > 1 and any(kind.cells for kind in columns.kinds):
            by_segment[(by_segment != 0) & (answers.fitting > 0)] = UNDECIDED
        elif count > 1:
            lengths = np.diff(columns.starts, append=columns.size)
            by_segment[lengths < count] = RANK[Reason.TOO_FEW_DEVICES]
        if question.combines or (count > 1 and placing.whole_groups):
            by_segment[by_segment == 0] = UNDECIDED
        if question.node_rules:
            by_segment[:] = UNDECIDED

    def _ever(self, question: Question, columns: FamilyColumns, compared: Compared) -> Flags:
        count = question.request.count
        if any(kind.cells for kind in columns.kinds):
            count = 1
        return masks.ever_per_segment(question, columns, compared.limits) >= count

    def _judge_together(self, plan: Plan, asked: Mapping[str, Parts], reason: Numbers) -> None:
        """All containers beside each other, where each fits alone: surely, surely not, or walked."""
        alone = reason == 0
        sure = alone & self._per_node(asked, enough)
        compared = [(question, c.limits) for parts in asked.values() for question, c, _ in parts]
        swept = sweep.can_sweep(plan, self.families, compared)
        if not swept:
            hopeless = alone & ~sure & ~self._per_node(asked, has_seats)
            reason[hopeless] = RANK[Reason.NO_COMBINATION]
        open_nodes = ((reason == 0) & ~sure).nonzero()[0]
        if not len(open_nodes):
            return
        reason[open_nodes] = UNDECIDED
        if swept:
            fits = sweep.Sweep(plan, self.families, compared, open_nodes).fits()
            reason[open_nodes] = np.where(fits, np.int8(0), np.int8(RANK[Reason.NO_COMBINATION]))

    def _per_node(self, asked: Mapping[str, Parts], test: Callable[[FamilyColumns, Parts], Flags]) -> Flags:
        """A test of each family's segments, true for the nodes where all families pass it."""
        passed = np.ones(len(self.nodes), np.bool_)
        for family, parts in asked.items():
            columns = self.families[family]
            if columns.segments:
                live = columns.segment_node >= 0
                passed[columns.segment_node[live]] &= test(columns, parts)[live]
        return passed

    def _compare(self, key: Hashable, question: Question) -> Compared:
        kinds = self.families[question.family.name].kinds
        compared = self._compared.get(key)
        if compared is None or compared.kinds != len(kinds):
            seats = compared.seats if compared else masks.SeatAnswers()
            compared = Compared(masks.limits(question, kinds), len(kinds), seats)
            self._compared[key] = compared
            if len(self._compared) > SHAPES_REMEMBERED:
                self._compared.popitem(last=False)
        self._compared.move_to_end(key)
        return compared


def _row(state: NodeState, blocked: Blocked, device: Device, usage: Mapping[DeviceId, Usage]) -> Row:
    reason = closed(state, blocked, device)
    return Row(
        device=device,
        used=usage.get(device.id, IDLE),
        closed=RANK[reason] if reason else 0,
        shut=closed(state, NOT_BLOCKED, device) is not None,
    )
