"""Every way to get memory is charged, and given back."""

from hami_backend_mock.certify.case import case, expect, expect_near
from hami_backend_mock.certify.stand import OUT_OF_MEMORY, Stand


def _family(stand: Stand, take: str, give: tuple[str, ...], mib: int) -> None:
    """Charged while it lives, refused where it does not fit, given back when it ends."""
    node = stand.node()
    program = stand.container(node, mib=1000).run()
    before, physical = program.used(), node.held("tenant")
    program.must(take)
    expect_near("MiB in use more", program.used() - before, mib)
    expect("code of 800 MiB beside it", program("alloc 1 800"), OUT_OF_MEMORY)
    program.must(*give, "sync")
    expect("MiB in use after it was freed", program.used(), before)
    expect("MiB of the card after it was freed", node.held("tenant"), physical)
    program.must("alloc 1 960")
    expect(f"code of {take!r} where 40 MiB are left", program(take), OUT_OF_MEMORY)


@case("memory-managed", "Managed memory is charged.")
def memory_managed(stand: Stand) -> None:
    _family(stand, "managed 0 300", ("free 0",), 300)


@case("memory-pitched", "Pitched memory is charged with its real pitch.")
def memory_pitched(stand: Stand) -> None:
    _family(stand, "pitch 0 520b 300000 4", ("free 0",), 300000 * 1024 >> 20)


@case("memory-pitched-wrong", "A pitched request with an element of no size gets the driver's own answer.")
def memory_pitched_wrong(stand: Stand) -> None:
    node = stand.node()
    bare = stand.container(node, name="bare").run(LD_PRELOAD="")("pitch 0 1000b 100 0")
    expect("code", stand.container(node, mib=1000).run()("pitch 0 1000b 100 0"), bare)


@case("memory-async", "Memory in stream order is charged.")
def memory_async(stand: Stand) -> None:
    _family(stand, "async 0 300", ("freeasync 0",), 300)


@case("memory-pool", "Memory of a program's own pools is charged.")
def memory_pool(stand: Stand) -> None:
    node = stand.node()
    program = stand.container(node, mib=1000).run().must("pool 0 0")
    before = program.used()
    program.must("frompool 0 600 0")
    expect_near("MiB in use more", program.used() - before, 600)
    expect("code of 500 MiB more from it", program("frompool 1 500 0"), OUT_OF_MEMORY)
    expect("code of 500 MiB beside it", program("alloc 2 500"), OUT_OF_MEMORY)
    program.must("freeasync 0", "sync", "endpool 0")
    expect("MiB in use at the end", program.used(), before)
    program.must("alloc 2 960")


@case("memory-array", "Arrays are charged.")
def memory_array(stand: Stand) -> None:
    _family(stand, "array 0 8192 9600", ("endarray 0",), 300)


@case("memory-array-3d", "Arrays of three dimensions are charged.")
def memory_array_3d(stand: Stand) -> None:
    _family(stand, "array3d 0 256 300", ("endarray 0",), 300)


@case("memory-mipmap", "Mipmapped arrays are charged with all their levels.")
def memory_mipmap(stand: Stand) -> None:
    _family(stand, "mipmap 0 4096 4", ("endmipmap 0",), 340)


@case("memory-physical", "Memory apart from addresses is charged.")
def memory_physical(stand: Stand) -> None:
    _family(stand, "create 0 300 0", ("release 0",), 300)


@case("memory-graph", "Memory that a graph's nodes allocate is charged.")
def memory_graph(stand: Stand) -> None:
    node = stand.node()
    container = stand.container(node, mib=1000)
    program = container.run()
    program.must("graph 0 600")
    expect("code of 500 MiB beside it", program("alloc 0 500"), OUT_OF_MEMORY)
    program.must("endgraph 0")
    other = stand.container(node, mib=1000, name="other").run().must("alloc 0 600")
    expect("code of a graph with 500 MiB where 400 MiB are left", other("graph 0 500"), OUT_OF_MEMORY)


@case("memory-code", "Loaded code is charged.")
def memory_code(stand: Stand) -> None:
    """How much it is shows when it is loaded; what does not fit must be unloaded again."""
    node = stand.node()
    program = stand.container(node, mib=1000, slack_mib=104).run()
    before = program.used()
    program.must("load 0 100")
    expect_near("MiB in use more", program.used() - before, 100)
    program.must("unload 0")
    expect("MiB in use after it was unloaded", program.used(), before)
    program.must("alloc 0 960")
    physical = node.held("tenant")
    expect("code of loading 100 MiB where 40 MiB are left", program("load 1 100"), OUT_OF_MEMORY)
    expect("MiB of the card after that", node.held("tenant"), physical)


@case("memory-library", "Code of a library is charged when a context first uses it.")
def memory_library(stand: Stand) -> None:
    """Programs of the vendor's runtime keep theirs in libraries, which belong to no context until then."""
    program = stand.container(stand.node(), mib=1000).run()
    program.must("library 0 300")
    before = program.used()
    program.must("uselibrary 0")
    expect_near("MiB in use more", program.used() - before, 300)
    expect("code of 800 MiB beside it", program("alloc 0 800"), OUT_OF_MEMORY)
    program.must("endlibrary 0")
    expect("MiB in use after it was unloaded", program.used(), before)


