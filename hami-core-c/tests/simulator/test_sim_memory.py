"""Memory: what it costs, where it runs out, and that it comes back."""

import pytest

MIB = 2**20
CONTEXT = 408 * MIB


def test_a_context_costs_what_the_profile_says(node):
    assert node.ask("d.start(); f, t = d.memory(); print(t - f)") == CONTEXT


def test_small_blocks_share_a_granule(node):
    assert (
        node.ask("d.start(); a = d.memory()[0]; [d.alloc(512) for _ in range(4096)]; print(a - d.memory()[0])")
        == 2 * MIB
    )


def test_a_block_just_over_one_mebibyte_costs_two(node):
    assert node.ask("d.start(); a = d.memory()[0]; d.alloc(2**20 + 1); print(a - d.memory()[0])") == 2 * MIB


def test_blocks_are_apart_and_come_back(node):
    program = """
import random
d.start(); before = d.memory()[0]; r = random.Random(3); live = {}
for step in range(4000):
    if live and r.random() < 0.45:
        d.free(live.pop(r.choice(list(live)))[0])
    else:
        size = r.choice([1, 300, 512, 5000, 70000, 2**20, 2**20 + 1, 5 * 2**20])
        live[step] = (d.alloc(size), size)
spans = sorted((at, at + size) for at, size in live.values())
apart = all(a[1] <= b[0] for a, b in zip(spans, spans[1:]))
for at, _ in live.values(): d.free(at)
print(json.dumps([apart, before - d.memory()[0]]))
"""
    assert node.ask(program) == [True, 0]


def test_free_memory_that_is_reported_can_be_had(node):
    assert node.ask("d.start(); f = d.memory()[0]; d.alloc(f); print(json.dumps(d.memory()[0]))") == 0


def test_memory_runs_out_across_processes(node):
    holder = node.start("d.start(); d.alloc(30 * 2**30); print('held', flush=True); input()")
    assert node.line(holder) == "held"
    assert (
        node.ask("d.start(); p = c.c_uint64(); print(d.code('cuMemAlloc_v2', c.byref(p), c.c_size_t(9 * 2**30)))") == 2
    )


def test_memory_of_a_killed_process_comes_back_before_the_next_refusal(node):
    holder = node.start("d.start(); d.alloc(30 * 2**30); print('held', flush=True); input()")
    assert node.line(holder) == "held"
    holder.kill()  # not waited for: it stays a zombie while the next one asks
    assert (
        node.ask("d.start(); p = c.c_uint64(); print(d.code('cuMemAlloc_v2', c.byref(p), c.c_size_t(35 * 2**30)))") == 0
    )


def test_a_context_gives_everything_back(node):
    program = """
d.cuInit(0)
for _ in range(3):
    context = d.out('cuCtxCreate_v2', 0, 0); d.alloc(2**30); d.alloc(100)
    d.out('cuModuleLoadData', b'.visible .entry k()'); d.cuCtxSetLimit(2, c.c_size_t(64 * 2**20))
    d.cuCtxDestroy_v2(context)
print('"done"', flush=True); input()
"""
    process = node.start(program)
    assert node.line(process) == '"done"'
    assert node.used() == 0


@pytest.mark.parametrize(
    ("limit", "value", "cost"),
    [(0, 2048, 1024 * 108 * 2048), (1, 9 * MIB, 8 * MIB), (2, 72 * MIB, 64 * MIB)],
    ids=["stack", "printf", "heap"],
)
def test_limits_of_a_context_cost_memory(node, limit, value, cost):
    assert (
        node.ask(
            f"d.start(); a = d.memory()[0]; d.cuCtxSetLimit({limit}, c.c_size_t({value})); print(a - d.memory()[0])"
        )
        == cost
    )


def test_content_survives_the_way_to_the_device_and_back(node):
    program = """
d.start()
size = 3 * 2**20
source = (c.c_char * size)(*(bytes(range(256)) * (size // 256)))
target = (c.c_char * size)()
a, b = c.c_uint64(d.alloc(size)), c.c_uint64(d.alloc(size))
d.cuMemcpyHtoD_v2(a, source, c.c_size_t(size))
d.cuMemcpyDtoD_v2(b, a, c.c_size_t(size))
d.cuMemcpyDtoH_v2(target, b, c.c_size_t(size))
d.cuMemsetD32_v2(a, 0x01020304, c.c_size_t(4)); head = (c.c_char * 4)(); d.cuMemcpyDtoH_v2(head, a, c.c_size_t(4))
print(json.dumps([target.raw == source.raw, list(head.raw)]))
"""
    assert node.ask(program) == [True, [4, 3, 2, 1]]


