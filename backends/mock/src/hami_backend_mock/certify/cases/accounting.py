"""The container's account: exact, whoever dies when, and never in the way."""

import os
import select
import time

from hami_backend_mock.certify.case import case, expect, expect_near, expect_that
from hami_backend_mock.certify.layout import SLOT_COUNT, Slot, has_extension, has_layout, hold_lock_as
from hami_backend_mock.certify.stand import CONTEXT_MIB, MIB, OUT_OF_MEMORY, Container, Program, Stand

INVALID_VALUE = 1


def _pair(stand: Stand) -> tuple[Container, Program, Program]:
    container = stand.container(stand.node(), mib=1000, contexts=2)
    return container, container.run(), container.run()


@case("exact-fit", "What is reported free can be had to the last byte, and not a byte more.")
def exact_fit(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    for size in ("100", "3k", "1048577b"):
        program.must(f"alloc 0 {size}")
        free = program.ask("info").first
        program.must(f"alloc 1 {free}b")
        expect("code of one byte more", program("alloc 2 1b"), OUT_OF_MEMORY)
        program.must("free 1", "free 0")


@case("small-blocks", "Many small blocks cannot add up to more than the limit.")
def small_blocks(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=200).run()
    code, blocks, _ = program.ask("grab 300k")
    expect("code of the last", code, OUT_OF_MEMORY)
    expect_that(300 <= blocks <= 200 * 1024 // 300, "about 600 blocks of 300 KiB in 200 MiB", f"{blocks}")


@case("two-at-once", "Of two processes that ask for the rest at once, one gets it.")
def two_at_once(stand: Stand) -> None:
    container, one, two = _pair(stand)
    container.node.sim("fault", "cuMemAlloc_v2", "0", "delay_ms=300", "container=tenant")
    for asked, wanted in ((600, [0, OUT_OF_MEMORY]), (300, [0, 0])):
        for program in (one, two):
            program.send(f"alloc 0 {asked}")
        codes = [program.answer("alloc").code for program in (one, two)]
        expect(f"codes of twice {asked} MiB of 1000, at once", sorted(codes), wanted)
        for program, code in zip((one, two), codes, strict=True):
            program.must(*(("free 0",) if code == 0 else ()))


@case("slow-driver", "While the driver is busy with one process, another goes on.")
def slow_driver(stand: Stand) -> None:
    container, one, two = _pair(stand)
    container.node.sim("fault", "cuMemAlloc_v2", "0", "delay_ms=1600", "times=1", "container=tenant")
    one.send("alloc 0 100")
    time.sleep(0.2)
    two.must("alloc 0 100", "free 0", "info")
    assert one.process.stdout is not None
    answered = bool(select.select([one.process.stdout], [], [], 0)[0])
    expect_that(not answered, "the second to be answered before the first, whose driver takes 1.6 s", "it had to wait")
    expect("code of the first", one.answer("alloc").code, 0)


@case("after-refusal", "After a refusal everything goes on as before.")
def after_refusal(stand: Stand) -> None:
    _, one, two = _pair(stand)
    for _ in range(20):
        one.must("alloc 0 600")
        expect("code of 500 MiB more", two("alloc 0 500"), OUT_OF_MEMORY)
        two.must("alloc 0 300", "free 0")
        one.must("free 0")
    expect_near("MiB in use at the end", one.used(), 2 * CONTEXT_MIB)


@case("refusals-at-once", "Many processes that are refused at once keep the account exact.")
def refusals_at_once(stand: Stand) -> None:
    node = stand.node()
    container = stand.container(node, mib=100, contexts=7, slack_mib=1)  # its blocks are whole granules
    watcher = container.run()
    programs = [container.run() for _ in range(6)]
    if has_extension(
        container
    ):  # as after a life with many processes at once, and with a block handed over: counting takes longer
        watcher.must("alloc 9 2", f"ipcget 9 {container.folder / 'handle'}")
        container.write(SLOT_COUNT, 1024, 4)
    for program in programs:
        program.send("grind 2 24")
    for program in programs:
        expect("code", program.answer("grind").code, 0)
    watcher("free 9")
    expect("MiB in use when all was freed", watcher.used(), 7 * CONTEXT_MIB)
    expect("MiB of the card", node.held("tenant"), 7 * CONTEXT_MIB)
    watcher.must("alloc 0 100")


@case("threads", "Threads of one process keep the account exact, and nothing crashes.")
def threads(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=300).run()
    before = program.used()
    program.must("churn 8")
    expect("MiB in use when all was freed", program.used(), before)
    expect("exit status", program.end(), 0)


@case("free-crosswise", "Memory in stream order may be freed like other memory, and the other way round.")
def free_crosswise(stand: Stand) -> None:
    node = stand.node()
    program = stand.container(node, mib=1000).run()
    before, physical = program.used(), node.held("tenant")
    for take, give in (("async 0 300", "free 0"), ("alloc 0 300", "freeasync 0"), ("managed 0 300", "freeasync 0")):
        program.must(take, give, "sync")
        expect(f"MiB in use after {take!r} and {give!r}", program.used(), before)
        expect("MiB of the card", node.held("tenant"), physical)
    program.must("alloc 0 960")


@case("free-unknown", "Freeing what is unknown is the driver's to answer.")
def free_unknown(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    expect("code of freeing an address that is none", program("freeat 12345"), INVALID_VALUE)
    program.must("alloc 0 100", "free 0")
    expect("code of freeing a block again", program("free 0"), INVALID_VALUE)
    pointer = program.must("pool 0 0").ask("graph 0 100").first
    expect("code of freeing a graph's memory", program(f"freeat {pointer}"), 0)


@case("killed", "What a killed process held is there before the next refusal.")
def killed(stand: Stand) -> None:
    _, one, two = _pair(stand)
    one.must("alloc 0 600")
    expect("code of 600 MiB beside them", two("alloc 0 600"), OUT_OF_MEMORY)
    one.kill()
    two.must("alloc 0 960")


@case("killed-unreaped", "So it is while nobody has waited for the dead process.")
def killed_unreaped(stand: Stand) -> None:
    _, one, two = _pair(stand)
    one.must("alloc 0 600")
    one.process.kill()
    os.waitid(os.P_PID, one.process.pid, os.WEXITED | os.WNOWAIT)
    two.must("alloc 0 960")


@case("killed-pid-again", "So it is when another process has got its number.")
def killed_pid_again(stand: Stand) -> None:
    container, one, two = _pair(stand)
    one.must("alloc 0 600")
    slot = Slot.of(container, one.process.pid) if has_layout(container) else None
    one.kill()
    if slot is not None:
        container.write(slot.at, os.getpid(), 4)
        container.write(slot.at + 4, os.getpid(), 4)
    two.must("alloc 0 960")


@case("ended", "What a process held that ended in whatever way is there at once.")
def ended(stand: Stand) -> None:
    container, one, two = _pair(stand)
    for order in ("stop", "vanish"):
        one.must("alloc 0 600")
        one.end(order)
        two.must("alloc 0 960", "free 0")
        expect_near(f"MiB in use after {order!r}", two.used(), CONTEXT_MIB)
        one = container.run()


@case("became-another", "What a process held that lives on as another program is there at once.")
def became_another(stand: Stand) -> None:
    _, one, two = _pair(stand)
    one.must("alloc 0 600", "become cat")
    expect("what the other program says", one.ask("1 2 3"), (1, 2, 3))
    two.must("alloc 0 960")


@case("others-stay", "When one process dies, the others stay charged.")
def others_stay(stand: Stand) -> None:
    container = stand.container(stand.node(), mib=1000, contexts=3)
    one, two, three = container.run(), container.run(), container.run()
    for program in (one, two, three):
        program.must("alloc 0 300")
    one.kill()
    for _ in range(2):
        expect("code of 1100 MiB beside 600 and two contexts", two("alloc 1 1100"), OUT_OF_MEMORY)
    expect_near("MiB in use", two.used(), 2 * CONTEXT_MIB + 600)
    three.must("alloc 1 100", "free 1", "free 0")
    two.must("free 0")
    for _ in range(2):
        expect("code of more than the limit", three("alloc 1 2000"), OUT_OF_MEMORY)
    expect_near("MiB in use at the end", three.used(), 2 * CONTEXT_MIB)


@case("no-descriptor-left", "A process that can open no file frees nobody's memory.")
def no_descriptor_left(stand: Stand) -> None:
    _, one, two = _pair(stand)
    one.must("alloc 0 600")
    two.must("nodescriptors")
    for _ in range(2):
        expect("code of 600 MiB beside 600", two("alloc 0 600"), OUT_OF_MEMORY)
    expect_near("MiB in use", one.used(), 2 * CONTEXT_MIB + 600)


@case("descriptors-closed", "A process that closes all its files stays charged.")
def descriptors_closed(stand: Stand) -> None:
    _, one, two = _pair(stand)
    one.must("closeall", "alloc 0 600")
    expect("code of 600 MiB beside 600", two("alloc 0 600"), OUT_OF_MEMORY)
    one.kill()
    two.must("alloc 0 960")


@case("dead-writer", "A process that died in the middle of a change stops nobody.")
def dead_writer(stand: Stand) -> None:
    container, one, two = _pair(stand)
    one.must("alloc 0 300")
    slot = Slot.of(container, one.process.pid) if has_layout(container) else None
    one.kill()
    if slot is not None:
        container.write(slot.at + Slot.SEQUENCE, 7)
    expect("code of more than the limit", two("alloc 0 2000"), OUT_OF_MEMORY)
    two.must("alloc 0 960", "free 0")
    container.run().must("alloc 0 300")


@case("dead-holder", "A process that died inside the account's lock stops nobody.")
def dead_holder(stand: Stand) -> None:
    container, one, two = _pair(stand)
    one.must("alloc 0 300")
    slot = Slot.of(container, one.process.pid) if has_layout(container) else None
    one.kill()
    if slot is not None:
        hold_lock_as(container, slot)
    two.must("alloc 0 960", "free 0")
    container.run().must("alloc 0 300")


@case("second-life", "A region that an earlier life of the container left behind brings no old limit.")
def second_life(stand: Stand) -> None:
    node = stand.node()
    container = stand.container(node, mib=2000)
    container.run().must("alloc 0 1000").kill()
    container.tell(stand.told, [1000 + CONTEXT_MIB] * 2, None, {})
    program = container.run()
    expect("total", program.ask("total 0").first // MIB, 1000 + CONTEXT_MIB)
    expect_near("MiB in use", program.used(), CONTEXT_MIB)
    expect("code of 1200 MiB", program("alloc 0 1200"), OUT_OF_MEMORY)
    if has_layout(container):
        expect("limit in the region", container.number(1600) // MIB, 1000 + CONTEXT_MIB)
    program.must("alloc 0 960")


@case("scrubbed", "An empty environment, or one that asks for more, brings no second limit.", only="file")
def scrubbed(stand: Stand) -> None:
    container = stand.container(stand.node(), mib=1000, contexts=2)
    container.run().must("alloc 0 600")
    _refused_beside_600(container.run(CUDA_DEVICE_MEMORY_SHARED_CACHE=str(container.folder / "mine")))
    _refused_beside_600(container.run(CUDA_DEVICE_MEMORY_LIMIT_0="30g"))
    _refused_beside_600(container.run(CUDA_DISABLE_CONTROL="true"))


def _refused_beside_600(program: Program) -> None:
    expect("code of 600 MiB beside 600", program("alloc 0 600"), OUT_OF_MEMORY)
    program.end()


@case(
    "over-the-limit",
    "A process whose limit is below what the container holds is told that nothing is free, and no more.",
)
def over_the_limit(stand: Stand) -> None:
    """Where one limit holds for all processes, the second gets no more either, and there is nothing to see."""
    container = stand.container(stand.node(), mib=1000, contexts=2)
    low = container.run(
        CUDA_DEVICE_MEMORY_LIMIT="600m", CUDA_DEVICE_MEMORY_LIMIT_0="600m", CUDA_DEVICE_MEMORY_LIMIT_1="600m"
    ).must("nvmlinit")
    other = container.spawn().must("init")
    if other("context 0") or other("alloc 0 900"):
        return
    expect("code and free bytes of memory info", low.ask("info")[:2], (0, 0))
    expect("code of a byte", low("alloc 0 1b"), OUT_OF_MEMORY)
    code, _, free = low.ask("nvmlmemory 0")
    expect("code and free bytes by the management library", (code, free), (0, 0))


@case("unlimited-card", "A card without a limit is told as it is.")
def unlimited_card(stand: Stand) -> None:
    node = stand.node()
    bare = stand.container(node, name="bare").run(device=1, LD_PRELOAD="")
    total, (_, free, _) = bare.ask("total 1").first, bare.ask("info")
    bare.end()
    program = stand.container(node, mib=[1000, None]).run(device=1)
    expect("total", program.ask("total 1").first, total)
    expect("code, free and total of memory info", program.ask("info"), (0, free, total))
    program.must("alloc 0 4000")


@case("managed-told", "Managed memory is told to be managed, and other memory not.")
def managed_told(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run().must("managed 0 10", "alloc 1 10")
    expect("managed memory", program.ask("ismanaged 0")[:2], (0, 1))
    expect("other memory", program.ask("ismanaged 1")[:2], (0, 0))


@case("cost-of-many", "An allocation beside 20,000 blocks costs at most 5 µs more than beside none.")
def cost_of_many(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    few, many = program.ask("paircost 0").first, program.ask("paircost 20000", 30)
    expect("blocks that live beside it", many.second, 20000)
    expect_that(many.first <= few + 5000, f"at most {few} + 5000 ns", f"{many.first} ns")


@case("no-questions", "Allocating, freeing and asking for free memory ask the kernel nothing.")
def no_questions(stand: Stand) -> None:
    code, broken, call = stand.container(stand.node(), mib=1000).run().ask("quiet 500")
    expect("code", code, 0)
    expect_that(broken == 0, "no system call for pids, clocks or locks", f"system call {call}")
