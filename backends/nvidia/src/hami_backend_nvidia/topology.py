"""How close two GPUs are, as a number (pure)."""

from collections.abc import Iterable, Mapping
from typing import Any

LEVELS = {0: 60, 10: 50, 20: 40, 30: 30, 40: 20, 50: 10}
"""Common ancestor as the driver numbers it → score: same board, one switch, several, host bridge, one CPU, across CPUs."""
LINK, MOST_LINKS = 100, 18


def pair_scores(links: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Score of every pair that the driver tells about: device → peer → score, higher is closer.

    A pair whose two directions tell of different numbers of links scores 0: one of them is wrong.
    """
    told = {(link["from"], link["to"]): link for link in links}
    scores: dict[str, dict[str, int]] = {}
    for one, other in told:
        there, back = _parts(one, other, told), _parts(other, one, told)
        agree = len(there) == len(back)
        scores.setdefault(one, {})[other] = sum(there) if agree else 0
    return scores


def _parts(one: str, other: str, told: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[int]:
    """Scores of the kinds of link from one to the other."""
    link, back = told.get((one, other)), told.get((other, one))
    if link is None:
        return []
    parts = [LEVELS[link["level"]]] if link["level"] in LEVELS else []
    direct = link["direct"]
    if direct == 0 and link["has_links"] and back is not None:
        direct = min(link["switched"], back["switched"])
    if 1 <= direct <= MOST_LINKS:
        parts.append(LINK * direct)
    return parts
