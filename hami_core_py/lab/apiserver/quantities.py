"""Kubernetes quantities in the canonical form that an API server stores.

A client that writes `4000` reads back `4k`, and one that writes `1024Mi` reads back `1Gi`. Programs that read pods
meet these forms on every real cluster, so the lab shows them too.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

_SYNTAX = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?))\Z")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = {exponent: suffix for suffix, exponent in _BINARY.items()}
_NANO = Fraction(1, 10**9)
SYNTAX_MESSAGE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # the API's own words
)


@lru_cache(maxsize=4096)
def value_of(text: str) -> Fraction:
    """The number a quantity stands for.

    :raises ValueError: with the API server's message when `text` is no quantity.
    """
    return _parse(text)[0]


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The same quantity as the API server writes it.

    :raises ValueError: with the API server's message when `text` is no quantity.
    """
    value, style = _parse(text)
    if style == "binary" and -1024 < value < 1024:
        style = "decimal"
    if style == "binary" and value.denominator == 1:
        return _binary(int(value))
    # Finer than nano is rounded away from zero, so that something asked for never becomes nothing.
    units = math.ceil(abs(value) / _NANO)
    return _decimal(-units if value < 0 else units, exponential=style == "exponent")


def _parse(text: str) -> tuple[Fraction, str]:
    match = _SYNTAX.match(text)
    if match is None:
        raise ValueError(SYNTAX_MESSAGE)
    number, exponent, suffix = match.groups()
    if exponent:
        return Fraction(number) * Fraction(10) ** int(exponent[1:]), "exponent"
    if suffix in _BINARY:
        return Fraction(number) * 2 ** _BINARY[suffix], "binary"
    return Fraction(number) * Fraction(10) ** _DECIMAL[suffix or ""], "decimal"


def _binary(value: int) -> str:
    exponent = 0
    while value and value % 1024 == 0 and exponent < 60:
        value, exponent = value // 1024, exponent + 10
    return f"{value}{_BINARY_SUFFIX.get(exponent, '')}"


def _decimal(nano: int, *, exponential: bool) -> str:
    if nano == 0:
        return "0"
    exponent = -9
    while nano % 1000 == 0 and exponent < 18:
        nano, exponent = nano // 1000, exponent + 3
    if exponential:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"
