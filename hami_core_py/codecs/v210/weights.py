"""How much slots, cores and memory count in the score of a device: ``slot=1,core=1,memory=3``."""

from typing import Final

from hami_core_py.codecs.fields import shown
from hami_core_py.codecs.v210.numbers import parse_int
from hami_core_py.errors import RequestError
from hami_core_py.models.requests import Weights

WEIGHTS: Final = "hami.io/device-scoring-weights"

_NAMES: Final = ("slot", "core", "memory")
_MAX_INT64: Final = 2**63 - 1


def parse_weights(text: str, where: str) -> Weights:
    """Read all three weights, in any order, blanks allowed around each part.

    :raises RequestError: one is missing, unknown, twice there, no whole number from 0, or all are 0.
    """
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(_NAMES):
        raise RequestError(where, "slot=…,core=…,memory=…, each once", shown(text))
    weights: dict[str, int] = {}
    for part in parts:
        name, equals, amount = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise RequestError(where, "name=number", shown(part))
        if name in weights:
            raise RequestError(where, "every weight once", f"{name!r} twice")
        weights[name] = parse_int(amount, f"{where}: {name}", RequestError, lowest=0, highest=_MAX_INT64)
        if name not in _NAMES:
            raise RequestError(where, f"one of {', '.join(_NAMES)}", shown(name))
    if not any(weights.values()):
        raise RequestError(where, "a weight above 0", shown(text))
    return Weights(**weights)


def render_weights(weights: Weights) -> str:
    """Write weights in the order in which people write them."""
    return f"slot={weights.slot},core={weights.core},memory={weights.memory}"
