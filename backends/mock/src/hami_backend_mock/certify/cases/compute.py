"""Compute, in real time: an order of magnitude apart, so that a busy machine decides nothing."""

import time

from hami_backend_mock.certify.case import case, expect, expect_that
from hami_backend_mock.certify.stand import CARD, Container, Node, Program, Stand, share_percent

LIMIT, MOST = 20, 50
"""Percent: promised; more than that is no limit."""
LAUNCHES = 3
"""Fewer in a second or two are a standstill."""
SETTLE_SECONDS, WATCH_SECONDS = 0.8, 1.0


def _tenant(stand: Stand, cards: str = f"1x{CARD}", *, cores: int | None = LIMIT, **settings: object) -> Container:
    node = stand.node(cards, **{"nvml": "fast"} | settings)
    container = stand.container(node, cores=cores, policy="force")
    container.serve_pids()
    return container


def _watched(node: Node, container: Container, program: Program, how: str, us: int = 2000, device: int = 0) -> None:
    """:raises Failed: it gets much more than was promised, or nothing."""
    program.send(f"work {how} {SETTLE_SECONDS + WATCH_SECONDS + 0.2} {us}")
    time.sleep(SETTLE_SECONDS)
    _within(share_percent(node, container, WATCH_SECONDS, device))
    _worked(program)


def _worked(program: Program) -> None:
    code, launches, _ = program.answer("work")
    expect("code of the launches", code, 0)
    expect_that(launches >= LAUNCHES, f"at least {LAUNCHES} launches", launches)


def _within(share: float) -> None:
    expect_that(share < MOST, f"less than {MOST} % of the card under a limit of {LIMIT} %", f"{share:.0f} %")


def _launches(stand: Stand, kind: str, how: str) -> None:
    container = _tenant(stand)
    _watched(container.node, container, container.run(how), kind)


@case("launch", "Kernels are held to the share of compute.", waits=True)
def launch(stand: Stand) -> None:
    _launches(stand, "kernel", "linked")


@case("launch-per-thread", "So are kernels on a thread's own default stream.", waits=True)
def launch_per_thread(stand: Stand) -> None:
    _launches(stand, "kernel", "per-thread")


@case("launch-config", "So are kernels launched with a configuration.", waits=True)
def launch_config(stand: Stand) -> None:
    _launches(stand, "config", "linked")


@case("launch-config-per-thread", "So are those on a thread's own default stream.", waits=True)
def launch_config_per_thread(stand: Stand) -> None:
    _launches(stand, "config", "per-thread")


@case("launch-cooperative", "So are cooperative kernels.", waits=True)
def launch_cooperative(stand: Stand) -> None:
    _launches(stand, "cooperative", "lookup")


@case("launch-cooperative-per-thread", "So are those on a thread's own default stream.", waits=True)
def launch_cooperative_per_thread(stand: Stand) -> None:
    _launches(stand, "cooperative", "lookup-per-thread")


@case("launch-graph", "So are graphs.", waits=True)
def launch_graph(stand: Stand) -> None:
    _launches(stand, "graph", "dlsym")


@case("launch-graph-per-thread", "So are graphs on a thread's own default stream.", waits=True)
def launch_graph_per_thread(stand: Stand) -> None:
    _launches(stand, "graph", "per-thread")


@case("launch-huge-grid", "So are kernels whose grid has more than 2^31 blocks.", waits=True)
def launch_huge_grid(stand: Stand) -> None:
    _launches(stand, "grid", "dlsym")


@case("policy-default", "The default policy limits where no monitor has said otherwise.", waits=True)
def policy_default(stand: Stand) -> None:
    node = stand.node(f"1x{CARD}", nvml="fast")
    container = stand.container(node, cores=LIMIT)
    _watched(node, container, container.run(), "kernel")


@case("processes-share", "Four processes of a container share one limit.", waits=True)
def processes_share(stand: Stand) -> None:
    container = _tenant(stand, cores=15)
    programs = [container.run() for _ in range(4)]
    for program in programs:
        program.send(f"work kernel {SETTLE_SECONDS + WATCH_SECONDS + 0.2} 2000")
    time.sleep(SETTLE_SECONDS)
    _within(share_percent(container.node, container, WATCH_SECONDS))
    for program in programs:
        _worked(program)


@case("no-samples", "Where the management library tells nothing, the limit holds all the same.", waits=True)
def no_samples(stand: Stand) -> None:
    container = _tenant(stand, nvml="none")
    container.node.sim("fault", "nvmlDeviceGetComputeRunningProcesses_v3", "999", "container=tenant")
    _watched(container.node, container, container.run(), "kernel")


@case("failing-samples", "Where it answers with errors, too.", waits=True)
def failing_samples(stand: Stand) -> None:
    container = _tenant(stand)
    for entry in ("nvmlDeviceGetProcessUtilization", "nvmlDeviceGetUtilizationRates"):
        container.node.sim("fault", entry, "999", "container=tenant")
    _watched(container.node, container, container.run(), "kernel")


@case("no-savings", "Time that was not used is not saved up.", waits=True)
def no_savings(stand: Stand) -> None:
    container = _tenant(stand)
    program = container.run().must("work kernel 0.4 2000")
    time.sleep(3.5)
    program.send("work kernel 1.2 2000")
    _within(share_percent(container.node, container, 0.8))
    _worked(program)


@case("killed-at-start", "A process that is killed while it starts does not delay the next.", waits=True)
def killed_at_start(stand: Stand) -> None:
    node = stand.node()
    container = stand.container(node, mib=1000, told="environment")
    for entry in ("nvmlDeviceGetCount_v2", "nvmlDeviceGetComputeRunningProcesses_v3", "cuDevicePrimaryCtxRetain"):
        node.sim("fault", entry, "0", "delay_ms=700", "times=1", "container=tenant")
        program = container.spawn()
        program.send("init")
        program.send("context 0")
        time.sleep(0.35)
        program.kill()
        node.sim("fault", "clear")
        container.run().end()


@case("launch-calls", "A launch asks the driver nothing that is known already.")
def launch_calls(stand: Stand) -> None:
    container = _tenant(stand, cores=90)
    program = container.run(HAMI_SIM_LOG=str(container.node.log))
    program.must("launches kernel 10 10")
    before = len(container.node.calls())
    program.must("launches kernel 300 10")
    asked = container.node.calls()[before:].count("cuCtxGetDevice")
    expect_that(asked <= 30, "the device to be asked for at most 30 times in 300 launches", f"{asked} times")
