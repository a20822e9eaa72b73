"""What the loader of this machine makes of a library, and who has loaded it."""

import subprocess
from pathlib import Path

import pytest

from hami_core_py.services.doctor.loading import glibc, loaded_by, why_not_loadable

NAME = "0123456789abcdef"


def test_library_that_is_none_is_refused_in_the_loaders_words(tmp_path: Path) -> None:
    if glibc() is None:
        pytest.skip("another C library")
    broken = tmp_path / "lib.so"
    broken.write_bytes(b"\x7fELF nonsense")
    assert why_not_loadable(broken).startswith("the loader says: ")


def test_library_that_loads_is_fine(tmp_path: Path) -> None:
    source, library = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text("int hami_trial;\n")
    if subprocess.run(["gcc", "-shared", "-o", library, source], check=False, capture_output=True).returncode:
        pytest.skip("no compiler")
    assert why_not_loadable(library) == ""


def process(proc: Path, pid: int, *, mounted: str, maps: str) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "mountinfo").write_text(f"37 36 0:1 {mounted} /usr/local/x rw - ext4 x rw\n")
    (folder / "maps").write_text(f"7f0-7f1 r-xp 00000000 00:01 1    {maps}\n")


def test_container_has_loaded_the_library_when_one_process_has(tmp_path: Path) -> None:
    process(tmp_path, 1, mounted="/", maps="/usr/local/x/lib.so")
    assert loaded_by(NAME, {"lib.so"}, tmp_path) is None
    process(tmp_path, 2, mounted=f"/hami/containers/{NAME}/shared", maps="/bin/busybox")
    assert loaded_by(NAME, {"lib.so"}, tmp_path) is False
    process(tmp_path, 3, mounted=f"/hami/containers/{NAME}/shared", maps="/usr/local/x/lib.so")
    assert loaded_by(NAME, {"lib.so"}, tmp_path) is True
    assert loaded_by(NAME, (), tmp_path) is None
