"""Several containers of one family beside each other on a node: where that surely works, and where it cannot."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hami_core_py.decisions import masks
from hami_core_py.decisions.columns import FamilyColumns, Flags
from hami_core_py.decisions.fit import Question


@dataclass(slots=True)
class Compared:
    """One question compared with the kinds of its family, and what seats have answered so far."""

    limits: masks.Limits
    kinds: int
    seats: masks.SeatAnswers


Parts = Sequence[tuple[Question, Compared, Flags]]
"""The questions put to one family, and for each which rows fit it alone."""


def enough(columns: FamilyColumns, parts: Parts) -> Flags:
    """Segments that take all containers whatever devices each is given.

    So it is where as many devices take any of the asks as are asked for, and, where every container wants one device, where
    there are as many seats for the largest ask: each container leaves one less at most.
    """
    question = parts[0][0]
    placing = question.family.placing
    if placing.one_device_per_pod or placing.whole_groups or question.combines or _excludes(question):
        return np.zeros(columns.segments, np.bool_)
    wanted = sum(question.request.count for question, _, _ in parts)
    rows = np.logical_and.reduce([fits for _, _, fits in parts])
    bound = any(question.request.numa_bind for question, _, _ in parts)
    devices = masks.most_on_one_numa(columns, rows) if bound else masks.counted(columns, rows)
    surely: Flags = devices >= wanted
    by_seats = (
        all(q.request.count == 1 and not q.wants_idle for q, _, _ in parts)
        and not any(c.limits.seen_state.any() for _, c, _ in parts)
        and not surely.all()
    )
    if by_seats:
        rows &= np.repeat(~surely, np.diff(columns.starts, append=columns.size))
        surely |= masks.seats(columns, rows, [c.limits for _, c, _ in parts], most=True) >= wanted
    return surely


def _excludes(question: Question) -> bool:
    """Whether a share strikes devices beside its own."""
    return question.wants_idle and question.family.placing.mutex_group is not None


def has_seats(columns: FamilyColumns, parts: Parts) -> Flags:
    """Segments with as many seats for the smallest ask as containers want at the same time; with fewer they cannot fit."""
    lasting = [part for part in parts if part[0].lasts]
    if not lasting:
        return np.ones(columns.segments, np.bool_)
    wanted = sum(question.request.count for question, _, _ in lasting)
    rows = np.logical_or.reduce([fits for _, _, fits in lasting])
    has: Flags = masks.seats(columns, rows, [c.limits for _, c, _ in lasting], most=False) >= wanted
    return has
