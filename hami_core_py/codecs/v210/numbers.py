"""Numbers and truth values as v2.10 spells them in delimited text."""

import re
from typing import Final

from hami_core_py.codecs.fields import shown
from hami_core_py.errors import BadInputError

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1

_DECIMAL = re.compile(r"[+-]?[0-9]+", re.ASCII)
_TRUTH: Final = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


def parse_int(
    text: str,
    where: str,
    error: type[BadInputError],
    *,
    lowest: int = INT32_MIN,
    highest: int = INT32_MAX,
) -> int:
    """A decimal number, sign allowed, blanks not. :raises BadInputError: of the given kind, when it is none within bounds."""
    # The length is looked at first: converting a text of a million digits would take seconds.
    if len(text) <= 24 and _DECIMAL.fullmatch(text) and lowest <= (value := int(text)) <= highest:
        return value
    raise error(where, f"a whole number from {lowest} to {highest}", shown(text))


def parse_flag(text: str, where: str, error: type[BadInputError]) -> bool:
    """One of the eleven spellings of a truth value. :raises BadInputError: of the given kind, when it is another."""
    value = _TRUTH.get(text)
    if value is None:
        raise error(where, "true or false", shown(text))
    return value
