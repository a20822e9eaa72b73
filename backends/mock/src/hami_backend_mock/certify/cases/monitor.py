"""What the node's monitor reads in the region, and what it writes there. Limiters without such a file pass: nobody asks them."""

import time
from collections.abc import Callable

from hami_backend_mock.certify.case import case, expect, expect_that
from hami_backend_mock.certify.layout import (
    CORE_LIMIT,
    LAST_KERNEL,
    RATE,
    RECENT,
    SWITCH,
    Slot,
    has_extension,
    has_layout,
)
from hami_backend_mock.certify.stand import CARD, Container, Failed, Program, Stand, share_percent


def _tenant(stand: Stand, cards: str = f"1x{CARD}", *, cores: int | None = 50, policy: str = "default") -> Container:
    container = stand.container(stand.node(cards, nvml="fast"), mib=2000, contexts=4, cores=cores, policy=policy)
    container.serve_pids()
    return container


def _await(what: str, condition: Callable[[], bool], seconds: float = 4.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(what, f"not within {seconds:g} s")
        time.sleep(0.01)


def _slot(container: Container, program: Program) -> Slot:
    slot = Slot.of(container, program.process.pid)
    if slot is None:
        raise Failed("a slot of the region that shows the program's pid", "none")
    return slot


@case(
    "monitor-stops",
    "A monitor can stop a container's launches and let them go on, and no launch overwrites that.",
    waits=True,
)
def monitor_stops(stand: Stand) -> None:
    for cores in (None, 50):
        container = _tenant(stand, cores=cores)
        program = container.run()
        if not has_layout(container):
            return
        program.must("launches kernel 3 1000")
        container.write(RECENT, -1, 4)
        before = container.node.busy("tenant")
        program.send("launches kernel 5 1000")
        time.sleep(0.3)
        expect("nanoseconds of the card meanwhile", container.node.busy("tenant") - before, 0)
        expect("the monitor's word meanwhile", container.number(RECENT, 4), -1)
        container.write(RECENT, 1, 4)
        expect("code of the launches", program.answer("launches").code, 0)


@case("activity-shown", "Every launch shows that the container is active, whatever limits it.")
def activity_shown(stand: Stand) -> None:
    for cores, switch in ((None, 1), (50, 0), (50, 1)):
        container = _tenant(stand, cores=cores)
        program = container.run()
        if not has_layout(container):
            return
        for how in ("kernel", "graph"):
            program.must(f"work {how} 0.02 1000")
            container.write(SWITCH, switch, 4)
            container.write(RECENT, 1, 4)
            program.must(f"work {how} 0.02 1000")
            expect(f"activity after a {how}, limit {cores}, switch {switch}", container.number(RECENT, 4), 2)


@case("samples-shown", "A card's use by a process is shown under that card, in percent.", waits=True)
def samples_shown(stand: Stand) -> None:
    container = _tenant(stand, f"2x{CARD}", policy="force")
    program = container.run(CUDA_VISIBLE_DEVICES="1")
    if not has_layout(container):
        return
    slot = _slot(container, program)
    uuids = [_text(container, 64 + 96 * index) for index in range(2)]
    index = uuids.index(container.node.uuids()[1])
    program.send("work kernel 3 2000")
    _await("use of the second card between 1 and 100", lambda: 1 <= slot.sm_percent(container, index) <= 100, 2.8)
    expect("use of the first card", slot.sm_percent(container, 1 - index), 0)


def _text(container: Container, at: int) -> str:
    return container.region.read_bytes()[at : at + 96].split(b"\0")[0].decode()


@case("samples-steady", "What is shown does not go through zero while a process computes.", waits=True)
def samples_steady(stand: Stand) -> None:
    container = _tenant(stand, policy="force")
    programs = [container.run(), container.run()]
    if not has_layout(container):
        return
    slots = [_slot(container, program) for program in programs]
    for program in programs:
        program.send("work kernel 4 2000")
    _await("both to be shown", lambda: all(slot.sm_percent(container, 0) > 0 for slot in slots), 2.5)
    seen = []
    for _ in range(60):
        seen.append(min(slot.sm_percent(container, 0) for slot in slots))
        time.sleep(0.012)
    zeros = seen.count(0)
    expect_that(zeros <= len(seen) // 3, f"a number in most of {len(seen)} looks", f"zero in {zeros}")


@case("slow-samples", "While the management library is slow, memory is not.", waits=True)
def slow_samples(stand: Stand) -> None:
    container = _tenant(stand, policy="force")
    worker, other = container.run(), container.run()
    container.node.sim("fault", "nvmlDeviceGetProcessUtilization", "0", "delay_ms=4000", "times=1", "container=tenant")
    worker.send("work kernel 1.5 2000")
    time.sleep(0.7)
    for _ in range(3):
        expect("code of 100 MiB meanwhile", other("alloc 0 100"), 0)
        other.must("free 0")


@case("limit-lowered", "A monitor can lower the share of a container that runs.", waits=True)
def limit_lowered(stand: Stand) -> None:
    container = _tenant(stand, cores=80, policy="force")
    program = container.run()
    if not has_layout(container):
        return
    program.send("work kernel 2.6 2000")
    time.sleep(0.6)
    container.write(CORE_LIMIT, 15)
    if has_extension(container):
        container.write(RATE, 150000, 4)
    time.sleep(0.7)
    share = share_percent(container.node, container, 1.0)
    expect_that(share < 45, "less than 45 % of the card under 15 % instead of 80", f"{share:.0f} %")


@case("last-launch", "The time of the last launch is shown, and only launches change it.")
def last_launch(stand: Stand) -> None:
    container = _tenant(stand)
    program = container.run()
    if not has_layout(container):
        return
    program.must("launches kernel 3 1000")
    container.write(RECENT, 1, 4)
    program.must("launches kernel 3 1000")
    stamp = container.number(LAST_KERNEL)
    expect_that(abs(stamp - time.time()) < 120, "about now, in seconds", stamp)
    container.run().end()
    expect("the same after another process came and went", container.number(LAST_KERNEL), stamp)
