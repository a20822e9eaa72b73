"""What the management library tells of other processes: in a container its own, by the pids they have there."""

import json
import struct
import subprocess
import sys
from collections.abc import Callable

import pytest

from .conftest import MIB, Container, Node

Make = Callable[..., Container]
SLOTS_AT, SLOT_BYTES, SLOT_COUNT_AT = 1856, 1960, 2008896

ASK = """
import json, time, pynvml as n
n.nvmlInit()
h = n.nvmlDeviceGetHandleByIndex(0)
def rates():
    try:
        return sorted({s.pid for s in n.nvmlDeviceGetProcessUtilization(h, 0)})
    except n.NVMLError as problem:
        return problem.value
lists = (n.nvmlDeviceGetComputeRunningProcesses_v2, n.nvmlDeviceGetComputeRunningProcesses_v3)
told = [sorted(p.pid for p in one(h)) for one in lists]
print(json.dumps([*told, [p.pid for p in n.nvmlDeviceGetGraphicsRunningProcesses(h)], rates()]))
"""


def asked(one: Container, **more: str) -> list[object]:
    pytest.importorskip("pynvml")
    done = subprocess.run([sys.executable, "-c", ASK], env=one.environment(**more), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, list)
    return answer


def two(node: Node, make: Make) -> tuple[Container, Container]:
    made = make(node, "one"), make(node, "two")
    for one in made:
        one.limits(f"{node.uuids()[0]} memory={4000 * MIB} context={408 * MIB}")
    return made


def host_pids(one: Container, offset: int) -> None:
    """As the agent's socket would have told: the host knows every process of the container by another number."""
    with one.region.open("r+b") as region:
        region.seek(SLOT_COUNT_AT)
        (count,) = struct.unpack("<i", region.read(4))
        for i in range(count):
            region.seek(SLOTS_AT + i * SLOT_BYTES)
            (pid,) = struct.unpack("<i", region.read(4))
            region.write(struct.pack("<i", pid + offset if pid else 0))


def test_a_container_sees_its_own_processes(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G", nvml="fast", pid_offset=100000)
    one, other = two(node, make_container)
    ours, theirs = [one.run(), one.run()], other.run()
    host_pids(one, 100000)
    host_pids(other, 100000)
    pids = sorted(program.process.pid for program in ours)
    assert asked(one)[:3] == [pids, pids, []]
    assert asked(other)[:2] == [[theirs.process.pid]] * 2


def test_samples_of_strangers_are_not_told(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G", nvml="fast", clock="virtual", pid_offset=100000)
    one, other = two(node, make_container)
    one.run()
    worker = other.run()
    host_pids(one, 100000)
    host_pids(other, 100000)
    assert worker("work 0.2 0 spin_1000us") == 0
    node.sim("clock", "+300000000")
    assert asked(other)[3] == [worker.process.pid]
    assert asked(one)[3] == 6


def test_a_process_whose_host_pid_nobody_knows_is_not_told(
    make_node: Callable[..., Node], make_container: Make
) -> None:
    node = make_node("1xA100-40G", nvml="fast", pid_offset=100000)
    one, _ = two(node, make_container)
    one.run()
    assert asked(one)[:2] == [[], []]


def test_without_limits_everything_is_told(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G", nvml="fast")
    free, limited = make_container(node, "free"), make_container(node, "limited")
    limited.limits(f"{node.uuids()[0]} memory={4000 * MIB} context={408 * MIB}")
    program = limited.run()
    assert asked(free)[0] == [program.process.pid]
