"""What ``hami run`` agrees to run, and how amounts are read."""

import struct
import sys
from pathlib import Path

import pytest

from hami_core_py.codecs.executables import Executable, read_executable
from hami_core_py.commands.run import find_program, memory_mib
from hami_core_py.errors import BadInputError


def program(loader: str) -> bytes:
    """The beginning of a program with this loader; without one a static program."""
    header = b"\x7fELF\x02\x01" + bytes(26) + struct.pack("<QQIHHHHHH", 64, 0, 0, 64, 56, 1 if loader else 0, 0, 0, 0)
    named = loader.encode() + b"\0"
    return header + struct.pack("<IIQQQQ", 3, 0, 120, 0, 0, len(named)) + bytes(16) + named


@pytest.mark.parametrize(
    ("head", "kind", "by"),
    [
        (b"#!/bin/sh -e\n", "script", "/bin/sh"),
        (b"#! /usr/bin/env -S A=1 python3 -I\n", "script", "python3"),
        (program("/lib64/ld-linux-x86-64.so.2"), "dynamic", "/lib64/ld-linux-x86-64.so.2"),
        (program("/lib/ld-musl-x86_64.so.1"), "dynamic", "/lib/ld-musl-x86_64.so.1"),
        (program(""), "static", ""),
    ],
)
def test_first_bytes_tell_what_starts_a_program(head: bytes, kind: str, by: str) -> None:
    assert read_executable(head, "it") == Executable(kind, by)  # type: ignore[arg-type]  # literals in a table


@pytest.mark.parametrize("head", [b"", b"#!\n", b"MZ\x90\x00", b"\x7fELF\x01\x01" + bytes(80)])
def test_other_files_are_no_programs(head: bytes) -> None:
    with pytest.raises(BadInputError):
        read_executable(head, "it")


def written(path: Path, head: bytes) -> str:
    path.write_bytes(head)
    path.chmod(0o755)
    return str(path)


def test_this_python_can_be_held_and_a_script_of_it(tmp_path: Path) -> None:
    assert find_program(sys.executable) == sys.executable
    script = written(tmp_path / "script", f"#!{sys.executable}\n".encode())
    assert find_program(script) == script


@pytest.mark.parametrize(("loader", "why"), [("", "statically"), ("/lib/ld-musl-x86_64.so.1", "musl")])
def test_program_that_loads_no_library_is_refused_also_behind_a_script(tmp_path: Path, loader: str, why: str) -> None:
    inner = written(tmp_path / "inner", program(loader))
    for path in (inner, written(tmp_path / "outer", f"#!{inner}\n".encode())):
        with pytest.raises(BadInputError, match=why):
            find_program(path)


def test_memory_is_a_quantity_of_whole_mib() -> None:
    assert [memory_mib(text) for text in ("4000Mi", "4Gi", "1048577")] == [4000, 4096, 1]


@pytest.mark.parametrize(("text", "hint"), [("12", "write 12Mi"), ("4 GB", "write 4000Mi"), ("0", "1Mi or more")])
def test_memory_that_is_none_is_refused_with_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(BadInputError, match=hint):
        memory_mib(text)
