"""Kinds of device: what never changes on one. A cluster has few of them."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hami_core_py.models.devices import Device

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Totals:
    """Sizes by number of kind."""

    slots: Ints
    memory: Ints
    cores: Ints


class Kinds:
    """The kinds of one family, numbered in order of appearance.

    :ivar known: a device of each kind; grows, and is never replaced.
    """

    def __init__(self) -> None:
        self.known: list[Device] = []
        self._numbers: dict[Hashable, int] = {}
        self._totals = Totals(*np.zeros((3, 0), np.int64))

    def number(self, device: Device) -> int:
        """Number of a device's kind: model, sizes, modes and profiles."""
        key = (
            device.model,
            device.slots,
            device.memory_mib,
            device.core_units,
            device.modes,
            device.cells,
            device.blocked_cells,
            device.profiles,
        )
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.known)
            self.known.append(device)
        return number

    @property
    def totals(self) -> Totals:
        """Sizes of each kind."""
        if len(self._totals.slots) != len(self.known):
            sizes = np.array([(k.slots, k.memory_mib, k.core_units) for k in self.known], np.int64).reshape(-1, 3)
            self._totals = Totals(*sizes.T)
        return self._totals