@case("memory-graph-left", "What a graph allocated and nobody freed stays charged when the graph ends.")
def memory_graph_left(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    for key in range(3):
        program.must(f"graph {key} 300")
        program.must(f"endgraph {key}")
    expect("code of a fourth graph with 300 MiB where 100 MiB are left", program("graph 3 300"), OUT_OF_MEMORY)
    expect("code of 200 MiB beside them", program("alloc 0 200"), OUT_OF_MEMORY)


@case("memory-heap", "The device heap and stack are charged.")
def memory_heap(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    program.must("limit 2 900")
    expect("code of 200 MiB beside a heap of 900 MiB", program("alloc 0 200"), OUT_OF_MEMORY)
    expect("code of a heap of 1200 MiB", program("limit 2 1200"), OUT_OF_MEMORY)


@case("memory-imported", "Memory that was handed over stays charged when its creator ends.")
def memory_imported(stand: Stand) -> None:
    node = stand.node()
    container = stand.container(node, mib=1000, contexts=2)
    creator, importer = container.run(), container.run()
    before = importer.used()
    creator.must("create 0 600 0")
    socket = container.folder / "socket"
    importer.must(f"import 0 {socket}")
    creator.must(f"export 0 {socket}")
    expect("code of the import", importer.answer("import").code, 0)
    importer.must("map 1 600 0")
    creator.kill()
    expect("code of 900 MiB more", importer("alloc 2 900"), OUT_OF_MEMORY)
    importer.must("unmap 1", "release 0")
    expect_near("MiB in use without the creator and its memory", importer.used(), before - 408)
    importer.must("alloc 2 960")


@case("memory-opened", "Memory that was opened by its address stays charged when its creator ends.")
def memory_opened(stand: Stand) -> None:
    node = stand.node()
    container = stand.container(node, mib=1000, contexts=2)
    creator, importer = container.run(), container.run()
    creator.must("alloc 0 600", f"ipcget 0 {container.folder / 'handle'}")
    importer.must(f"ipcopen 0 {container.folder / 'handle'}")
    creator.kill()
    expect("code of 900 MiB more", importer("alloc 2 900"), OUT_OF_MEMORY)
    importer.must("ipcclose 0", "alloc 2 960")


@case("memory-host", "Host memory is not the card's: it is to be had when the card's share is used up.")
def memory_host(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    program.must("alloc 0 1000")
    expect("code of 10 MiB of host memory", program("host 0 10"), 0)
    program.must("freehost 0")


@case("memory-location", "Memory apart from addresses is charged to the card that it lies on.")
def memory_location(stand: Stand) -> None:
    node = stand.node()
    program = stand.container(node, mib=1000).run()
    before = program.used()
    program.must("create 0 600 1")
    expect("MiB in use on the other card", program.used(), before)
    expect("code of 900 MiB more there", program("create 1 900 1"), OUT_OF_MEMORY)
    program.must("alloc 0 960")


@case("memory-mapped", "Memory apart from addresses is charged as long as a handle or a mapping keeps it.")
def memory_mapped(stand: Stand) -> None:
    program = stand.container(stand.node(), mib=1000).run()
    before = program.used()
    program.must("create 0 600 0", "map 1 600 0", "release 0")
    expect("MiB in use more while it is mapped", program.used() - before, 600)
    expect("code of 500 MiB beside it", program("alloc 2 500"), OUT_OF_MEMORY)
    program.must("unmap 1")
    expect("MiB in use at the end", program.used(), before)


@case("pool-elsewhere", "A pool is charged to the card that it is for.")
def pool_elsewhere(stand: Stand) -> None:
    node = stand.node()
    program = stand.container(node, mib=1000).run()
    before = program.used()
    program.must("pool 0 1", "frompool 0 600 0")
    expect("MiB in use on the card of the context", program.used(), before)
    expect("code of 900 MiB more on the pool's card", program("create 1 900 1"), OUT_OF_MEMORY)
    program.must("alloc 2 960")


@case("pool-again", "A pool's memory that is used again is charged once, and no number wraps.")
def pool_again(stand: Stand) -> None:
    node = stand.node()
    program = stand.container(node, mib=1000).run()
    before = program.used()
    program.must("threshold 0 4000")
    for _ in range(4):
        program.must("async 0 600", "freeasync 0", "sync")
    expect_near("MiB in use with 600 MiB kept", program.used() - before, 600)
    program.must("threshold 0 0", "async 1 100", "freeasync 1", "sync")
    expect("MiB in use when the pool keeps nothing", program.used(), before)
    program.must("alloc 2 960")


@case("pool-error", "An error of the driver inside a pool comes back as it is and charges nothing.")
def pool_error(stand: Stand) -> None:
    node = stand.node()
    program = stand.container(node, mib=1000).run()
    before = program.used()
    node.sim("fault", "cuMemPoolGetAttribute", "999", "container=tenant")
    code = program("async 1 100")
    node.sim("fault", "clear")
    expect("an error of the driver, or success", code in (0, 999), True)
    program.must(*(("freeasync 1",) if code == 0 else ()), "sync")
    expect("MiB in use at the end", program.used(), before)
    program.must("alloc 2 960")
