"""What the monitor says of containers: ledger beside driver."""

import os
from pathlib import Path
from typing import Any

import pytest
from hami_backend_nvidia.containers import MIB, OnDevice, Watch, collect
from hami_backend_nvidia.processes import Place, places

from hami_core_py.models.allocations import Allocation
from hami_core_py.models.samples import Sample
from hami_core_py.testing.builders import allocation, device, share

UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
NAME = "0123456789abcdef0123456789abcdef"


def process(proc: Path, pid: int, mounted: str, inner: int, ticks: int = 7) -> None:
    """What /proc tells of a process."""
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "mountinfo").write_text(
        f"36 35 0:1 / / rw - ext4 x rw\n37 36 0:1 {mounted} /usr/local/vgpu rw - ext4 x rw\n"
    )
    (folder / "status").write_text(f"Name:\tx\nNSpid:\t{pid}\t{inner}\n")
    (folder / "stat").write_text(f"{pid} (a b) S " + " ".join(["0"] * 18) + f" {ticks} 0\n")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return tmp_path / "proc"


@pytest.fixture
def held(tmp_path: Path) -> Allocation:
    directory = tmp_path / "containers" / NAME
    (directory / "shared").mkdir(parents=True)
    pair = (device(UUID, family="NVIDIA"), share(memory_mib=1000))
    return allocation(pair, directory=str(directory))


def values(samples: tuple[Sample, ...]) -> dict[str, float]:
    return {sample.name: sample.value for sample in samples}


def test_process_belongs_to_the_container_whose_directory_it_has_mounted(proc: Path):
    process(proc, 500, f"/x/containers/{NAME}/shared", 3)
    process(proc, 501, "/elsewhere", 501)
    found = places([500, 501, 502], [f"/var/lib/hami/containers/{NAME}"], proc)
    assert found == {500: Place(f"/var/lib/hami/containers/{NAME}", 3, 7), 501: Place("", 501, 7)}


def test_this_very_process_is_in_no_container():
    (place,) = places([os.getpid()], [f"/var/lib/hami/containers/{NAME}"]).values()
    assert (place.directory, place.pid) == ("", os.getpid())


def test_ledger_is_shown_under_both_families_of_names(held: Allocation, proc: Path, write_region: Any):
    written = write_region(Path(held.directory, "shared", "region.cache"))
    written.slot(0, 3, total=77)
    with written.living(0):
        shown = values(collect([held], [], Watch(), proc=proc))
    assert shown["hami_container_memory_used_bytes"] == shown["hami_vgpu_memory_used_bytes"] == 77
    assert shown["hami_vgpu_memory_buffer_bytes"] == 3
    assert (shown["hami_container_utilization_ratio"], shown["hami_container_device_utilization_ratio"]) == (0.25, 25)


def test_process_that_the_limiter_does_not_know_is_told_after_half_a_minute(
    held: Allocation, proc: Path, write_region: Any, monkeypatch: pytest.MonkeyPatch
):
    written = write_region(Path(held.directory, "shared", "region.cache"))
    written.slot(0, 3)
    process(proc, 500, f"/x/containers/{NAME}/shared", 3)
    process(proc, 501, f"/x/containers/{NAME}/shared", 4)
    running = [OnDevice(UUID, 500, MIB), OnDevice(UUID, 501, 10 * MIB)]
    now, watch, shown = [1000.0], Watch(), []
    monkeypatch.setattr("hami_backend_nvidia.containers.time.monotonic", lambda: now[0])
    with written.living(0):
        for seconds in (0, 29, 1):
            now[0] += seconds
            shown.append(values(collect([held], running, watch, proc=proc)))
    assert [one["hami_container_unlimited_process_count"] for one in shown] == [0, 0, 1]
    assert shown[-1]["hami_container_process_count"] == 2


