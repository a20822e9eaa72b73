"""One request against the columns of its family: per device the first rule that strikes it, per node the answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hami_core_py.decisions.columns import FamilyColumns, Flags, Numbers
from hami_core_py.decisions.cutting import profiles_for
from hami_core_py.decisions.device_states import SeatState
from hami_core_py.decisions.fit import (
    Question,
    Standing,
    amounts_needed,
    fit,
    kind_refused,
    without_rules,
)
from hami_core_py.decisions.kinds import Ints
from hami_core_py.decisions.ranks import FITS, RANK
from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import IDLE, Device, Share

ANY = np.iinfo(np.int64).max
"""A limit that no amount in use exceeds."""


@dataclass(frozen=True, slots=True)
class Limits:
    """One request compared with every kind of its family: how much may be in use on a device for the request to fit.

    ``refused``: rank of the reason that strikes the kind, 0: none. ``needs_idle``: core 100 on a device of 100.
    ``seen_state``: what is cut, or looked at by own rules, depends on more than amounts. ``ever``: fits an empty device.
    ``needed_*``: what must be free, 0 where it is not accounted; ``gives_*``: what a share that is not cut carries.
    """

    refused: Numbers
    slots: Ints
    memory: Ints
    cores: Ints
    needs_idle: Flags
    exhausted_at: Ints
    seen_state: Flags
    ever: Flags
    needed_memory: Ints
    needed_cores: Ints
    gives_memory: Ints
    gives_cores: Ints


def limits(question: Question, kinds: Sequence[Device]) -> Limits:
    """Compare a request with the kinds, by the exact rules."""
    accounts, placing = question.family.placing.accounts, question.family.placing
    plain = without_rules(question)
    rows = []
    for kind in kinds:
        refused = kind_refused(kind, question)
        memory_mib, core_units = amounts_needed(question, kind)
        counts_cores = "core" in accounts
        exclusive = counts_cores and placing.exclusive_core
        empty = Standing(device=kind, before=IDLE, now=IDLE)
        rows.append(
            (
                RANK[refused] if refused else 0,
                0 if placing.exclusive else kind.slots - 1,
                kind.memory_mib - memory_mib if "memory" in accounts else ANY,
                kind.core_units - core_units if counts_cores else ANY,
                exclusive and kind.core_units == 100 == core_units,
                kind.core_units if exclusive and core_units == 0 < kind.core_units else ANY,
                bool(question.rules) or bool(profiles_for(kind, question.family, question.request)),
                refused is None and isinstance(fit(plain, empty), Share),
                memory_mib if "memory" in accounts else 0,
                core_units if counts_cores else 0,
                memory_mib,
                core_units,
            )
        )
    types = (np.int8, *[np.int64] * 3, np.bool_, np.int64, *[np.bool_] * 2, *[np.int64] * 4)
    columns = zip(*rows, strict=True) if rows else [()] * len(types)  # no node has such a device
    return Limits(*(np.array(c, t) for c, t in zip(columns, types, strict=True)))


def struck(question: Question, columns: FamilyColumns, limit: Limits, seat_answers: "SeatAnswers") -> Numbers:
    """Per device ``FITS`` or the rank of the first rule that strikes it.

    The last test is written first, so that an earlier one overwrites it.
    """
    kind, used_slots, used_cores = columns.kind, columns.used_slots, columns.used_cores
    answer = np.full(columns.size, FITS, np.int8)
    in_use = used_slots > 0
    if limit.exhausted_at.min() != ANY:
        np.putmask(answer, used_cores >= _per_row(limit.exhausted_at, kind), RANK[Reason.CORES_EXHAUSTED])
    if limit.needs_idle.any():
        np.putmask(answer, in_use & limit.needs_idle[kind], RANK[Reason.EXCLUSIVE])
    if limit.cores.min() != ANY:
        np.putmask(answer, used_cores > _per_row(limit.cores, kind), RANK[Reason.NOT_ENOUGH_CORES])
    if limit.memory.min() != ANY:
        np.putmask(answer, columns.used_memory > _per_row(limit.memory, kind), RANK[Reason.NOT_ENOUGH_MEMORY])
    if question.wants_idle:
        np.putmask(answer, in_use | _neighbours_in_use(question, columns), RANK[Reason.NOT_IDLE])
    np.putmask(answer, used_slots > _per_row(limit.slots, kind), RANK[Reason.NO_FREE_SLOT])
    if question.family.placing.exclusive:
        np.putmask(answer, in_use, RANK[Reason.EXCLUSIVE])
    unwanted = not_selected(question, columns)
    if unwanted is not None:
        np.putmask(answer, unwanted, RANK[Reason.NOT_SELECTED])
    if limit.refused.any():
        refused = limit.refused[kind]
        np.copyto(answer, refused, where=refused > 0)
    np.copyto(answer, columns.closed, where=columns.closed > 0)
    if limit.seen_state.any() or question.failed:
        seat_answers.refine(question, columns, answer, limit.seen_state)
    return answer


class SeatAnswers:
    """Answers of cutting and own rules per interned state, remembered for one request shape."""

    def __init__(self) -> None:
        self._known = np.zeros(0, np.int8)
        self._epoch = -1

    def refine(self, question: Question, columns: FamilyColumns, answer: Numbers, seen_state: Flags) -> None:
        """Replace ``FITS`` by what cutting and own rules say of the device's state."""
        if question.failed:
            np.putmask(answer, answer == FITS, RANK[Reason.BACKEND_FAILED])
            return
        rows = np.flatnonzero((answer == FITS) & seen_state[columns.kind])
        if not len(rows):
            return
        states = columns.state[rows]
        if self._epoch != columns.states.epoch:
            self._known, self._epoch = np.zeros(0, np.int8), columns.states.epoch
        if len(self._known) < len(columns.states.known):
            missing = len(columns.states.known) - len(self._known)
            self._known = np.concatenate([self._known, np.zeros(missing, np.int8)])
        for number in set(states[self._known[states] == 0].tolist()):
            self._known[number] = _answer(question, columns.states.known[number])
        answer[rows] = self._known[states]


