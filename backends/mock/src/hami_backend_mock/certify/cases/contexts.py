"""Contexts cost memory of the card, too."""

from hami_backend_mock.certify.case import case, expect, expect_near
from hami_backend_mock.certify.stand import CONTEXT_MIB, OUT_OF_MEMORY, Stand

NO_CONTEXT = 201


@case("context-twice", "A primary context that is retained twice is charged once.")
def context_twice(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    expect_near("MiB in use with a context", program.used(), CONTEXT_MIB)
    program.must("retain 0", "retain 0", "alloc 0 960", "free 0")
    expect_near("MiB in use after it was retained again", program.used(), CONTEXT_MIB)


@case("context-unlike-cards", "A context is charged with what it costs on its card.")
def context_unlike_cards(stand: Stand) -> None:
    program = stand.container(stand.node("A100-40G,T4"), mib=[1000, 1000]).run()
    expect_near("MiB in use on the first card", program.used(), CONTEXT_MIB)
    program.must("context 1")
    expect_near("MiB in use on the second card", program.used(), 102)


@case("context-failed", "A context that the driver refuses costs nothing.")
def context_failed(stand: Stand) -> None:
    node = stand.node()
    container = stand.container(node, mib=1000, contexts=2)
    container.run()
    node.sim("fault", "cuDevicePrimaryCtxRetain", "999", "times=2", "container=tenant")
    program = container.spawn().must("init")
    expect("code of the driver", program("context 0"), 999)
    expect("code of the driver", program("context 0"), 999)
    program.must("context 0", "alloc 0 960")


@case("context-of-its-own", "Contexts that a program creates are charged.")
def context_of_its_own(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    program.must("newcontext 1 0")
    expect_near("MiB in use with two contexts", program.used(), 2 * CONTEXT_MIB)
    expect("code of 800 MiB beside them", program("alloc 0 800"), OUT_OF_MEMORY)
    program.must("endcontext 1", "current 0")
    expect_near("MiB in use with one", program.used(), CONTEXT_MIB)


@case("context-reserved", "A second process whose context does not fit gets none.")
def context_reserved(stand: Stand) -> None:
    container = stand.container(stand.node(), mib=1000)
    one = container.run().must("alloc 0 800")
    other = container.spawn().must("init")
    expect("code of a context where 200 MiB are left", other("context 0"), OUT_OF_MEMORY)
    one.must("free 0")
    other.must("context 0")


@case("context-reset", "A context that is reset or released gives back what it cost and what lived in it.")
def context_reset(stand: Stand) -> None:
    container = stand.container(stand.node(), mib=1000, contexts=2)
    watcher, program = container.run(), container.run()
    program.must("alloc 0 500")
    program.must("reset 0")
    expect_near("MiB in use after a reset", watcher.used(), CONTEXT_MIB)
    program.must("context 0", "alloc 0 500", "leave 0")
    watcher.must("alloc 1 1000")


@case("context-ended", "Blocks of a context that is destroyed are given back.")
def context_ended(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000, contexts=2).run()
    program.must("newcontext 1 0", "current 1", "alloc 0 600", "endcontext 1", "current 0")
    expect_near("MiB in use without it", program.used(), CONTEXT_MIB)
    program.must("alloc 0 960")


@case("no-context", "Without a context the driver's own error comes back.")
def no_context(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run().must("nocontext")
    for order in ("alloc 0 10", "async 0 10", "managed 0 10", "info"):
        expect(f"code of {order!r}", program(order), NO_CONTEXT)
    program.must("current 0", "alloc 0 960")
