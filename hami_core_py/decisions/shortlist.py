"""The best of many nodes, without sorting them all."""

import numpy as np
from numpy.typing import NDArray

from hami_core_py.decisions.columns import Flags


def shortlisted(
    fits: Flags, score: NDArray[np.float64], name_rank: NDArray[np.int64], shortlist: int
) -> NDArray[np.intp]:
    """Positions of the best fitting candidates, best first, ties by name; all of them when ``shortlist`` is 0."""
    fitting = fits.nonzero()[0]
    scores = score[fitting]
    if shortlist and len(fitting) > shortlist:
        last = np.partition(scores, len(scores) - shortlist)[len(scores) - shortlist]
        better, equal = fitting[scores > last], fitting[scores == last]
        missing = shortlist - len(better)
        if missing < len(equal):
            equal = equal[np.argpartition(name_rank[equal], missing)[:missing]]
        fitting = np.concatenate([better, equal])
    order = np.lexsort((name_rank[fitting], -score[fitting]))
    return fitting[order]