def test_unknown_pointers_are_refused(node):
    program = """
d.start(); p = d.alloc(4096)
print(json.dumps([d.code('cuMemFree_v2', c.c_uint64(x)) for x in (p + 8, 12345, p, p)]))
"""
    assert node.ask(program) == [1, 1, 0, 1]


def test_pools_keep_what_they_may_and_give_back_the_rest(node):
    program = """
d.start(); before = d.memory()[0]
def taken(): return (before - d.memory()[0]) // 2**20
p = d.out('cuMemAllocAsync', c.c_size_t(300 * 2**20), None, kind=c.c_uint64); a = taken()
d.cuMemFreeAsync(c.c_uint64(p), None); b = taken(); d.cuCtxSynchronize(); e = taken()
pool = d.out('cuDeviceGetDefaultMemPool', 0)
most = c.c_uint64(2**64 - 1)
d.cuMemPoolSetAttribute(pool, 4, c.byref(most))
p = d.out('cuMemAllocAsync', c.c_size_t(300 * 2**20), None, kind=c.c_uint64)
d.cuMemFreeAsync(c.c_uint64(p), None)
d.cuCtxSynchronize()
f = taken()
d.cuMemPoolTrimTo(pool, c.c_size_t(100 * 2**20)); g = taken()
print(json.dumps([a, b, e, f, g]))
"""
    assert node.ask(program) == [300, 300, 0, 300, 100]


VMM = """
class Location(c.Structure): _fields_ = [('type', c.c_int), ('id', c.c_int)]
class Prop(c.Structure):
    _fields_ = [('type', c.c_int), ('handles', c.c_int), ('location', Location), ('win', c.c_void_p), ('flags', c.c_uint8 * 8)]
prop = Prop(1, 1, Location(1, 0))
d.start()
def create(size): return d.out('cuMemCreate', c.c_size_t(size), c.byref(prop), c.c_ulonglong(0), kind=c.c_uint64)
def free(): return d.memory()[0]
"""


def test_physical_memory_lives_until_handles_and_mappings_are_gone(node):
    program = (
        VMM
        + """
before = free()
h = c.c_uint64(create(64 * 2**20))
va = c.c_uint64(d.out('cuMemAddressReserve', c.c_size_t(2**30), c.c_size_t(0), c.c_uint64(0), c.c_ulonglong(0), kind=c.c_uint64))
odd = d.code('cuMemCreate', c.byref(c.c_uint64()), c.c_size_t(2**20), c.byref(prop), c.c_ulonglong(0))
d.cuMemMap(va, c.c_size_t(64 * 2**20), c.c_size_t(0), h, c.c_ulonglong(0)); d.cuMemRelease(h); a = before - free()
d.cuMemsetD8_v2(va, 7, c.c_size_t(100)); x = (c.c_char * 2)(); d.cuMemcpyDtoH_v2(x, va, c.c_size_t(2))
d.cuMemUnmap(va, c.c_size_t(64 * 2**20)); b = before - free(); d.cuMemAddressFree(va, c.c_size_t(2**30))
print(json.dumps([odd, a // 2**20, list(x.raw), b]))
"""
    )
    assert node.ask(program) == [1, 64, [7, 7], 0]


def test_an_exported_handle_keeps_memory_alive_when_its_creator_dies(node):
    program = (
        VMM
        + """
import os, socket
h = c.c_uint64(create(64 * 2**20))
fd = c.c_int()
d.cuMemExportToShareableHandle(c.byref(fd), h, 1, c.c_ulonglong(0))
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ['PEER'])
socket.send_fds(s, [b'x'], [fd.value])
print('"sent"', flush=True)
input()
"""
    )
    import os
    import socket

    path = str(node.state) + ".socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        creator = node.start(program, PEER=path, HAMI_SIM_CONTAINER="a")
        assert node.line(creator) == '"sent"'
        connection, _ = server.accept()
        with connection:
            _, descriptors, _, _ = socket.recv_fds(connection, 1, 1)
    creator.kill()
    creator.wait()
    assert node.used() == 64 * MIB
    assert node.container("a")["devices"][0]["bytes"] == 64 * MIB
    os.close(descriptors[0])
    assert node.used() == 0


