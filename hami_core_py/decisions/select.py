"""Choosing among devices: their score, the order in which they are tried, and combinations that work well together."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any, TypeVar

import numpy as np

from hami_core_py.models.devices import Device, DeviceId, Share, Usage
from hami_core_py.models.families import Placing
from hami_core_py.models.requests import Policies, Weights

T = TypeVar("T")

MOST_COMBINATIONS = 20_000
"""Beyond so many combinations of linked devices the search is greedy; eight of sixteen are 12,870."""

NOTHING = Share(slots=0)


def card_score(device: Device, used: Usage, weights: Weights, asked: Share = NOTHING) -> np.float32:
    """How full a device is, weighted; ties in orderings depend on single precision, as v2.10 computes it.

    :param asked: share that is counted as if it were given already; by default the request is not counted.
    """
    if not device.slots or not device.core_units or not device.memory_mib:
        return np.float32(0)
    slots = np.float32(asked.slots + used.slots) / np.float32(device.slots)
    cores = np.float32(asked.core_units + used.core_units) / np.float32(device.core_units)
    memory = np.float32(asked.memory_mib + used.memory_mib) / np.float32(device.memory_mib)
    weighted = np.float32(weights.slot) * slots + np.float32(weights.core) * cores + np.float32(weights.memory) * memory
    return np.float32(10) * weighted


@dataclass(frozen=True, slots=True)
class Ranked:
    """What decides the place of one device in the order of trial. ``position``: where it stood before."""

    score: float
    numa: int
    used_slots: int
    index: int
    position: int


def trial_order(policies: Sequence[str], numa_bind: bool) -> Callable[[Ranked], tuple[float, ...]]:
    """Sort key by which devices are tried, first tried first, for a chain of policies.

    One policy alone breaks ties by the higher NUMA node, then by the later position; a chain compares its own keys only, then
    the higher index. A name that does not order (``mutex`` and ``topology-aware`` in a chain) is passed over.
    """
    if len(policies) != 1 or policies[0] == "numa":
        return _chain(policies, numa_bind)
    (policy,) = policies
    if policy == "mutex":
        return lambda d: (d.used_slots, -d.numa, -d.position)
    if policy == "binpack":
        return (
            (lambda d: (d.numa, -d.score, -d.position)) if numa_bind else (lambda d: (-d.score, -d.numa, -d.position))
        )
    return (lambda d: (-d.numa, d.score, -d.position)) if numa_bind else (lambda d: (d.score, -d.numa, -d.position))


def _chain(policies: Sequence[str], numa_bind: bool) -> Callable[[Ranked], tuple[float, ...]]:
    names = list(dict.fromkeys(p for p in policies if p in ("binpack", "spread", "numa"))) or ["spread"]
    if numa_bind and names[0] != "numa":
        names = ["numa", *(n for n in names if n != "numa")]
    keys: Mapping[str, Callable[[Ranked], float]] = {
        "binpack": lambda d: -d.score,
        "spread": lambda d: d.score,
        "numa": lambda d: -d.numa,
    }
    chosen = [keys[name] for name in names]
    return lambda d: (*(key(d) for key in chosen), -d.index, -d.position)


def wants_idle(policies: Policies) -> bool:
    """Whether devices that anyone else uses are out of the question."""
    return "mutex" in policies.device


def wants_links(policies: Policies) -> bool:
    """Whether devices are chosen by their links."""
    return "topology-aware" in policies.device


def chooses_together(placing: Placing, policies: Policies, count: int) -> bool:
    """Whether all fitting devices must be seen before any is chosen."""
    return wants_links(policies) or (count > 1 and bool(placing.together or placing.whole_groups))


def by_links(devices: Sequence[Device], count: int) -> tuple[int, ...]:
    """Positions of the devices chosen by link scores, from devices in order of trial; there are more than ``count``.

    One device: the one that is least linked to the others, which leaves the well linked together. Several: those with the
    highest total. The first in order of trial wins ties.
    """
    scores = [[_link(one, other) for other in devices] for one in devices]
    if count == 1:
        return (min(range(len(devices)), key=lambda i: sum(scores[i]) - scores[i][i]),)
    if comb(len(devices), count) <= MOST_COMBINATIONS:
        return _best_linked(scores, count)
    return _greedy(scores, count)


def _link(one: Device, other: Device) -> int:
    return one.links.get(other.id, 0)


def _best_linked(scores: Sequence[Sequence[int]], count: int) -> tuple[int, ...]:
    """The combination with the highest total; a branch that cannot beat the best found so far is not followed."""
    highest = max(max(row) for row in scores)
    pairs = count * (count - 1) // 2
    best, best_total = tuple[int, ...](), float("-inf")

    def grow(chosen: tuple[int, ...], total: float) -> None:
        nonlocal best, best_total
        if len(chosen) == count:
            if total > best_total:
                best, best_total = chosen, total
            return
        pairs_left = pairs - len(chosen) * (len(chosen) - 1) // 2
        if total + pairs_left * highest <= best_total:
            return
        first = chosen[-1] + 1 if chosen else 0
        for i in range(first, len(scores) - (count - len(chosen)) + 1):
            grow((*chosen, i), total + sum(scores[c][i] for c in chosen))

    grow((), 0)
    return best


def _greedy(scores: Sequence[Sequence[int]], count: int) -> tuple[int, ...]:
    """Grow the best linked pair by the device that adds most, which needs no search."""
    pairs = list(combinations(range(len(scores)), 2))
    chosen = [*max(pairs, key=lambda pair: scores[pair[0]][pair[1]])]
    while len(chosen) < count:
        rest = (i for i in range(len(scores)) if i not in chosen)
        chosen.append(max(rest, key=lambda i: sum(scores[min(i, c)][max(i, c)] for c in chosen)))
    return tuple(sorted(chosen))


def grouped(items: Iterable[tuple[int, Hashable]]) -> dict[Any, list[int]]:
    """Positions by group, groups in order of first appearance."""
    groups: dict[Any, list[int]] = {}
    for position, group in items:
        groups.setdefault(group, []).append(position)
    return groups


def by_together(devices: Sequence[Device], count: int, group: str) -> tuple[int, ...]:
    """Positions filled from the largest group down; equal groups by name. Devices without the group stand alone."""
    groups = grouped((i, d.groups.get(group) or f"\0{d.id}") for i, d in enumerate(devices))
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    return tuple([position for _, members in ranked for position in members][:count])


def by_whole_groups(
    devices: Sequence[Device], count: int, group: str, sizes: Mapping[str, int]
) -> tuple[int, ...] | None:
    """Positions of complete groups that make exactly ``count``; ``None`` when they cannot.

    :param sizes: group → how many devices it has on the node, fitting or not.
    """
    chosen: list[int] = []
    for name, members in grouped((i, d.groups.get(group)) for i, d in enumerate(devices)).items():
        if name is not None and len(members) == sizes[name] and len(chosen) < count:
            chosen.extend(members)
    return tuple(chosen) if len(chosen) == count else None


def link_indexes(device: Device, indexes: Mapping[DeviceId, int]) -> dict[int, int]:
    """Link scores by device index instead of id, as backends see them."""
    return {indexes[peer]: score for peer, score in device.links.items() if peer in indexes}
