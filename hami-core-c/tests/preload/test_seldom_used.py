"""Entry points that few programs call and that hold memory all the same: code of libraries, contexts of part of a device."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from .conftest import CONTEXT_MIB, HERE, MIB, Container, Node

OUT_OF_MEMORY = 2
LIBRARY = """
def library(mib):
    text = f'//sim kernel k fixed_ns=1 wave_ns=1 blocks_per_sm=1 local=0\\n//sim global big {mib * 2**20 - 4096}\\n'.encode()
    return d.out('cuLibraryLoadData', text, None, None, 0, None, None, 0)
def use(name, *arguments): return d.code(name, c.byref(c.c_void_p()), *arguments)
def take(mib): return d.code('cuMemAlloc_v2', c.byref(c.c_uint64()), c.c_size_t(mib * 2**20))
def used():
    free, total = d.memory()
    return (total - free) // 2**20
"""


def answer(container: Container, program: str) -> Any:
    """Run a program of the simulator's own test client in a container. :returns: what it prints, read as JSON."""
    folders = {
        "PYTHONPATH": str(HERE.parent / "simulator"),
        "HAMI_SIM_LIBRARIES": str(container.tools / "sim"),
    }
    done = subprocess.run(
        [sys.executable, "-c", "import json\nfrom client import *\nd = Driver()\n" + LIBRARY + program],
        env=container.environment(**folders),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def ask(tenant: Container) -> Callable[[str], Any]:
    """The same in the usual container."""
    return lambda program: answer(tenant, program)


def test_code_of_libraries_is_charged_when_a_context_first_uses_it(
    ask: Callable[[str], Any], judged: Callable[[], None]
) -> None:
    told = ask("""
d.start()
one, two = library(300), library(200)
loaded = used()
first = use('cuLibraryGetModule', one), use('cuLibraryGetKernel', one, b'k'), use('cuLibraryGetModule', one)
with_one = used()
d.code('cuLibraryGetGlobal', c.byref(c.c_uint64()), c.byref(c.c_size_t()), two, b'big')
with_two, refused = used(), take(600)
d.cuLibraryUnload(one)
print(json.dumps([loaded, first, with_one, with_two, refused, used(), take(600)]))
""")
    own = CONTEXT_MIB
    assert told == [own, [0, 0, 0], own + 300, own + 500, OUT_OF_MEMORY, own + 200, 0]
    judged()


def test_code_that_does_not_fit_is_owed_until_it_does(ask: Callable[[str], Any]) -> None:
    told = ask("""
d.start()
large, other, block = library(500), library(100), d.alloc(600 * 2**20)
refused = use('cuLibraryGetModule', large), use('cuLibraryGetKernel', other, b'k'), take(2), d.memory()[0]
d.free(block)
paid = use('cuLibraryGetKernel', other, b'k'), used(), take(500)
d.cuLibraryUnload(large)
print(json.dumps([refused, paid, used(), take(500)]))
""")
    own = CONTEXT_MIB
    no = OUT_OF_MEMORY
    assert told == [[no, no, no, 0], [0, own + 600, no], own + 100, 0]


def test_a_library_that_never_fits_costs_nothing_once_it_is_unloaded(ask: Callable[[str], Any]) -> None:
    told = ask("""
d.start()
large = library(2000)
refused = use('cuLibraryGetModule', large), take(2)
d.cuLibraryUnload(large)
print(json.dumps([refused, used(), take(1000)]))
""")
    assert told == [[OUT_OF_MEMORY, OUT_OF_MEMORY], CONTEXT_MIB, 0]


def test_contexts_of_part_of_a_device_cost_the_primary_one_once_while_there_is_one(
    ask: Callable[[str], Any], judged: Callable[[], None]
) -> None:
    told = ask("""
d.cuInit(0)
resource = (c.c_char * 512)()
d.cuDeviceGetDevResource(0, resource, 1)
part = lambda: d.out('cuGreenCtxCreate', d.out('cuDevResourceGenerateDesc', resource, 1), 0, 1)
parts = [part() for _ in range(3)]
d.cuCtxSetCurrent(d.out('cuCtxFromGreenCtx', parts[0]))
three, refused, fits = used(), take(1002), take(1000)
for one in parts: d.cuGreenCtxDestroy(one)
own = d.out('cuCtxCreate_v2', 0, 0)
print(json.dumps([three, refused, fits, used()]))
""")
    assert told == [CONTEXT_MIB, OUT_OF_MEMORY, 0, CONTEXT_MIB]
    judged()


GRAPHS = """
class Pool(c.Structure):
    _fields_ = [('type', c.c_int), ('handles', c.c_int), ('place', c.c_int), ('device', c.c_int), ('rest', c.c_char * 72)]
class Node(c.Structure):
    _fields_ = [('pool', Pool), ('access', c.c_void_p), ('accesses', c.c_size_t), ('bytes', c.c_size_t), ('at', c.c_uint64)]
def instance(mib, device=0):
    node = Node(Pool(1, 0, 1, device), None, 0, mib * 2**20)
    graph = d.out('cuGraphCreate', 0)
    d.cuGraphAddMemAllocNode(c.byref(c.c_void_p()), graph, None, c.c_size_t(0), c.byref(node))
    made = c.c_void_p()
    code = d.code('cuGraphInstantiateWithFlags', c.byref(made), graph, c.c_uint64(0))
    return code, made, node.at
def launch(made):
    d.cuGraphLaunch(made, None)
    d.cuCtxSynchronize()
"""


def test_what_a_graph_allocated_and_nobody_freed_outlives_it(
    ask: Callable[[str], Any], judged: Callable[[], None]
) -> None:
    told = ask(
        GRAPHS
        + """
d.start()
kept = []
for mib in (300, 300, 300, 300):
    code, made, at = instance(mib)
    if code == 0:
        launch(made)
        d.cuGraphExecDestroy(made)
        kept.append(at)
full = code, len(kept), used(), take(200)
for at in kept: d.code('cuMemFreeAsync', c.c_uint64(at), None)
d.cuCtxSynchronize()
print(json.dumps([full, take(1000), used()]))
"""
    )
    assert told == [[OUT_OF_MEMORY, 3, CONTEXT_MIB + 900, OUT_OF_MEMORY], 0, CONTEXT_MIB + 1000]
    judged()


def test_a_graph_that_freed_its_memory_leaves_nothing(ask: Callable[[str], Any], judged: Callable[[], None]) -> None:
    told = ask(
        GRAPHS
        + """
d.start()
seen = []
for _ in range(4):
    code, made, at = instance(700)
    launch(made)
    d.cuMemFreeAsync(c.c_uint64(at), None)
    d.cuCtxSynchronize()
    seen.append(used())
    d.cuGraphExecDestroy(made)
print(json.dumps([seen, used(), take(1000)]))
"""
    )
    assert told == [[CONTEXT_MIB + 700] * 4, CONTEXT_MIB, 0]
    judged()


def test_memory_of_another_card_is_charged_there(ask: Callable[[str], Any], judged: Callable[[], None]) -> None:
    """By a graph's node, in order of a stream of that card's, and from that card's own pool."""
    told = ask(
        GRAPHS
        + """
here = d.start()
there = d.out('cuDevicePrimaryCtxRetain', 1)
d.cuCtxSetCurrent(there)
stream = d.out('cuStreamCreate', 1)
d.cuCtxSetCurrent(here)
code, made, _ = instance(200, 1)
launch(made)
ordered = d.code('cuMemAllocAsync', c.byref(c.c_uint64()), c.c_size_t(300 * 2**20), stream)
pool = d.out('cuDeviceGetDefaultMemPool', 1)
pooled = d.code('cuMemAllocFromPoolAsync', c.byref(c.c_uint64()), c.c_size_t(400 * 2**20), pool, stream)
mine, refused = used(), instance(200, 1)[0]
d.cuCtxSetCurrent(there)
print(json.dumps([code, ordered, pooled, mine, refused, used(), take(200), take(100)]))
"""
    )
    assert told == [0, 0, 0, CONTEXT_MIB, OUT_OF_MEMORY, CONTEXT_MIB + 900, OUT_OF_MEMORY, 0]
    judged()


def test_an_array_without_memory_of_its_own_costs_nothing(ask: Callable[[str], Any]) -> None:
    told = ask("""
class Shape(c.Structure):
    _fields_ = [(n, c.c_size_t) for n in 'whd'] + [('format', c.c_int), ('channels', c.c_uint), ('flags', c.c_uint)]
d.start()
sparse = use('cuArray3DCreate_v2', c.byref(Shape(32768, 32768, 0, 0x20, 4, 0x40)))
whole = use('cuArray3DCreate_v2', c.byref(Shape(32768, 32768, 0, 0x20, 4, 0)))
print(json.dumps([sparse, whole, used()]))
""")
    assert told == [0, OUT_OF_MEMORY, CONTEXT_MIB]


def test_memory_that_is_bound_for_multicast_stays_charged_without_its_handle(
    make_node: Callable[..., Node], make_container: Callable[..., Container], judged: Callable[[], None]
) -> None:
    node = make_node("2xH100")
    tenant = make_container(node)
    own = 520
    tenant.limits(*(f"{uuid} memory={(1000 + own) * MIB} context={own * MIB}" for uuid in node.uuids()))
    node.sim("limit", tenant.name, "0", f"memory_mib={1000 + own}", "slack_mib=8")
    told = answer(
        tenant,
        """
class Shared(c.Structure):
    _fields_ = [('devices', c.c_uint), ('size', c.c_size_t), ('handles', c.c_uint64), ('flags', c.c_uint64)]
word, part = c.c_uint64, c.c_size_t(400 * 2**20)
prop = (c.c_int * 8)(1, 1, 1, 0)
def create(): return d.code('cuMemCreate', c.byref(memory), part, prop, word(0))
def bind(at): return d.code('cuMulticastBindMem', whole, c.c_size_t(at * 400 * 2**20), memory, c.c_size_t(0), part, word(0))
d.start()
whole, memory = word(), word()
d.cuMulticastCreate(c.byref(whole), c.byref(Shared(2, 1 << 31, 1, 0)))
d.cuMulticastAddDevice(whole, 0)
bound = []
for at in range(3):
    made = create()
    bound.append(made or bind(at) or d.code('cuMemRelease', memory))
full = used()
d.cuMulticastUnbind(whole, 0, c.c_size_t(0), part)
print(json.dumps([bound, full, used(), take(600), take(2)]))
""",
    )
    assert told == [[0, 0, OUT_OF_MEMORY], own + 800, own + 400, 0, OUT_OF_MEMORY]
    judged()


def test_a_block_of_anothers_pool_is_charged_to_whoever_holds_it(pair: Container, judged: Callable[[], None]) -> None:
    """Its maker pays, too, as long as it lives: who takes blocks from many that end gets no more than the limit."""
    told = answer(
        pair,
        """
import os, socket, sys
def child(end):
    end.recv(1)
    d.start()
    pool, block, data, fd = d.out('cuMemPoolCreate', (c.c_int * 22)(1, 1, 1, 0)), c.c_uint64(), (c.c_char * 64)(), c.c_int()
    d.cuMemAllocFromPoolAsync(c.byref(block), c.c_size_t(300 * 2**20), pool, None)
    d.cuMemPoolExportToShareableHandle(c.byref(fd), pool, 1, c.c_uint64(0))
    d.cuMemPoolExportPointer(data, block)
    socket.send_fds(end, [data.raw], [fd.value])
    end.recv(1)
    sys.exit(0)
ends = []
for _ in range(3):
    near, far = socket.socketpair()
    if os.fork() == 0: child(far)
    far.close()
    near.settimeout(30)
    ends.append(near)
d.start()
got, blocks = [], []
for near in ends:
    near.send(b'.')
    data, fds, _, _ = socket.recv_fds(near, 64, 1)
    pool, block = c.c_void_p(), c.c_uint64()
    d.cuMemPoolImportFromShareableHandle(c.byref(pool), c.c_void_p(fds[0]), 1, c.c_uint64(0))
    code = d.code('cuMemPoolImportPointer', c.byref(block), pool, data)
    near.send(b'.')
    os.wait()
    os.close(fds[0])
    if code == 0: blocks.append(block)
    got.append([code, used()])
d.cuMemFree_v2(blocks[0])
print(json.dumps([got, used(), take(700), take(2)]))
""",
    )
    own = CONTEXT_MIB
    assert told == [[[0, own + 300], [0, own + 600], [OUT_OF_MEMORY, own + 600]], own + 300, 0, 0]
    judged()