def test_memory_is_shared_by_handle_between_processes(node):
    owner = node.start("""
d.start()
p = c.c_uint64(d.alloc(4096))
d.cuMemsetD8_v2(p, 9, c.c_size_t(4096))
handle = (c.c_char * 64)()
d.cuIpcGetMemHandle(handle, p)
print(bytes(handle).hex(), flush=True)
input()
x = (c.c_char * 1)()
d.cuMemcpyDtoH_v2(x, p, c.c_size_t(1))
print(x.raw[0], flush=True)
input()
""")
    handle = node.line(owner)
    reader = """
class Handle(c.Structure): _fields_ = [('bytes', c.c_char * 64)]
h = Handle.from_buffer_copy(bytes.fromhex(HANDLE)); d.start(); p = c.c_uint64()
d.cuIpcOpenMemHandle_v2(c.byref(p), h, 1); x = (c.c_char * 1)(); d.cuMemcpyDtoH_v2(x, p, c.c_size_t(1))
d.cuMemsetD8_v2(p, 5, c.c_size_t(1)); d.cuIpcCloseMemHandle(p); print(x.raw[0])
""".replace("HANDLE", repr(handle))
    assert node.ask(reader) == 9
    assert owner.stdin is not None
    owner.stdin.write("\n")
    owner.stdin.flush()
    assert node.line(owner) == "5"


def test_the_judge_sees_a_container_go_over_its_limit(node):
    node.command("limit", "tenant", "0", "memory_mib=1000", "slack_mib=2")
    node.run("d.start(); d.alloc(500 * 2**20)", HAMI_SIM_CONTAINER="tenant")
    assert node.container("tenant")["violations"] == 0
    node.run("d.start(); d.alloc(700 * 2**20)", HAMI_SIM_CONTAINER="tenant")
    told = node.container("tenant")
    assert (told["violations"], told["first"]["over_bytes"]) == (1, 108 * MIB)
    assert told["devices"][0]["peak_bytes"] == 1108 * MIB


def test_contexts_with_parts_of_a_device_keep_the_primary_one_and_share_its_memory(node):
    program = """
d.cuInit(0)
resource, state = (c.c_char * 512)(), [c.c_uint(), c.c_int()]
d.cuDeviceGetDevResource(0, resource, 1)
parts = [d.out('cuGreenCtxCreate', d.out('cuDevResourceGenerateDesc', resource, 1), 0, 1) for _ in range(3)]
d.cuCtxSetCurrent(d.out('cuCtxFromGreenCtx', parts[0]))
free, total = d.memory()
d.alloc(100 * 2**20)
for part in parts[1:]: d.cuGreenCtxDestroy(part)
left = d.memory()[0]
d.cuGreenCtxDestroy(parts[0])
d.cuDevicePrimaryCtxGetState(0, c.byref(state[0]), c.byref(state[1]))
d.start()
print(json.dumps([total - free, free - left, state[1].value, d.memory()[0] - free]))
"""
    assert node.ask(program) == [CONTEXT, 100 * MIB, 0, 0]


def test_arrays_are_paid_in_granules(node):
    program = """
class Shape(c.Structure):
    _fields_ = [('width', c.c_size_t), ('height', c.c_size_t), ('format', c.c_int), ('channels', c.c_uint)]
d.start()
before = d.memory()[0]
array = d.out('cuArrayCreate_v2', c.byref(Shape(1024, 1024, 0x20, 4)))
line, back = (c.c_char * 16)(*b'sixteen bytes!!!'), (c.c_char * 16)()
d.cuMemcpyHtoA_v2(array, c.c_size_t(0), line, c.c_size_t(16))
d.cuMemcpyAtoH_v2(back, array, c.c_size_t(0), c.c_size_t(16))
cost = before - d.memory()[0]
d.cuArrayDestroy(array)
print(json.dumps([cost, back.raw == line.raw, before - d.memory()[0]]))
"""
    assert node.ask(program) == [16 * MIB, True, 0]
