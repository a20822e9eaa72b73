"""Settings and command line of the lab's kubelet."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from hami_core_py.lab.kubelet.__main__ import pairs
from hami_core_py.lab.kubelet.logs import offset_of_last_lines
from hami_core_py.lab.kubelet.options import KubeletOptions


def test_root_too_long_for_unix_sockets_is_refused_with_advice() -> None:
    options = KubeletOptions(node="n", api_url="http://127.0.0.1:1", root=Path("/tmp/" + "x" * 100))
    with pytest.raises(ValueError, match=r"at most 107 bytes, .* has 1\d\d; choose a shorter root"):
        options.check()


def test_pairs_are_read_and_anything_else_is_refused() -> None:
    assert pairs("cpu=4,memory=8Gi") == {"cpu": "4", "memory": "8Gi"}
    with pytest.raises(argparse.ArgumentTypeError, match="got 'cpu'"):
        pairs("cpu")


@pytest.mark.parametrize(
    ("text", "count", "tail"),
    [
        ("a\nb\nc\n", None, "a\nb\nc\n"),
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\n", 9, "a\nb\n"),
        ("a\nb\n", 0, ""),
        ("", 3, ""),
    ],
)
def test_last_lines_of_a_log(tmp_path: Path, text: str, count: int | None, tail: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    assert text[offset_of_last_lines(path, count) :] == tail
