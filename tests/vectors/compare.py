"""What differs between two answers: numbers by value, annotations that hold JSON as JSON, errors by there being one."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hami_core_py.codecs.quantities import parse_quantity
from hami_core_py.errors import BadInputError

AMOUNTS = re.compile(r"\.(limits|requests)\.")
"""Places in a pod where texts are quantities."""

FIELD_ERROR = re.compile(r"invalid (\w+) field")
"""An error of v2.10 that names a field; ours must name it too."""


def differences(expected: Any, got: Any, where: str = "") -> Iterator[str]:
    """One line per difference; none when the answers are equal."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key in sorted({*expected, *got}, key=str):
            place = f"{where}.{key}" if where else str(key)
            if key == "error":
                yield from error_differences(expected.get(key), got.get(key), place)
            elif key not in got:
                yield f"{place}: expected {shown(expected[key])}, got nothing"
            elif key not in expected:
                yield f"{place}: expected nothing, got {shown(got[key])}"
            else:
                yield from differences(expected[key], got[key], place)
    elif isinstance(expected, list) and isinstance(got, list):
        if len(expected) != len(got):
            yield f"{where}: expected {len(expected)} entries, got {len(got)}: {shown(expected)} / {shown(got)}"
        for i, (one, other) in enumerate(zip(expected, got, strict=False)):
            yield from differences(one, other, f"{where}[{i}]")
    elif not equal(expected, got) and not (AMOUNTS.search(where) and same_quantity(expected, got)):
        yield f"{where}: expected {shown(expected)}, got {shown(got)}"


def error_differences(expected: Any, got: Any, where: str) -> Iterator[str]:
    """An error is met by any error, one that names a field by one that names the same."""
    if bool(expected) != bool(got):
        yield f"{where}: expected {shown(expected)}, got {shown(got)}"
    elif isinstance(expected, str) and isinstance(got, str):
        named = FIELD_ERROR.match(expected)
        if named and named[1] not in got:
            yield f"{where}: expected one that names {named[1]!r}, got {shown(got)}"


def equal(expected: Any, got: Any) -> bool:
    """Whether two leaves say the same."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, int | float) and isinstance(got, int | float):
        return math.isclose(expected, got, rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(expected, str) and isinstance(got, str) and expected != got:
        if re.fullmatch(r"<time:\d+>", expected):
            return got.isdigit() and len(got) == int(expected[6:-1])
        return expected[:1] in ("[", "{") and _json(expected) is not None and _json(expected) == _json(got)
    return bool(expected == got)


def same_quantity(expected: Any, got: Any) -> bool:
    """Whether two texts are one quantity, such as ``3k`` and ``3000``."""
    try:
        return parse_quantity(expected) == parse_quantity(got)
    except (BadInputError, AttributeError):
        return False


def shown(value: Any) -> str:
    """A value in one line, cut to a readable length."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else f"{text[:297]}..."


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
