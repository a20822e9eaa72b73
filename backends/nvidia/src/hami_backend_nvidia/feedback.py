"""Whose work waits for whose: the arbitration between containers that share a device, by priority.

The limiter marks its container active with each launch (2); the monitor counts that down once a round, pauses those that share
a device with more important active ones (-1), and lifts compute limits where nobody competes, as HAMi v2.10 does.
"""

import os
import stat
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SWITCH_AT, RECENT_AT = 2008900, 2008904
PAUSED, IDLE, LAUNCHED = -1, 0, 2
LONGEST_PAUSE = -(2**30)
_WORD = struct.Struct("<i")


@dataclass(frozen=True, slots=True)
class Contender:
    """One container. :ivar priority: 0 is the most important. :ivar recent: how lately it launched, or that it is paused."""

    devices: frozenset[str]
    priority: int
    recent: int
    is_limited: bool


@dataclass(frozen=True, slots=True)
class Orders:
    """What a container's region shall say from now on."""

    recent: int
    is_limited: bool


def arbitrate(contenders: Mapping[str, Contender]) -> dict[str, Orders]:
    """One round over all containers of a node (pure)."""
    counted = {name: one.recent - 1 if one.recent > 0 else one.recent for name, one in contenders.items()}
    active: dict[tuple[str, int], int] = {}
    for name, one in contenders.items():
        if counted[name] > 0 and one.priority >= 0:
            for device in one.devices:
                active[device, one.priority] = active.get((device, one.priority), 0) + 1
    orders = {}
    for name, one in contenders.items():
        is_blocked = any(device in one.devices and rank < one.priority for device, rank in active)
        is_contended = is_blocked or any(active.get((device, one.priority), 0) > 1 for device in one.devices)
        recent = counted[name]
        if is_blocked:
            # Another number each round: the limiter goes on when a pause is not renewed, as when the monitor has died.
            recent = max(min(recent, IDLE) - 1, LONGEST_PAUSE)
        elif recent < 0:
            recent = IDLE
        orders[name] = Orders(recent, is_contended)
    return orders


def read_marks(path: Path) -> tuple[int, bool] | None:
    """How lately a region's container launched, and whether its limits hold; ``None``: it has no region.

    More than the limiter would write does not make a container active for longer.
    """
    try:
        descriptor = _open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        switch, recent = struct.unpack("<ii", os.pread(descriptor, 8, SWITCH_AT))
    except struct.error:
        return None
    finally:
        os.close(descriptor)
    return min(recent, LAUNCHED), switch != 0


def write_orders(path: Path, before: Contender, orders: Orders) -> None:
    """Write what has changed, into the two words that are the monitor's to write. :raises OSError: it cannot be written."""
    changes: Sequence[tuple[int, int]] = [
        *([(RECENT_AT, orders.recent)] if orders.recent != before.recent else []),
        *([(SWITCH_AT, int(orders.is_limited))] if orders.is_limited != before.is_limited else []),
    ]
    if not changes:
        return
    descriptor = _open(path, os.O_WRONLY)
    try:
        for at, value in changes:
            os.pwrite(descriptor, _WORD.pack(value), at)
    finally:
        os.close(descriptor)


def _open(path: Path, flags: int) -> int:
    """A region that is a plain file and as long as one; the folder it lies in is its container's to write."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    told = os.fstat(descriptor)
    if not stat.S_ISREG(told.st_mode) or told.st_size < RECENT_AT + _WORD.size:
        os.close(descriptor)
        raise OSError(0, "it is no region")
    return descriptor
