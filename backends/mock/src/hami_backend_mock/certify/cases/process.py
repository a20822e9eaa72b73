"""The process around the driver: its children, signals and files are its own."""

from hami_backend_mock.certify.case import case, expect, expect_near, expect_that
from hami_backend_mock.certify.layout import Slot, has_layout
from hami_backend_mock.certify.stand import CONTEXT_MIB, OUT_OF_MEMORY, Stand


@case("signals-kept", "Signal handlers of a program stay its own.")
def signals_kept(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).spawn().must("catch").start().must("alloc 0 10")
    expect("handlers that are still the program's", program.ask("caught").first, 2)


@case("umask-kept", "A program's umask stays its own.")
def umask_kept(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).spawn()
    before = program.ask("umask").first
    expect("umask", program.start().ask("umask").first, before)


@case("child", "A child of a process that uses the driver changes nothing of its parent's account.")
def child(stand: Stand) -> None:
    for how in ("fork", "rawclone"):
        container = stand.container(stand.node(), mib=1000, contexts=2, name=how)
        program, other = container.run(), container.run()
        program.must("alloc 0 600", how)
        expect_that(program("alloc 1 10") != 0, "the driver not to work in the child", "it does")
        program.send("stop")
        expect("the child's end", program.answer("stop").first, 0)
        expect_near(f"MiB in use after the end of a child by {how}", program.used(), 600 + 2 * CONTEXT_MIB)
        expect("code of 500 MiB beside 600", other("alloc 0 500"), OUT_OF_MEMORY)
        slot = Slot.of(container, program.process.pid) if has_layout(container) else None
        if slot is not None:
            expect("the parent's slot is shown in use", container.number(slot.at + Slot.STATUS, 4), 1)


@case("child-before", "A child that starts the driver itself has its own part of the account.")
def child_before(stand: Stand) -> None:
    container = stand.container(stand.node(), mib=1000, contexts=2)
    program = container.spawn().must("fork").start().must("alloc 0 600")
    other = container.run()
    expect("code of 500 MiB beside 600", other("alloc 0 500"), OUT_OF_MEMORY)
    program.send("stop")
    expect("the child's end", program.answer("stop").first, 0)
    other.must("alloc 0 960")


@case("unusable-region", "Where the region cannot be had the driver refuses to start, and the program lives on.")
def unusable_region(stand: Stand) -> None:
    container = stand.container(stand.node(), mib=1000)
    container.region.mkdir()
    program = container.spawn()
    expect_that(program("init") != 0, "an error from cuInit", "success")
    expect_that(program("init") != 0, "the same again", "success")
    expect("exit status", program.end(), 0)


@case("thread-signals", "Threads of the limiter leave the program's signals to the program.")
def thread_signals(stand: Stand) -> None:
    container = stand.container(stand.node(nvml="fast"), cores=50, policy="force")
    program = container.run().must("launches kernel 5 1000")
    expect("a signal that all threads of the program block waits for it", program.ask("pending").first, 1)
