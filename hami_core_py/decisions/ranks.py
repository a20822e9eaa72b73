"""Reasons as small numbers, so that arrays can carry them; a higher one came closer to fitting."""

from typing import Final

from hami_core_py.decisions.fit import TESTED_IN_ORDER
from hami_core_py.models.answers import Reason

FITS: Final = 127
"""The number of "yes"; above every reason, so that the largest of a node's devices is its answer."""

_BY_DEVICE = {reason: number for number, reason in enumerate(TESTED_IN_ORDER, start=1)}
_OTHERS = [reason for reason in Reason if reason not in _BY_DEVICE]

RANK: Final[dict[Reason, int]] = {
    **_BY_DEVICE,
    **{reason: number for number, reason in enumerate(_OTHERS, start=len(_BY_DEVICE) + 1)},
}
REASON: Final[dict[int, Reason]] = {number: reason for reason, number in RANK.items()}
