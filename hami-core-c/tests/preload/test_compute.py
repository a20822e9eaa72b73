"""Compute shares in real time, few and short: the grid in virtual time is the proof, this shows that launches, events and samples
reach the same law. Shares are the simulator's. A busy machine delays ticks and events, so the bounds only tell a law that works
from one that does not: without it a program takes the whole card, and four processes take four limits."""

import json
import re
import time
from collections.abc import Callable

from .conftest import MIB, Container, Node, Program

Make = Callable[..., Container]


def tenant(node: Node, make: Make, name: str, cores: int, policy: str = "force") -> Container:
    one = make(node, name)
    one.limits(f"{node.uuids()[0]} memory={8000 * MIB} cores={cores} context={408 * MIB}", policy=policy)
    return one


def busy(node: Node, name: str) -> int:
    """Nanoseconds of the device that a container has had."""
    verdict = json.loads(re.sub(r"\s+", " ", node.sim("busy", "0")))
    return sum(d["busy_ns"] for c in verdict if c["container"] == name for d in c["devices"] if d["device"] == 0)


def shares(node: Node, programs: dict[str, list[Program]], kernel: str, seconds: float = 4.0) -> dict[str, float]:
    for started in programs.values():
        for program in started:
            program.send(f"work {seconds + 2} 0 {kernel}")
    time.sleep(1.5)
    before, began = {name: busy(node, name) for name in programs}, time.monotonic()
    time.sleep(seconds - 1)
    after, took = {name: busy(node, name) for name in programs}, time.monotonic() - began
    for started in programs.values():
        for program in started:
            assert program.answer()[0] == 0
    return {name: (after[name] - before[name]) / took / 1e7 for name in programs}


def test_a_program_alone_gets_its_share_and_no_more(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G", nvml="fast")
    one = tenant(node, make_container, "one", 30)
    share = shares(node, {"one": [one.run()]}, "spin_5000us")["one"]
    assert 20 < share < 40


def test_processes_of_a_container_share_one_credit(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G", nvml="fast")
    one = tenant(node, make_container, "one", 30)
    share = shares(node, {"one": [one.run() for _ in range(4)]}, "spin_2000us")["one"]
    assert 18 < share < 42


def test_two_unlike_containers_get_unlike_shares(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G", nvml="fast")
    small, large = tenant(node, make_container, "small", 30), tenant(node, make_container, "large", 70)
    got = shares(node, {"small": [small.run()], "large": [large.run()]}, "spin_500us", 5)
    assert 15 < got["small"] < 40
    assert got["large"] > 1.4 * got["small"]


def credit(one: Container) -> int:
    """Nanoseconds that the container may launch on its first card, at once."""
    at = 2008960 + 64
    return int.from_bytes(one.region.read_bytes()[at : at + 8], "little", signed=True)


def test_a_graph_is_paid_by_what_its_kernels_take(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G", nvml="fast")
    one = tenant(node, make_container, "one", 30)
    program = one.run()
    assert program("work 1 0 spin_5000us") == 0
    assert program("graph 400 spin_5000us") == 0  # two seconds of work, before any of it is done
    assert credit(one) < -800_000_000


def test_a_launch_on_two_cards_is_paid_on_both(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("2xA100-40G", nvml="fast")
    one = make_container(node, "one")
    lines = [
        f"{uuid} memory={8000 * MIB} cores={c} context={408 * MIB}"
        for uuid, c in zip(node.uuids(), (0, 5), strict=True)
    ]
    one.limits(*lines, policy="force")
    program = one.run()
    assert program("context 1") == 0
    code, took, _ = program.ask("together 4 spin_50000us")
    assert code == 0
    assert took > 1000  # three of the four waited for the second card's five percent


def test_a_switched_off_policy_limits_nothing(make_node: Callable[..., Node], make_container: Make) -> None:
    node = make_node("1xA100-40G", nvml="fast")
    one = tenant(node, make_container, "one", 10, policy="disable")
    assert shares(node, {"one": [one.run()]}, "spin_5000us", 3)["one"] > 60


def test_the_monitor_can_hold_and_release_a_container(make_node: Callable[..., Node], make_container: Make) -> None:
    """v2.10's feedback: a negative countdown stops launches, and every launch shows activity."""
    node = make_node("1xA100-40G", nvml="fast")
    one = tenant(node, make_container, "one", 0)
    program = one.run()

    def put(value: int) -> None:
        with one.region.open("r+b") as region:
            region.seek(2008904)
            region.write(value.to_bytes(4, "little", signed=True))

    put(-1)
    program.send("work 0.1 0 spin_1000us")
    time.sleep(0.5)
    held = busy(node, "one")
    assert held == 0
    put(1)
    assert program.answer()[0] == 0
    assert busy(node, "one") > 0
    assert int.from_bytes(one.region.read_bytes()[2008904:2008908], "little", signed=True) == 2
    assert abs(int.from_bytes(one.region.read_bytes()[2008912:2008920], "little") - time.time()) < 60


def test_a_monitor_that_has_died_holds_nobody_for_ever(make_node: Callable[..., Node], make_container: Make) -> None:
    """A living one writes another number each round."""
    node = make_node("1xA100-40G", nvml="fast")
    one = tenant(node, make_container, "one", 0)
    program = one.run()
    with one.region.open("r+b") as region:
        region.seek(2008904)
        region.write((-7).to_bytes(4, "little", signed=True))
    program.send("work 0.1 0 spin_1000us")
    assert program.answer()[0] == 0
    assert busy(node, "one") > 0
