"""Rounds of arbitration between containers that share devices."""

import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hami_backend_nvidia.containers import give_feedback, release
from hami_backend_nvidia.feedback import Contender, Orders, arbitrate, read_marks
from hami_backend_nvidia.rounds import Rounds

from hami_core_py.models.allocations import Allocation
from hami_core_py.testing.builders import allocation, device, share

ONE = frozenset({"GPU-0"})


def contender(priority: int, recent: int = 2, devices: frozenset[str] = ONE) -> Contender:
    return Contender(devices, priority, recent, True)


def test_who_is_alone_computes_without_limits():
    assert arbitrate({"a": contender(0), "b": contender(0, devices=frozenset({"GPU-1"}))}) == {
        "a": Orders(1, False),
        "b": Orders(1, False),
    }


def test_equals_on_one_device_keep_to_their_limits():
    assert arbitrate({"a": contender(1), "b": contender(1)}) == {"a": Orders(1, True), "b": Orders(1, True)}


def test_the_less_important_is_paused_while_the_other_is_active():
    assert arbitrate({"a": contender(0), "b": contender(1)}) == {"a": Orders(1, False), "b": Orders(-1, True)}
    assert arbitrate({"a": contender(0, recent=1), "b": contender(1, recent=-1)}) == {
        "a": Orders(0, False),
        "b": Orders(0, False),
    }


def test_one_shared_device_of_several_is_enough():
    both = frozenset({"GPU-0", "GPU-1"})
    assert arbitrate({"a": contender(0), "b": contender(1, devices=both)})["b"] == Orders(-1, True)


def test_negative_priority_pauses_nobody():
    assert arbitrate({"a": contender(-1), "b": contender(1)})["b"] == Orders(1, False)


@pytest.fixture
def regions(tmp_path: Path, write_region: Any) -> dict[str, Path]:
    made = {}
    for name in ("urgent", "patient"):
        (tmp_path / name / "shared").mkdir(parents=True)
        made[name] = tmp_path / name / "shared" / "region.cache"
        write_region(made[name]).put(2008900, "<ii", 1, 2)
    return made


def marks(path: Path) -> tuple[int, int]:
    return struct.unpack("<ii", path.read_bytes()[2008900:2008908])  # type: ignore[return-value]


def test_only_the_two_words_are_written_and_priorities_are_those_of_the_specs(regions: dict[str, Path]):
    before = {name: path.read_bytes() for name, path in regions.items()}
    held = [
        allocation(
            (device("GPU-0", family="NVIDIA"), share()),
            directory=str(path.parents[1]),
            limits={"nvidia.com/priority": {"urgent": "0", "patient": "1"}[name]},
        )
        for name, path in regions.items()
    ]
    give_feedback(held, "nvidia.com/priority")
    assert {name: marks(path) for name, path in regions.items()} == {"urgent": (0, 1), "patient": (1, -1)}
    for name, path in regions.items():
        after = path.read_bytes()
        assert after[:2008900] == before[name][:2008900]
        assert after[2008908:] == before[name][2008908:]


def test_what_is_no_region_is_left_alone(tmp_path: Path, regions: dict[str, Path]):
    target = tmp_path / "secret"
    target.write_bytes(b"x" * 3_000_000)
    regions["patient"].unlink()
    regions["patient"].symlink_to(target)
    held = [
        allocation((device("GPU-0", family="NVIDIA"), share()), directory=str(path.parents[1]))
        for path in regions.values()
    ]
    give_feedback(held, "nvidia.com/priority")
    assert target.read_bytes() == b"x" * 3_000_000
    assert marks(regions["urgent"]) == (0, 1)


def test_pause_is_renewed_each_round_and_ends_with_the_other_ones_work():
    recent, seen = 2, []
    for other in (2, 2, 2, 0, 0):
        orders = arbitrate({"urgent": contender(0, other), "patient": contender(1, recent)})
        recent = orders["patient"].recent
        seen.append(recent)
    assert seen == [-1, -2, -3, 0, 0]


def test_container_cannot_claim_to_be_busy_for_longer(regions: dict[str, Path]):
    with regions["urgent"].open("r+b") as file:
        file.seek(2008904)
        file.write(struct.pack("<i", 2**31 - 1))
    assert read_marks(regions["urgent"]) == (2, True)


def test_rounds_go_on_while_somebody_is_there_and_leave_nobody_paused(regions: dict[str, Path]):
    with regions["patient"].open("r+b") as file:
        file.seek(2008904)
        file.write(struct.pack("<i", -3))
    held = [
        allocation((device("GPU-0", family="NVIDIA"), share()), directory=str(p.parents[1])) for p in regions.values()
    ]
    gone, went = threading.Event(), threading.Semaphore(0)

    def let_go(allocations: Sequence[Allocation]) -> None:
        release(allocations)
        gone.set()

    rounds = Rounds(lambda _: went.release(), let_go, period_seconds=0.01, forgotten_seconds=1.0)
    rounds.tell(held)
    assert went.acquire(timeout=60)
    assert went.acquire(timeout=60)
    assert gone.wait(60), "they end when nobody speaks of containers any more"
    assert marks(regions["patient"]) == (1, 0)
    gone.clear()
    rounds.tell(held)
    assert went.acquire(timeout=60)
    rounds.end()
    assert gone.wait(60)
