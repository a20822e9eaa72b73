"""Eight cells of the compute grid in real time, through launches, events and samples of the real library.

The grid in virtual time is the proof; a busy machine delays every tick and every launch. The bounds tell the law from one that
counts blocks, or each process for itself (too much), and from one that takes the time between events for work (half of it beside
a neighbour)."""

import json
import re
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hami_backend_nvidia.feedback import Contender, arbitrate, read_marks, write_orders

from .conftest import MIB, Container, Node, Program

Make = Callable[..., Container]
RATE_AT = 2008960 + 64 + 136
TRIES = 3
"""A machine on which programs get no processor for seconds is looked at again."""


@dataclass(frozen=True)
class Cell:
    """Containers with their cores (0: no limit), processes of each, and what each may have in percent of the device."""

    kernel: str
    cores: tuple[int, ...]
    processes: tuple[int, ...]
    expected: tuple[tuple[float, float], ...]
    nvml: str = "fast"


CELLS = {
    "alone, 5 ms": Cell("spin_5000us", (30,), (1,), ((20, 37),)),
    "alone, 50 us": Cell("spin_50us", (50,), (1,), ((32, 58),)),
    "alone, 50 ms": Cell("spin_50000us", (30,), (1,), ((18, 40),)),
    "four processes, no samples": Cell("spin_500us", (30,), (4,), ((20, 37),), "none"),
    "beside one without a limit": Cell("spin_500us", (30, 0), (1, 1), ((19, 39), (40, 88))),
    "twins 30 : 70": Cell("spin_500us", (30, 70), (1, 1), ((19, 39), (40, 78))),
    "over-subscribed, 60 + 60": Cell("spin_500us", (60, 60), (1, 1), ((28, 64), (28, 64))),
}


def tenant(node: Node, make: Make, name: str, cores: int, policy: str = "force") -> Container:
    one = make(node, name)
    share = f" cores={cores}" if cores else ""
    one.limits(f"{node.uuids()[0]} memory={12000 * MIB}{share} context={408 * MIB}", policy=policy)
    return one


def busy(node: Node) -> dict[str, int]:
    """Nanoseconds of the device that each container has had."""
    told = json.loads(re.sub(r"\s+", " ", node.sim("busy", "0", check=False)))
    return {c["container"]: sum(d["busy_ns"] for d in c["devices"] if d["device"] == 0) for c in told}


def shares(node: Node, seconds: float) -> dict[str, float]:
    before, began = busy(node), time.monotonic()
    time.sleep(seconds)
    after, took = busy(node), time.monotonic() - began
    return {name: (after[name] - before.get(name, 0)) / took / 1e7 for name in after}


def work(program: Program, seconds: float, kernel: str, microseconds: int = 0) -> None:
    """Launch for so long; with the kernel's length given, it waits for the device each 20 ms and does not queue ahead."""
    program.send(f"work {seconds} {microseconds} {kernel}")


def is_within(got: dict[str, float], bounds: dict[str, tuple[float, float]]) -> bool:
    return all(low < got[name] < high for name, (low, high) in bounds.items())


@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS.keys())
def test_a_cell_in_real_time(cell: Cell, make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G", nvml=cell.nvml)
    names = [f"c{i}" for i in range(len(cell.cores))]
    containers = [tenant(node, make_container, name, cores) for name, cores in zip(names, cell.cores, strict=True)]
    programs = [one.run() for one, count in zip(containers, cell.processes, strict=True) for _ in range(count)]
    for program in programs:
        work(program, 60, cell.kernel)
    time.sleep(1.5)
    bounds = dict(zip(names, cell.expected, strict=True))
    tries = []
    while len(tries) < TRIES and not (tries and is_within(tries[-1], bounds)):
        tries.append(shares(node, 2.5))
    assert is_within(tries[-1], bounds), tries


def test_a_limit_that_changes_while_work_runs_holds_at_once(
    make_node: Callable[..., Node], make_container: Make
) -> None:
    node = make_node("1xA100-40G", nvml="fast")
    one = tenant(node, make_container, "c0", 60)
    work(one.run(), 60, "spin_500us")
    time.sleep(1.5)
    before = shares(node, 1.5)["c0"]
    with one.region.open("r+b") as region:
        region.seek(RATE_AT)
        region.write(struct.pack("<I", 200000))  # as the agent grants: parts per million
    after = shares(node, 1.5)["c0"]
    assert after < 32
    assert before > 1.5 * after


def one_round(containers: dict[str, Container], priorities: dict[str, int]) -> None:
    """What the monitor does each five seconds: it reads the marks of all containers of a card and writes its orders."""
    seen = {
        name: Contender(frozenset({"card"}), priorities[name], *marks)
        for name, one in containers.items()
        if (marks := read_marks(one.region))
    }
    for name, orders in arbitrate(seen).items():
        write_orders(containers[name].region, seen[name], orders)


def watched(node: Node, containers: dict[str, Container], priorities: dict[str, int], rounds: int) -> dict[str, float]:
    """Percent of the card that each has over so many rounds, a third of a second each."""
    before, began = busy(node), time.monotonic()
    for _ in range(rounds):
        time.sleep(0.33)
        one_round(containers, priorities)
    after, took = busy(node), time.monotonic() - began
    return {name: (after.get(name, 0) - before.get(name, 0)) / took / 1e7 for name in containers}


def test_the_monitor_lets_the_more_important_work_first(make_node: Callable[..., Node], make_container: Make) -> None:
    """What is less important waits while what is more important is active, and goes on when it rests."""
    node = make_node("1xA100-40G", nvml="fast")
    priorities = {"high": 0, "low": 1}
    containers = {name: tenant(node, make_container, name, 0) for name in priorities}
    programs = {name: one.run() for name, one in containers.items()}
    work(programs["low"], 60, "spin_2000us", 2000)
    work(programs["high"], 60, "spin_2000us", 2000)
    watched(node, containers, priorities, 3)
    beside = watched(node, containers, priorities, 5)
    assert beside["high"] > 4 * beside["low"]
    programs["high"].kill()
    watched(node, containers, priorities, 5)
    assert watched(node, containers, priorities, 3)["low"] > 0, "released when the other rests"


def test_the_monitor_lifts_limits_while_nobody_competes(make_node: Callable[..., Node], make_container: Make) -> None:
    """Under the default policy; they hold again as soon as another one works, though it was alone for long."""
    node = make_node("1xA100-40G", nvml="fast")
    priorities = {"first": 1, "second": 1}
    containers = {name: tenant(node, make_container, name, 10, policy="default") for name in priorities}
    programs = {name: one.run() for name, one in containers.items()}
    work(programs["first"], 60, "spin_2000us", 2000)
    watched(node, containers, priorities, 4)
    alone = watched(node, containers, priorities, 4)["first"]
    work(programs["second"], 60, "spin_2000us", 2000)
    watched(node, containers, priorities, 4)
    both = watched(node, containers, priorities, 5)
    assert max(both.values()) < 25
    assert alone > 1.5 * both["first"]
