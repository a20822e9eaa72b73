"""What walks have answered: nodes that arrays cannot decide are walked once for each state they are in."""

from collections import OrderedDict
from collections.abc import Hashable

from hami_core_py.services.board import SHAPES_REMEMBERED

STATES_REMEMBERED = 20_000
"""States of nodes remembered per request shape."""


class Walked:
    """Answers of the exact walk by request shape and state of the node; the least recently used shape goes."""

    def __init__(self) -> None:
        self._by_shape: OrderedDict[Hashable, dict[Hashable, int]] = OrderedDict()

    def answers(self, shape: Hashable) -> dict[Hashable, int]:
        """State of a node → rank of the reason, 0 when it fits; for the caller to fill."""
        known = self._by_shape.setdefault(shape, {})
        self._by_shape.move_to_end(shape)
        if len(self._by_shape) > SHAPES_REMEMBERED:
            self._by_shape.popitem(last=False)
        if len(known) > STATES_REMEMBERED:
            known.clear()
        return known