def _answer(question: Question, state: SeatState) -> int:
    standing = Standing(device=state.device, before=state.used, now=state.used, links=state.links)
    share = fit(question, standing)
    return RANK[share] if isinstance(share, Reason) else FITS


def not_selected(question: Question, columns: FamilyColumns) -> Flags | None:
    """Devices that the pod's author does not want by id; ``None``: no such wish."""
    selection = question.request.selection
    if selection.ids is None and selection.not_ids is None:
        return None
    unwanted = np.zeros(columns.size, np.bool_)
    if selection.ids is not None:
        unwanted[:] = True
        unwanted[columns.rows_with_ids(selection.ids)] = False
    if selection.not_ids is not None:
        unwanted[columns.rows_with_ids(selection.not_ids)] = True
    return unwanted


def _neighbours_in_use(question: Question, columns: FamilyColumns) -> Flags | bool:
    if not question.family.placing.mutex_group:
        return False
    used = np.bincount(columns.mutex_set, columns.used_slots, minlength=columns.size)
    return used[columns.mutex_set] > 0


def _per_row(by_kind: Ints, kind: NDArray[np.intp]) -> Ints | int:
    """A limit per row; one number when all kinds share it, which spares a look-up per row."""
    first = int(by_kind[0])
    return first if (by_kind == first).all() else by_kind[kind]


@dataclass(frozen=True, slots=True)
class NodeAnswers:
    """One request per segment: how many devices fit together, and the reason when they are too few."""

    fitting: Ints
    reason: Numbers


def per_segment(question: Question, columns: FamilyColumns, answer: Numbers) -> NodeAnswers:
    """Fold the devices' answers into one per segment."""
    count = question.request.count
    closest = np.maximum.reduceat(answer, columns.starts)
    if count == 1:
        fits = closest == FITS
        return NodeAnswers(fits.astype(np.int64), closest)
    fits_row = answer == FITS
    together = counted(columns, fits_row)
    fitting = most_on_one_numa(columns, fits_row) if question.request.numa_bind else together
    reason = np.maximum.reduceat(np.where(fits_row, np.int8(0), answer), columns.starts)
    reason[reason == 0] = RANK[Reason.TOO_FEW_DEVICES]
    reason[(fitting < count) & (together >= count)] = RANK[Reason.NUMA]
    return NodeAnswers(fitting, reason)


def ever_per_segment(question: Question, columns: FamilyColumns, limit: Limits) -> Ints:
    """How many devices of each segment would fit together if nobody used them."""
    rows = limit.ever[columns.kind] & ~columns.shut
    unwanted = not_selected(question, columns)
    if unwanted is not None:
        rows &= ~unwanted
    return most_on_one_numa(columns, rows) if question.request.numa_bind else counted(columns, rows)


def counted(columns: FamilyColumns, rows: Flags) -> Ints:
    """How many of the rows each segment has."""
    return np.add.reduceat(rows, columns.starts, dtype=np.int64)


def most_on_one_numa(columns: FamilyColumns, rows: Flags) -> Ints:
    """The same within the NUMA node that has most."""
    sets = np.bincount(columns.numa_set[rows], minlength=columns.size)
    return np.maximum.reduceat(sets, columns.starts)


def seats(columns: FamilyColumns, rows: Flags, asks: Sequence[Limits], *, most: bool) -> Ints:
    """How many shares the given rows of each segment take, each as large as the largest (``most``) or smallest ask."""
    found = np.flatnonzero(rows)
    kind = columns.kind[found]
    fold = np.maximum.reduce if most else np.minimum.reduce
    memory, cores = fold([a.needed_memory for a in asks]), fold([a.needed_cores for a in asks])
    left = asks[0].slots[kind] + 1 - columns.used_slots[found]
    for ask, limit, used in (
        (memory, asks[0].memory + asks[0].needed_memory, columns.used_memory[found]),
        (cores, asks[0].cores + asks[0].needed_cores, columns.used_cores[found]),
    ):
        if ask.any():
            # In double precision: integer division is slow, and these quotients are exact below 2**52.
            room = np.floor((limit[kind] - used) / np.maximum(ask, 1)[kind])
            left = np.where(ask[kind] > 0, np.minimum(left, room), left)
    per_row = np.zeros(columns.size, np.int64)
    per_row[found] = np.maximum(left, 0)
    return np.add.reduceat(per_row, columns.starts)
