"""Interned states of devices: equal numbers where rules and cutting can see no difference."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from hami_core_py.decisions.select import link_indexes
from hami_core_py.models.devices import Device, DeviceId, Usage


@dataclass(frozen=True, slots=True)
class SeatState:
    """One interned state of a device: what rules and cutting can see of it."""

    device: Device
    used: Usage
    links: Mapping[int, int]


class DeviceStates:
    """States of the devices of one family, and of whole nodes.

    :ivar known: by number. :ivar epoch: grows when all numbers are given anew.
    """

    def __init__(self) -> None:
        self.known: list[SeatState] = []
        self.epoch = 0
        self._numbers: dict[Hashable, int] = {}
        self._node_numbers: dict[Hashable, int] = {}

    @property
    def interned(self) -> int:
        """How many are kept, of devices or of nodes, whichever are more."""
        return max(len(self.known), len(self._node_numbers))

    def forget(self) -> None:
        """Begin anew; most of what is interned may not be in use any more."""
        self.known, self._numbers, self._node_numbers = [], {}, {}
        self.epoch += 1

    def number(self, device: Device, used: Usage, kind: int, indexes: Mapping[DeviceId, int]) -> int:
        """Number of one device's state. :param kind: number of its kind. :param indexes: of its node's devices."""
        links = link_indexes(device, indexes) if device.links else {}
        key = (
            kind,
            device.index,
            device.numa,
            tuple(sorted(device.groups.items())),
            repr(sorted(device.facts.items())) if device.facts else "",
            tuple(sorted(links.items())),
            (used.slots, used.memory_mib, used.core_units, used.cells, used.occupied),
            tuple(sorted(used.labels.items())) if used.labels else (),
        )
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.known)
            self.known.append(SeatState(device, used, links))
        return number

    def node_number(self, states: bytes, closed: bytes) -> int:
        """Number of a node's state: that of all its devices, and what closes them."""
        return self._node_numbers.setdefault((states, closed), len(self._node_numbers))