@pytest.mark.parametrize(("mib", "over"), [(1000, 0), (1060, 0), (1100, 100)])
def test_container_is_over_its_limit_when_the_driver_says_so_whatever_the_ledger_says(
    held: Allocation, proc: Path, mib: int, over: int
):
    process(proc, 500, f"/x/containers/{NAME}/shared", 3)
    shown = values(collect([held], [OnDevice(UUID, 500, mib * MIB)], Watch(), proc=proc))
    assert shown["hami_container_memory_over_limit_bytes"] == over * MIB
    assert shown["hami_container_memory_used_bytes"] == 0


def test_bad_region_costs_one_line_and_its_series_only(held: Allocation, proc: Path, caplog: pytest.LogCaptureFixture):
    Path(held.directory, "shared", "region.cache").write_bytes(b"nonsense")
    watch = Watch()
    for _ in range(3):
        shown = values(collect([held], [], watch, proc=proc))
    assert "hami_container_memory_used_bytes" not in shown
    assert shown["hami_container_process_count"] == 0
    assert len(caplog.records) == 1


def test_stranger_on_a_device_is_counted_once_per_device(held: Allocation, proc: Path):
    process(proc, 900, "/elsewhere", 900)
    shown = collect([held], [OnDevice(UUID, 900, MIB), OnDevice("GPU-other", 900, MIB)], Watch(), proc=proc)
    foreign = {s.labels["device_uuid"]: s.value for s in shown if s.name == "hami_device_foreign_process_count"}
    assert foreign == {UUID: 1, "GPU-other": 1}


def test_process_on_a_device_that_its_container_has_no_share_of_is_told_even_if_the_limiter_knows_it(
    held: Allocation, proc: Path, write_region: Any, monkeypatch: pytest.MonkeyPatch
):
    written = write_region(Path(held.directory, "shared", "region.cache"))
    written.slot(0, 3)
    process(proc, 500, f"/x/containers/{NAME}/shared", 3)
    now, watch, shown = [1000.0], Watch(), []
    monkeypatch.setattr("hami_backend_nvidia.containers.time.monotonic", lambda: now[0])
    with written.living(0):
        for seconds in (0, 30):
            now[0] += seconds
            found = collect([held], [OnDevice(UUID, 500, MIB), OnDevice("GPU-other", 500, MIB)], watch, proc=proc)
            shown.append({s.labels["device_uuid"]: s for s in found if "unlimited" in s.name})
    assert {uuid: one.value for uuid, one in shown[1].items()} == {UUID: 0, "GPU-other": 1}
    assert "GPU-other" not in shown[0]
    assert shown[1]["GPU-other"].warning == "container 'main' has processes on GPU-other, which it has no share of"
    assert shown[1]["GPU-other"].labels["pod"] == held.pod


def test_process_that_we_may_not_look_at_is_counted_as_unknown_and_as_nobodys(
    held: Allocation, proc: Path, monkeypatch: pytest.MonkeyPatch
):
    process(proc, 500, f"/x/containers/{NAME}/shared", 3)

    def denied(*_: object) -> str:
        raise PermissionError

    monkeypatch.setattr("hami_backend_nvidia.processes._directory", denied)
    found = values(collect([held], [OnDevice(UUID, 500, MIB)], Watch(), proc=proc))
    assert found["hami_device_unknown_process_count"] == 1
    assert "hami_device_foreign_process_count" not in found
    assert found["hami_container_process_count"] == 0


def test_region_that_the_container_deletes_hides_nothing(
    held: Allocation, proc: Path, write_region: Any, monkeypatch: pytest.MonkeyPatch
):
    path = Path(held.directory, "shared", "region.cache")
    written = write_region(path)
    written.slot(0, 3)
    process(proc, 500, f"/x/containers/{NAME}/shared", 3)
    now, watch = [1000.0], Watch()
    monkeypatch.setattr("hami_backend_nvidia.containers.time.monotonic", lambda: now[0])
    with written.living(0):
        collect([held], [OnDevice(UUID, 500, MIB)], watch, proc=proc)
        path.unlink()
        now[0] += 30
        found = values(collect([held], [OnDevice(UUID, 500, MIB)], watch, proc=proc))
    assert found["hami_container_unlimited_process_count"] == 1
