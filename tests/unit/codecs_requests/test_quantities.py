"""Quantities are read exactly, and an amount that is none of ours says what to write instead."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core_py.codecs.quantities import bytes_suffix, parse_quantity, same_amount, units_of_bytes, whole_number
from hami_core_py.errors import RequestError

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
WHERE = "pod default/train, container 'main': acme.example/npu-memory"


def scale(suffix: str) -> Fraction:
    return Fraction(2) ** BINARY[suffix] if suffix in BINARY else Fraction(10) ** DECIMAL[suffix]


@given(
    st.integers(-(10**18), 10**18),
    st.integers(0, 9),
    st.sampled_from([*DECIMAL, *BINARY]),
)
def test_every_number_with_every_suffix_is_exact(mantissa: int, places: int, suffix: str) -> None:
    sign, digits = ("-" if mantissa < 0 else ""), str(abs(mantissa)).rjust(places + 1, "0")
    text = f"{sign}{digits[: len(digits) - places]}.{digits[len(digits) - places :]}{suffix}"
    assert Fraction(parse_quantity(text)) == Fraction(mantissa, 10**places) * scale(suffix)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4000", "4000"),
        ("6k", "6000"),
        ("1Ki", "1024"),
        ("16Gi", "17179869184"),
        ("1500m", "1.5"),
        ("-2", "-2"),
        ("+3", "3"),
        (".5", "0.5"),
        ("5.", "5"),
        ("1e3", "1000"),
        ("12E2", "1200"),
        ("1E", "1000000000000000000"),
        ("2e-3", "0.002"),
        ("007", "7"),
    ],
)
def test_quantity_stands_for(text: str, value: str) -> None:
    assert parse_quantity(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "k", "1K", "1ki", "1mi", "1kk", "1e", "1e3k", "--1", "0x10", "1_000", "nan", "Infinity", "1,5"],
)
def test_other_texts_are_no_quantity(text: str) -> None:
    with pytest.raises(RequestError, match="expected a Kubernetes quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["١٢", "²", "9" * 65, "1e9999"])
def test_hostile_numbers_are_no_quantity(text: str) -> None:
    with pytest.raises(RequestError):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("6k", 6000), ("1Ki", 1024), ("1e3", 1000), ("+5", 5), ("2147483647", 2**31 - 1)]
)
def test_whole_number_is_read(text: str, value: int) -> None:
    assert whole_number(text, WHERE) == value


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("12Gi", "write 12288: one unit is 1 MiB"),
        ("16.0Gi", "write 16384: one unit is 1 MiB"),
        ("1500m", "write 2"),
        ("1000m", "write 1"),
        ("1.0", "write 1"),
        ("500m", "write 1"),
        ("1000e-3", "write 1"),
        ("-200", "leave it out or write a positive number"),
        ("3000000000", ""),
        ("1e999", ""),
    ],
)
def test_other_amounts_are_refused_with_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(RequestError) as refused:
        whole_number(text, WHERE, unit="MiB", unit_mib=1)
    error = refused.value
    assert (error.where, error.expected) == (WHERE, "a whole number of MiB from 0 to 2147483647")
    assert (error.got, error.hint) == (repr(text), hint)


def test_hint_counts_in_the_units_of_the_resource() -> None:
    with pytest.raises(RequestError, match="write 48: one unit is 256 MiB"):
        whole_number("12Gi", WHERE, highest=(2**31 - 1) // 256, unit_mib=256)


def test_bound_lies_where_it_is_said() -> None:
    assert whole_number("8388607", WHERE, highest=(2**31 - 1) // 256) == 8388607
    with pytest.raises(RequestError):
        whole_number("8388608", WHERE, highest=(2**31 - 1) // 256)


@given(st.integers(0, 2**31 - 1))
def test_plain_numbers_pass_unchanged(value: int) -> None:
    assert whole_number(str(value), WHERE) == value


@pytest.mark.parametrize(
    ("text", "is_bytes"), [("16", False), ("2k", False), ("500m", False), ("1024Mi", True), ("2M", True)]
)
def test_suffix_that_only_bytes_have(text: str, is_bytes: bool) -> None:
    assert bytes_suffix(text) is is_bytes


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("3k", "3000", True),
        ("1Ki", "1024", True),
        ("1", "1000m", True),
        ("1", "2", False),
        ("x", "1", False),
        ("x", "x", True),
    ],
)
def test_amounts_are_compared_by_value(one: str, other: str, same: bool) -> None:
    assert same_amount(one, other) is same


def test_bytes_are_rounded_up_to_units() -> None:
    assert units_of_bytes("1Gi", 256) == 4
    assert units_of_bytes("1025Mi", 256) == 5
