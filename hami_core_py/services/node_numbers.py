"""Numbers of nodes, small and reused, so that arrays can be indexed by node."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

UNKNOWN = -1
"""Number of a node that is not known."""


class _Numbers(dict[str, int]):
    def __missing__(self, name: str) -> int:
        return UNKNOWN


class NodeNumbers:
    """Name → number, and back.

    :ivar of: ``UNKNOWN`` for a name without a number. :ivar names: by number, those given back included.
    """

    def __init__(self) -> None:
        self.of: dict[str, int] = _Numbers()
        self.names: list[str] = []
        self._free: list[int] = []
        self._ranks: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def take(self, name: str) -> int:
        """The number of a node, which gets one if it has none."""
        number = self.of[name]
        if number == UNKNOWN:
            if self._free:
                number = self._free.pop()
                self.names[number] = name
            else:
                number = len(self.names)
                self.names.append(name)
            self.of[name] = number
            self._ranks = None
        return number

    def give_back(self, name: str) -> int:
        """A node is gone; the number that it had."""
        number = self.of.pop(name, UNKNOWN)
        if number != UNKNOWN:
            self._free.append(number)
            self._ranks = None
        return number

    def resolve(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Number of each name."""
        return np.fromiter(map(self.of.__getitem__, names), np.intp, len(names))

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Place of each node's name among all names, by number."""
        if self._ranks is None:
            order = np.array(sorted(range(len(self.names)), key=self.names.__getitem__), np.intp)
            self._ranks = np.empty(len(order), np.int64)
            self._ranks[order] = np.arange(len(order))
        return self._ranks
