"""Resource quantities as numbers, for comparing what a node has with what pods ask."""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)([eE][+-]?\d+|[numkMGTPE]|[KMGTPE]i|)")
_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL = {suffix: Decimal(10) ** power for suffix, power in _POWERS.items()}
_BINARY = {f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)}


def amount(text: str) -> Decimal:
    """The value of a Kubernetes quantity, in its base unit (cores, bytes, pieces).

    :raises ValueError: it is not a quantity.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a quantity such as 500m or 2Gi, got {text!r}")
    number, suffix = Decimal(match[1]), match[2]
    if suffix[:1] in {"e", "E"} and len(suffix) > 1 and suffix[1:] != "i":
        return number * Decimal(10) ** int(suffix[1:])
    return number * (_DECIMAL | _BINARY).get(suffix, Decimal(1))
