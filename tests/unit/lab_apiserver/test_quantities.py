from __future__ import annotations

from fractions import Fraction

import pytest

from hami_core_py.lab.apiserver.quantities import canonical, value_of


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("4000", "4k"),
        ("30", "30"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("512", "512"),
        ("1Ki", "1Ki"),
        ("0.1Ki", "102400m"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1e3", "1e3"),
        ("100e1", "1e3"),
        ("12E", "12E"),
        ("0", "0"),
        ("0Mi", "0"),
        ("-1", "-1"),
        ("1000000", "1M"),
        ("0.0000000001", "1n"),
        ("+5", "5"),
        (".5", "500m"),
    ],
)
def test_a_quantity_is_read_back_in_canonical_form(written: str, read: str) -> None:
    assert canonical(written) == read
    assert canonical(read) == read


def test_canonical_form_keeps_the_value() -> None:
    assert value_of("1024Mi") == value_of("1Gi") == 2**30
    assert value_of("500m") == Fraction(1, 2)


@pytest.mark.parametrize("text", ["", "Gi", "12GiB", "1 Gi", "ten", "1.2.3", "--1", "0x10", "1e"])
def test_what_is_no_quantity_is_refused_in_the_servers_words(text: str) -> None:
    with pytest.raises(ValueError, match="quantities must match the regular expression"):
        canonical(text)
