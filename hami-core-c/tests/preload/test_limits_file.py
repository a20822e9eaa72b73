"""Where limits come from, and that neither an empty environment nor another path gets more."""

import os
import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import CONTEXT_MIB, MIB, Container, Node

OUT_OF_MEMORY, REFUSED = 2, 304
Make = Callable[..., Container]


def test_without_any_limit_nothing_happens(node: Node, make_container: Make) -> None:
    bare = make_container(node)
    program = bare.run()
    assert program("alloc 0 20000") == 0
    assert [one.name for one in bare.folder.iterdir()] == ["libvgpu.so"]
    assert not Path("/tmp/cudevshr.cache").exists()


def test_a_scrubbed_environment_has_the_same_limit(tenant: Container) -> None:
    one = tenant.run()
    assert one("alloc 0 500") == 0
    for more in (
        {},
        {"CUDA_DEVICE_MEMORY_SHARED_CACHE": str(tenant.folder / "mine.cache")},
        {"CUDA_DEVICE_MEMORY_LIMIT": "30g", "CUDA_DEVICE_MEMORY_LIMIT_0": "30g", "CUDA_OVERSUBSCRIBE": "true"},
        {"CUDA_DISABLE_CONTROL": "true"},
        {"CUDA_VISIBLE_DEVICES": "0"},
    ):
        two = tenant.spawn(**more)
        assert two("init") == 0
        code = two("context 0")
        assert code == 0
        assert two("alloc 0 200") == OUT_OF_MEMORY, more
        assert two.stop() == 0
    assert not (tenant.folder / "mine.cache").exists()


def test_the_environment_can_lower_a_limit(tenant: Container) -> None:
    program = tenant.run(CUDA_DEVICE_MEMORY_LIMIT_0=f"{CONTEXT_MIB + 100}m")
    assert program("alloc 0 200") == OUT_OF_MEMORY
    assert program("alloc 0 100") == 0


@pytest.mark.parametrize("spoil", ["garbage", "writable"])
def test_a_file_that_cannot_be_trusted_closes_the_driver(tenant: Container, spoil: str) -> None:
    limits = tenant.folder / "limits"
    if spoil == "garbage":
        limits.write_text(limits.read_text() + "memory=everything\n")
    else:
        limits.chmod(0o666)
    program = tenant.spawn()
    assert program("init") == REFUSED
    assert program("init") == REFUSED
    assert program("context 0") != 0


def test_a_region_that_cannot_be_had_closes_the_driver(tenant: Container) -> None:
    tenant.region.mkdir()
    assert tenant.spawn()("init") == REFUSED


def test_a_link_in_place_of_the_region_is_not_followed(tenant: Container, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    tenant.region.symlink_to(target)
    assert tenant.spawn()("init") == REFUSED
    assert target.read_text() == "precious"


def test_a_card_that_was_not_granted_has_no_memory(node: Node, make_container: Make) -> None:
    tenant = make_container(node)
    tenant.limits(f"{node.uuids()[0]} memory={1000 * MIB}")
    program = tenant.run(device=0)
    assert program("alloc 0 10") == 0
    assert program("create 1 10 1") == OUT_OF_MEMORY


def test_control_can_be_switched_off_only_where_the_file_allows_it(node: Node, make_container: Make) -> None:
    tenant = make_container(node)
    tenant.limits(f"{node.uuids()[0]} memory={(100 + CONTEXT_MIB) * MIB} context={CONTEXT_MIB * MIB}", disable=1)
    assert tenant.run(CUDA_DISABLE_CONTROL="true")("alloc 0 1000") == 0
    assert tenant.run()("alloc 0 1000") == OUT_OF_MEMORY


def test_limits_of_the_old_environment_are_held(node: Node, make_container: Make, tmp_path: Path) -> None:
    old = make_container(node)
    env = {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "2000m",
        "CUDA_DEVICE_MEMORY_LIMIT_1": "2g",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(old.region),
    }
    one, two = old.run(**env), old.run(device=0, **env)
    assert one("alloc 0 600") == 0
    assert two("alloc 0 600") == OUT_OF_MEMORY
    assert one("create 1 1500 1") == 0
    assert two("create 1 600 1") == OUT_OF_MEMORY


def test_a_variable_that_is_not_understood_closes_the_driver(node: Node, make_container: Make) -> None:
    assert make_container(node).spawn(CUDA_DEVICE_MEMORY_LIMIT="plenty")("init") == REFUSED


def test_more_than_the_card_has_may_be_granted(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xT4")
    tenant = make_container(node)
    tenant.limits(f"{node.uuids()[0]} memory={40000 * MIB}", oversubscribe=1)
    program = tenant.run()
    assert program.ask("info")[2] == 40000 * MIB
    assert program("alloc 0 12000") == 0


def test_the_region_is_laid_out_as_the_monitor_reads_it(tenant: Container, node: Node) -> None:
    program = tenant.run()
    assert program("alloc 0 300") == 0
    data = tenant.region.read_bytes()
    number = lambda at, size=8: int.from_bytes(data[at : at + size], "little")  # noqa: E731
    assert (number(0, 4), number(4, 4), number(8, 4)) == (19920718, 1, 2)
    assert number(56) == 2
    assert data[64 : 64 + 40].decode() == node.uuids()[0]
    assert number(1600) == (1000 + CONTEXT_MIB) * MIB
    assert number(2008896, 4) == 1
    slot = 1856
    assert number(slot, 4) == program.process.pid
    assert number(slot + 1928, 4) == 1
    assert (number(slot + 8), number(slot + 8 + 16), number(slot + 8 + 32)) == (
        CONTEXT_MIB * MIB,
        300 * MIB,
        (300 + CONTEXT_MIB) * MIB,
    )
    assert program.stop() == 0
    data = tenant.region.read_bytes()
    assert number(slot + 1928, 4) == 0
    assert tenant.run().used() == CONTEXT_MIB
    data = tenant.region.read_bytes()
    assert number(slot + 8 + 16) == 0


def test_every_slot_can_be_taken_and_one_more_is_refused(tenant: Container, tmp_path: Path) -> None:
    import fcntl
    import struct

    first = tenant.run()
    holder = os.open(tenant.region, os.O_RDWR)
    for slot in range(1, 1024):
        fcntl.fcntl(holder, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 4194304 + slot, 1, 0))
    assert tenant.spawn()("init") == REFUSED
    os.close(holder)
    assert tenant.spawn()("init") == 0
    assert first("alloc 0 10") == 0


def test_programs_without_gpu_are_left_alone(tenant: Container) -> None:
    done = subprocess.run(["/bin/ls", "/"], env=tenant.environment(), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert not tenant.region.exists()


def test_whatever_is_written_into_the_region_its_programs_go_on(tenant: Container) -> None:
    """A tenant may write its own region: it may cheat itself, but nothing crashes or hangs."""
    dice = random.Random(1)
    program = tenant.run()
    size = tenant.region.stat().st_size
    program.send("grind 2 20")
    with tenant.region.open("r+b", buffering=0) as region:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            region.seek(dice.choice((dice.randrange(1600, 4000), dice.randrange(2008896, size - 8))))
            region.write(dice.choice((bytes(8), b"\xff" * 8, dice.randbytes(8))))
            time.sleep(0.001)
    assert program.answer()[0] == 0
    assert program.stop() == 0
