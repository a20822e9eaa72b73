"""The exact walk over many nodes side by side.

Devices stand in a matrix, one line per node. It serves requests that are answered by amounts alone; what looks at states,
links or other devices is walked node by node.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hami_core_py.decisions import masks
from hami_core_py.decisions.columns import FamilyColumns, Flags
from hami_core_py.decisions.fit import Question
from hami_core_py.decisions.kinds import Ints
from hami_core_py.decisions.plan import Plan
from hami_core_py.decisions.select import wants_links
from hami_core_py.models.requests import ContainerKind, Policies, Weights

Compared = Sequence[tuple[Question, masks.Limits]]


def can_sweep(plan: Plan, columns: Mapping[str, FamilyColumns], compared: Compared) -> bool:
    """Whether amounts alone answer all questions of the pod."""
    by_links = wants_links(plan.policies) and any(columns[f].has_links for f in plan.families)
    return not by_links and not any(_looks_beyond_amounts(q, limit) for q, limit in compared)


def _looks_beyond_amounts(question: Question, limit: masks.Limits) -> bool:
    placing = question.family.placing
    return bool(
        question.combines
        or question.failed
        or question.node_rules
        or limit.seen_state.any()
        or placing.one_device_per_pod
        or placing.together
        or placing.whole_groups
        or (question.wants_idle and placing.mutex_group)
    )


@dataclass(slots=True)
class _Lines:
    """The devices of one family on the swept nodes, at one moment of the walk. ``prior``: place in the last order of trial."""

    rows: NDArray[np.intp]
    present: Flags
    kind: NDArray[np.intp]
    numa: Ints
    index: Ints
    slots: Ints
    memory: Ints
    cores: Ints
    used_slots: Ints
    used_memory: Ints
    used_cores: Ints
    prior: Ints


class Sweep:
    """One pod over some nodes that all have devices of every family it asks for."""

    def __init__(
        self, plan: Plan, columns: Mapping[str, FamilyColumns], compared: Compared, nodes: NDArray[np.intp]
    ) -> None:
        self._plan, self._columns = plan, columns
        self._limits = {id(question): limit for question, limit in compared}
        self._lines = {family: _lines(columns[family], nodes) for family in plan.families}
        self._fits = np.ones(len(nodes), np.bool_)

    def fits(self) -> Flags:
        """Per node whether all containers fit beside each other."""
        for container in self._plan.containers:
            saved = self._amounts() if container.kind is ContainerKind.INIT else None
            scores = {f: _scores(self._lines[f], self._plan.policies.weights) for f in self._plan.families}
            for question in container.questions:
                self._serve(question, scores[question.family.name])
            if saved is not None:
                self._restore(saved)
        return self._fits

    def _serve(self, question: Question, scores: NDArray[np.float32]) -> None:
        lines, limit = self._lines[question.family.name], self._limits[id(question)]
        order = _trial_order(lines, scores, self._plan.policies, question.request.numa_bind)
        fits = np.take_along_axis(self._fitting(question, lines, limit), order, 1)
        numa = np.take_along_axis(lines.numa, order, 1) if question.request.numa_bind else None
        picked_in_order, enough = _first(fits, numa, question.request.count)
        picked = np.zeros_like(fits)
        np.put_along_axis(picked, order, picked_in_order, 1)
        np.put_along_axis(lines.prior, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), 1)
        lines.used_slots = lines.used_slots + picked
        lines.used_memory = lines.used_memory + picked * limit.gives_memory[lines.kind]
        lines.used_cores = lines.used_cores + picked * limit.gives_cores[lines.kind]
        self._fits &= enough

    def _fitting(self, question: Question, lines: _Lines, limit: masks.Limits) -> Flags:
        columns, kind = self._columns[question.family.name], lines.kind
        in_use = lines.used_slots > 0
        fits: Flags = lines.present & (columns.closed[lines.rows] == 0) & (limit.refused[kind] == 0)
        fits &= lines.used_slots <= limit.slots[kind]
        fits &= lines.used_memory <= limit.memory[kind]
        fits &= lines.used_cores <= limit.cores[kind]
        fits &= lines.used_cores < limit.exhausted_at[kind]
        fits &= ~(in_use & limit.needs_idle[kind])
        if question.wants_idle or question.family.placing.exclusive:
            fits &= ~in_use
        unwanted = masks.not_selected(question, columns)
        if unwanted is not None:
            fits &= ~unwanted[lines.rows]
        return fits

    def _amounts(self) -> dict[str, tuple[Ints, Ints, Ints, Ints]]:
        return {f: (n.used_slots, n.used_memory, n.used_cores, n.prior.copy()) for f, n in self._lines.items()}

    def _restore(self, saved: Mapping[str, tuple[Ints, Ints, Ints, Ints]]) -> None:
        for family, (slots, memory, cores, prior) in saved.items():
            lines = self._lines[family]
            lines.used_slots, lines.used_memory, lines.used_cores, lines.prior = slots, memory, cores, prior


def _lines(columns: FamilyColumns, nodes: NDArray[np.intp]) -> _Lines:
    starts, lengths = columns.places(nodes)
    across = np.arange(int(lengths.max()))
    present = across < lengths[:, None]
    rows = np.where(present, starts[:, None] + across, starts[:, None])
    kind = columns.kind[rows]
    totals = columns.totals
    return _Lines(
        rows=rows,
        present=present,
        kind=kind,
        numa=columns.numa[rows],
        index=columns.index[rows],
        slots=totals.slots[kind],
        memory=totals.memory[kind],
        cores=totals.cores[kind],
        used_slots=columns.used_slots[rows],
        used_memory=columns.used_memory[rows],
        used_cores=columns.used_cores[rows],
        prior=np.broadcast_to(-across, rows.shape).astype(np.int64),
    )


def _scores(lines: _Lines, weights: Weights) -> NDArray[np.float32]:
    """``select.card_score`` of every device, in the same single precision."""
    single = np.float32
    counts = (lines.slots > 0) & (lines.cores > 0) & (lines.memory > 0)
    parts = [
        single(weight) * (used.astype(single) / np.maximum(total, 1).astype(single))
        for weight, used, total in (
            (weights.slot, lines.used_slots, lines.slots),
            (weights.core, lines.used_cores, lines.cores),
            (weights.memory, lines.used_memory, lines.memory),
        )
    ]
    return np.where(counts, single(10) * (parts[0] + parts[1] + parts[2]), single(0))


def _trial_order(lines: _Lines, scores: NDArray[np.float32], policies: Policies, numa_bind: bool) -> NDArray[np.intp]:
    """``select.trial_order`` of every node; the first key counts most."""
    names = policies.device
    by_name: dict[str, NDArray[Any]] = {"binpack": -scores, "spread": scores, "numa": -lines.numa}
    keys: list[NDArray[Any]]
    if len(names) != 1 or names[0] == "numa":
        chain = list(dict.fromkeys(n for n in names if n in by_name)) or ["spread"]
        if numa_bind and chain[0] != "numa":
            chain = ["numa", *(n for n in chain if n != "numa")]
        keys = [*(by_name[n] for n in chain), -lines.index]
    elif names[0] == "mutex":
        keys = [lines.used_slots, -lines.numa]
    elif names[0] == "binpack":
        keys = [lines.numa, -scores] if numa_bind else [-scores, -lines.numa]
    else:
        keys = [-lines.numa, scores] if numa_bind else [scores, -lines.numa]
    return np.lexsort((lines.prior, *reversed(keys)))


def _first(fits: Flags, numa: Ints | None, count: int) -> tuple[Flags, Flags]:
    """The first ``count`` fitting devices of each line in order of trial, and which lines have so many.

    :param numa: NUMA node of each device when all must be of one.
    """
    if numa is None:
        so_far = fits.cumsum(axis=1)
        return fits & (so_far <= count), so_far[:, -1] >= count
    same = numa[:, :, None] == numa[:, None, :]
    so_far = (same & fits[:, None, :] & np.tri(fits.shape[1], dtype=np.bool_)).sum(axis=2)
    complete = fits & (so_far == count)
    enough = complete.any(axis=1)
    chosen = np.take_along_axis(numa, complete.argmax(axis=1)[:, None], 1)
    return fits & (numa == chosen) & (so_far <= count) & enough[:, None], enough
