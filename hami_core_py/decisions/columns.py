"""All devices of one family as columns: one row per device, the rows of one node side by side.

An event changes the rows it concerns, in place. What never changes on a device is its *kind*: model, sizes, modes and
profiles. A cluster has few kinds, so a request is compared with each kind once, by the exact rules, and with the rows by
array expressions over amounts in use.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hami_core_py.decisions.device_states import DeviceStates
from hami_core_py.decisions.kinds import Ints, Kinds, Totals
from hami_core_py.models.devices import Device, DeviceId, Usage

Numbers = NDArray[np.int8]
Flags = NDArray[np.bool_]

GONE = -1
"""Node number of rows that no node uses any more."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one device puts into its row. ``closed``: rank of the reason that closes it, 0 when it is open.

    :ivar shut: whether it is closed by something else than a pod's unreadable record, which eviction might cure.
    """

    device: Device
    used: Usage
    closed: int
    shut: bool


class FamilyColumns:
    """The columns of one family; whoever owns it sees to it that one thread at a time uses it."""

    def __init__(self, mutex_group: str | None = None) -> None:
        self._mutex_group = mutex_group
        self.size = 0
        self._kinds = Kinds()
        self.kinds = self._kinds.known
        self.has_links = False
        self._rows_of: dict[int, tuple[int, int, int]] = {}
        self._ids: dict[int, tuple[DeviceId, ...]] = {}
        self._gone_rows = 0
        self.segments = 0
        self._allocate(64)
        self._starts, self._segment_state = np.zeros(16, np.intp), np.zeros(16, np.intp)
        self._segment_node = np.full(16, GONE, np.intp)
        self.states = DeviceStates()
        self._numbers_states = False
        self._held: dict[int, tuple[Row, ...]] = {}

    # What a request is compared with; all of them views of the rows in use

    @property
    def used_slots(self) -> Ints:
        """Slots in use."""
        return self._used_slots[: self.size]

    @property
    def used_memory(self) -> Ints:
        """Memory in use, MiB."""
        return self._used_memory[: self.size]

    @property
    def used_cores(self) -> Ints:
        """Core units in use."""
        return self._used_cores[: self.size]

    @property
    def kind(self) -> NDArray[np.intp]:
        """Number of the device's kind."""
        return self._kind[: self.size]

    @property
    def closed(self) -> Numbers:
        """Rank of the reason that closes the device to everyone; 0: open."""
        return self._closed[: self.size]

    @property
    def shut(self) -> Flags:
        """Closed by what no eviction cures."""
        return self._shut[: self.size]

    @property
    def numa_set(self) -> NDArray[np.intp]:
        """Number of the device's set: devices of one node on one NUMA node; it is the row of one of the node's devices."""
        return self._numa_set[: self.size]

    @property
    def mutex_set(self) -> NDArray[np.intp]:
        """The same for devices that exclude each other's tenants."""
        return self._mutex_set[: self.size]

    @property
    def starts(self) -> NDArray[np.intp]:
        """First row of each segment; segments follow each other without gaps."""
        return self._starts[: self.segments]

    @property
    def segment_node(self) -> NDArray[np.intp]:
        """Number of the node whose rows a segment holds, ``GONE`` when it is not used any more."""
        return self._segment_node[: self.segments]

    @property
    def numa(self) -> Ints:
        """NUMA node of the device."""
        return self._numa[: self.size]

    @property
    def index(self) -> Ints:
        """Position of the device on its node."""
        return self._index[: self.size]

    @property
    def totals(self) -> Totals:
        """Sizes of each kind."""
        return self._kinds.totals

    def places(self, nodes: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """First row and number of rows of each node."""
        found = np.array([self._rows_of[node][:2] for node in nodes.tolist()], np.intp).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def row(self, node: int, device: DeviceId) -> int | None:
        """Row of one device; ``None`` when the node does not report it."""
        ids = self._ids.get(node)
        if ids is None or device not in ids:
            return None
        return self._rows_of[node][0] + ids.index(device)

    def rows(self, node: int) -> slice:
        """Rows of one node."""
        start, count, _ = self._rows_of.get(node, (0, 0, 0))
        return slice(start, start + count)

    def has(self, node: int) -> bool:
        """Whether the node reports devices of this family."""
        return node in self._rows_of

    def rows_with_ids(self, ids: frozenset[str]) -> NDArray[np.intp]:
        """Rows of the devices with these ids, on whatever node."""
        found = [
            self._rows_of[node][0] + i for node, own in self._ids.items() for i, name in enumerate(own) if name in ids
        ]
        return np.array(found, np.intp)

    # Events

    def set_node(self, node: int, rows: Sequence[Row]) -> None:
        """Put all devices of a node in place of what was there; empty: the node has none of this family."""
        old = self._rows_of.get(node)
        if old is not None and old[1] != len(rows):
            self._retire(node)
            old = None
        if not rows:
            return
        if old is None:
            old = self._append(node, len(rows))
        start = old[0]
        self._ids[node] = tuple(row.device.id for row in rows)
        self._held[node] = tuple(rows)
        numa = _local([row.device.numa for row in rows])
        mutex = _local([self._mutex_key(row.device) for row in rows])
        for i, row in enumerate(rows):
            at = start + i
            self._kind[at] = self._kinds.number(row.device)
            self._closed[at], self._shut[at] = row.closed, row.shut
            self._numa_set[at], self._mutex_set[at] = start + numa[i], start + mutex[i]
            self._numa[at], self._index[at] = row.device.numa, row.device.index
            self.has_links = self.has_links or bool(row.device.links)
            self._put_usage(at, row.used)
        if self._numbers_states:
            self._number_node(node)

    def set_usage(self, node: int, device: DeviceId, used: Usage) -> None:
        """Change the amounts in use on one device; a device that is not reported is passed over."""
        at = self.row(node, device)
        if at is None:
            return
        self._put_usage(at, used)
        held = list(self._held[node])
        place = at - self._rows_of[node][0]
        held[place] = Row(held[place].device, used, held[place].closed, held[place].shut)
        self._held[node] = tuple(held)
        if self._numbers_states:
            self._state[at] = self._state_number(at, held[place], self._indexes(node))
            self._number_segment(node, self._rows_of[node][2])

    # States, numbered from the first time that somebody needs them

    @property
    def state(self) -> NDArray[np.intp]:
        """Number of each device's interned state."""
        if not self._numbers_states or self.states.interned > 4 * self.size + 1024:
            self._numbers_states = True
            self.states.forget()
            for node in self._rows_of:
                self._number_node(node)
        return self._state[: self.size]

    @property
    def segment_state(self) -> NDArray[np.intp]:
        """Number of the state of each segment: equal where all devices and what closes them are in equal states."""
        _ = self.state
        return self._segment_state[: self.segments]

    def _number_node(self, node: int) -> None:
        (start, _, segment), indexes = self._rows_of[node], self._indexes(node)
        for i, row in enumerate(self._held[node]):
            self._state[start + i] = self._state_number(start + i, row, indexes)
        self._number_segment(node, segment)

    def _number_segment(self, node: int, segment: int) -> None:
        rows = self.rows(node)
        number = self.states.node_number(self._state[rows].tobytes(), self._closed[rows].tobytes())
        self._segment_state[segment] = number

    def _state_number(self, at: int, row: Row, indexes: Mapping[DeviceId, int]) -> int:
        return self.states.number(row.device, row.used, int(self._kind[at]), indexes)

    def _indexes(self, node: int) -> dict[DeviceId, int]:
        return {row.device.id: row.device.index for row in self._held[node]}

    # Inside

    def _mutex_key(self, device: Device) -> Hashable:
        return (device.groups.get(self._mutex_group) if self._mutex_group else None) or ("", device.id)

    def _put_usage(self, at: int, used: Usage) -> None:
        self._used_slots[at], self._used_memory[at], self._used_cores[at] = used.slots, used.memory_mib, used.core_units

    def _append(self, node: int, count: int) -> tuple[int, int, int]:
        while self.size + count > len(self._kind):
            self._grow()
        if self.segments == len(self._starts):
            self._starts, self._segment_state = (
                np.concatenate([a, np.zeros_like(a)]) for a in (self._starts, self._segment_state)
            )
            self._segment_node = np.concatenate([self._segment_node, np.full_like(self._segment_node, GONE)])
        place = (self.size, count, self.segments)
        self._starts[self.segments], self._segment_node[self.segments] = self.size, node
        self._rows_of[node] = place
        self.segments += 1
        self.size += count
        return place

    def _retire(self, node: int) -> None:
        """Take a node's rows out of use, and move all rows together when most are out of use."""
        start, count, segment = self._rows_of.pop(node)
        del self._ids[node], self._held[node]
        self._segment_node[segment] = GONE
        self._closed[start : start + count] = 1
        self._gone_rows += count
        if self._gone_rows > 64 and self._gone_rows * 2 > self.size:
            held = self._held
            self._rows_of, self._ids, self._held = {}, {}, {}
            self.size = self.segments = self._gone_rows = 0
            for kept, rows in held.items():
                self.set_node(kept, rows)

    def _allocate(self, rows: int) -> None:
        self._used_slots, self._used_memory, self._used_cores = (np.zeros(rows, np.int64) for _ in range(3))
        self._numa, self._index = (np.zeros(rows, np.int64) for _ in range(2))
        self._kind, self._state, self._numa_set, self._mutex_set = (np.zeros(rows, np.intp) for _ in range(4))
        self._closed, self._shut = np.zeros(rows, np.int8), np.zeros(rows, np.bool_)

    def _grow(self) -> None:
        for name in _COLUMNS:
            column: NDArray[Any] = getattr(self, name)
            setattr(self, name, np.concatenate([column, np.zeros_like(column)]))


_COLUMNS = (
    "_used_slots",
    "_used_memory",
    "_used_cores",
    "_numa",
    "_index",
    "_kind",
    "_state",
    "_numa_set",
    "_mutex_set",
    "_closed",
    "_shut",
)


def _local(keys: Sequence[Hashable]) -> list[int]:
    """Number of each key in order of first appearance."""
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]
