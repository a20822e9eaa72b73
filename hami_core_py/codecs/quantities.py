"""Kubernetes quantities → exact numbers: ``3k``, ``16Gi``, ``1500m``, ``-2``, ``1e3``."""

import re
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from typing import Final

from hami_core_py.codecs.fields import MAX_AMOUNT, shown
from hami_core_py.errors import BadInputError, RequestError

MIB: Final = 1 << 20
"""Bytes of one MiB."""

_FORM: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?P<point>\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_MOST_CHARACTERS: Final = 64
# Longer than any quantity that passes _FORM and _MOST_CHARACTERS can become, so that nothing is ever rounded.
_EXACT: Final = Context(prec=200, Emax=MAX_EMAX, Emin=MIN_EMIN)


def parse_quantity(text: str, where: str = "quantity") -> Decimal:
    """The exact number a quantity stands for.

    :param where: names the place in errors.
    :raises RequestError: it is no Kubernetes quantity.
    """
    if text.isascii() and text.isdigit() and len(text) <= _MOST_CHARACTERS:
        return Decimal(text)
    match = _match(text, where)
    number = Decimal(match["number"])
    if exponent := match["exponent"]:
        return number.scaleb(int(exponent), _EXACT)
    suffix = match["suffix"]
    if suffix is None:
        return number
    if suffix in _BINARY:
        return _EXACT.multiply(number, Decimal(1 << _BINARY[suffix]))
    return number.scaleb(_DECIMAL[suffix], _EXACT)


def whole_number(text: str, where: str, *, highest: int = MAX_AMOUNT, unit: str = "", unit_mib: int = 0) -> int:
    """A whole number from 0 to ``highest`` that is also written as one, without fraction digits or a fraction suffix.

    :param unit: what is counted, for the error's text. :param unit_mib: MiB of one unit where memory is counted, so that
        the error of an amount in bytes can say what to write instead; 0 elsewhere.
    :raises RequestError: it is anything else.
    """
    if text.isascii() and text.isdigit() and len(text) <= 10:
        value = int(text)
        if value <= highest:
            return value
    number = parse_quantity(text, where)
    if 0 <= number <= highest and _is_written_whole(text, where):
        return int(number)
    expected = f"a whole number of {unit}" if unit else "a whole number"
    hint = _hint(text, number, where, highest, unit_mib)
    raise RequestError(where, f"{expected} from 0 to {highest}", shown(text), hint)


def bytes_suffix(text: str) -> bool:
    """Whether an amount carries a suffix that only a number of bytes has.

    A ``k`` is none: the API server itself writes a plain 2000 as ``2k``.
    """
    match = _FORM.fullmatch(text)
    return match is not None and match["suffix"] is not None and match["suffix"] not in ("n", "u", "m", "k")


def units_of_bytes(text: str, unit_mib: int, where: str = "quantity") -> int:
    """How many units of so many MiB hold a number of bytes. :raises RequestError: it is no Kubernetes quantity."""
    return int(_ceiling(_EXACT.divide(parse_quantity(text, where), Decimal(unit_mib * MIB))))


def same_amount(one: str, other: str) -> bool:
    """Whether two texts stand for the same number; texts that are no quantities are compared as they are."""
    if one == other:
        return True
    try:
        return parse_quantity(one) == parse_quantity(other)
    except BadInputError:
        return False


def _match(text: str, where: str) -> re.Match[str]:
    match = _FORM.fullmatch(text) if len(text) <= _MOST_CHARACTERS else None
    if match is None:
        raise RequestError(where, "a Kubernetes quantity such as 4000 or 4k", shown(text))
    return match


def _is_written_whole(text: str, where: str) -> bool:
    match = _match(text, where)
    fraction = match["point"] is not None or match["suffix"] in ("n", "u", "m")
    return not fraction and not (match["exponent"] or "").startswith("-")


def is_extended(resource: str) -> bool:
    """Whether a resource is one of a device plugin: whole numbers that cannot be overcommitted."""
    domain, slash, _ = resource.rpartition("/")
    return bool(slash) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def _hint(text: str, number: Decimal, where: str, highest: int, unit_mib: int) -> str:
    """What to write instead, where that can be known."""
    if number < 0:
        return "leave it out or write a positive number"
    if unit_mib and _match(text, where)["suffix"] in _BINARY:
        units = _ceiling(_EXACT.divide(number, Decimal(unit_mib * MIB)))
        if units <= highest:
            return f"write {int(units)}: one unit is {unit_mib} MiB"
    whole = _ceiling(number)
    return f"write {int(whole)}" if whole <= highest else ""


def _ceiling(number: Decimal) -> Decimal:
    return number.to_integral_value(ROUND_CEILING)
