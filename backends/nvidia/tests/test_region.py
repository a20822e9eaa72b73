"""Regions that a tenant wrote by hand; those of the real limiter are read beside its own tests."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hami_backend_nvidia.region import Region, RegionError, Slot, Use, read_region

Written = Any
UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
SIZE = 2008960 + 8


@pytest.fixture
def written(tmp_path: Path, write_region: Any) -> Written:
    return write_region(tmp_path / "region.cache")


def test_only_processes_count_for_which_the_kernel_holds_a_lock(written: Written):
    written.slot(0, 11, total=100)
    written.slot(1, 12, total=200)
    with written.living(1):
        region = read_region(written.path)
    assert region == Region((UUID,), (Slot(12, (Use(1, 2, 3, 200, 25),)),), 0)
    assert read_region(written.path) == Region((UUID,), (), 0)


def test_region_of_other_versions_counts_slots_by_pid_and_status(tmp_path: Path, write_region: Any):
    written = write_region(tmp_path / "region.cache", extended=False)
    written.slot(0, 11, total=100)
    written.slot(1, 12, total=200, status=0)
    region = read_region(written.path)
    assert region is not None
    assert region.use(0).total == 100


def test_sum_is_over_all_processes(written: Written):
    written.slot(0, 11, total=100)
    written.slot(1, 12, total=200)
    with written.living(0, 1):
        region = read_region(written.path)
    assert region is not None
    assert region.use(0) == Use(2, 4, 6, 300, 50)


def test_counts_beyond_the_layout_are_cut(written: Written):
    written.slot(1023, 11, total=5)
    written.put(56, "<Q", 2**63)
    written.put(2008896, "<i", 2**31 - 1)
    with written.living(1023):
        region = read_region(written.path)
    assert region is not None
    assert (len(region.uuids), len(region.slots)) == (16, 1)
    written.put(2008896, "<i", -5)
    assert read_region(written.path) == Region(region.uuids, (), 0)


def test_bytes_that_no_device_has_make_the_region_unbelievable(written: Written):
    written.slot(0, 11, total=2**63)
    with written.living(0), pytest.raises(RegionError, match="claims"):
        read_region(written.path)


def test_uuid_that_is_no_text_is_shown_as_far_as_it_is(written: Written):
    written.put(64, "96s", b"\xff\xfe" + b"A" * 94)
    region = read_region(written.path)
    assert region is not None
    assert region.uuids[0].endswith("A" * 94)


def test_region_that_is_not_made_yet_is_none(written: Written, tmp_path: Path):
    assert read_region(tmp_path / "absent") is None
    (tmp_path / "empty").touch()
    assert read_region(tmp_path / "empty") is None
    written.put(0, "<i", 0)
    assert read_region(written.path) is None


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "short", "foreign"])
def test_what_is_no_region_is_refused_and_never_waited_for(written: Written, tmp_path: Path, kind: str):
    path = tmp_path / kind
    match kind:
        case "link":
            path.symlink_to(written.path)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "short":
            path.write_bytes(b"x" * 1197897)
        case "foreign":
            path.write_bytes(b"x" * SIZE)
    with pytest.raises(RegionError, match=kind):
        read_region(path)


def test_region_that_shrinks_and_grows_while_it_is_read_is_refused_or_read(written: Written):
    whole = written.path.read_bytes()
    stopped = threading.Event()

    def disturb() -> None:
        while not stopped.is_set():
            for size in (100, 2_000_000, len(whole)):
                os.truncate(written.path, size)
            written.path.write_bytes(whole)

    hostile = threading.Thread(target=disturb)
    hostile.start()
    try:
        for _ in range(300):
            with contextlib.suppress(RegionError):
                read_region(written.path)
    finally:
        stopped.set()
        hostile.join()


def test_region_that_ends_within_a_slot_is_refused(written: Written, monkeypatch: pytest.MonkeyPatch):
    written.slot(0, 3)
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real(fd, size, at)[: 100 if at == 1856 else size])
    with written.living(0), pytest.raises(RegionError, match="grew shorter"):
        read_region(written.path)
