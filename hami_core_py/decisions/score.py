"""How good a node is: the core's own score, turned by the node policy, and the backends' by their weights."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hami_core_py.models.devices import IDLE, Device, DeviceId, Usage


def fullness(devices: Sequence[Device], usage: Mapping[DeviceId, Usage]) -> float:
    """How full a node is, 0–1: mean of the parts of its slots, core units and memory in use, all families together.

    0 on a node that lacks one of the three altogether. Over-committed devices count as full.
    """
    used = [usage.get(d.id, IDLE) for d in devices]
    full = fullness_of_sums(
        sum(u.slots for u in used),
        sum(d.slots for d in devices),
        sum(u.core_units for u in used),
        sum(d.core_units for d in devices),
        sum(u.memory_mib for u in used),
        sum(d.memory_mib for d in devices),
    )
    return min(1.0, full)


def fullness_of_sums(used_slots: int, slots: int, used_cores: int, cores: int, used_memory: int, memory: int) -> float:
    """The same mean from sums over the node, above 1 where more is in use than there is.

    Single precision, so that nodes tie where v2.10's do.
    """
    if not slots or not cores or not memory:
        return 0.0
    parts = (
        np.float32(used_slots) / np.float32(slots)
        + np.float32(used_cores) / np.float32(cores)
        + np.float32(used_memory) / np.float32(memory)
    )
    return float(parts) / 3.0


def core_score(fullness: float, node_policy: str) -> float:
    """The core's own score, higher is better: full nodes first for ``binpack``, empty ones for ``spread``."""
    return 1.0 - fullness if node_policy == "spread" else fullness


def combined(core: float, opinions: Iterable[tuple[float, float]]) -> float:
    """A node's score 0–1 from the core's part and the backends' (score, weight) pairs."""
    scores, weights = core, 1.0
    for score, weight in opinions:
        scores += weight * score
        weights += weight
    return scores / weights
