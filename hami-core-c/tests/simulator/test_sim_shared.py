"""What processes hand to each other, and who pays for it when the maker ends; programs linked at run time."""

import socket

import pytest

MIB = 2**20

POOL = """
class Location(c.Structure): _fields_ = [('type', c.c_int), ('id', c.c_int)]
class Props(c.Structure):
    _fields_ = [('type', c.c_int), ('handles', c.c_int), ('location', Location), ('win', c.c_void_p), ('most', c.c_size_t),
                ('usage', c.c_ushort), ('reserved', c.c_ubyte * 54)]
class Data(c.Structure): _fields_ = [('reserved', c.c_ubyte * 64)]
d.start()
"""

MAKER = (
    POOL
    + """
import os, socket
pool = d.out('cuMemPoolCreate', c.byref(Props(1, 1, Location(1, 0))))
p = d.out('cuMemAllocFromPoolAsync', c.c_size_t(64 * 2**20), pool, None, kind=c.c_uint64)
d.cuMemsetD8_v2(c.c_uint64(p), 7, c.c_size_t(64))
fd, data = c.c_int(), Data()
d.cuMemPoolExportToShareableHandle(c.byref(fd), pool, 1, c.c_ulonglong(0))
d.cuMemPoolExportPointer(c.byref(data), c.c_uint64(p))
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ['PEER'])
socket.send_fds(s, [bytes(data)], [fd.value])
print('sent', flush=True)
input()
"""
)

TAKER = (
    POOL
    + """
import sys
pool = d.out('cuMemPoolImportFromShareableHandle', c.c_void_p(int(os.environ['FD'])), 1, c.c_ulonglong(0))
data = Data.from_buffer_copy(bytes.fromhex(os.environ['DATA']))
p = d.out('cuMemPoolImportPointer', pool, c.byref(data), kind=c.c_uint64)
refused = d.code('cuMemAllocFromPoolAsync', c.byref(c.c_uint64()), c.c_size_t(100), pool, None)
x = (c.c_char * 1)()
d.cuMemcpyDtoH_v2(x, c.c_uint64(p), c.c_size_t(1))
print(x.raw[0], refused, flush=True)
input()
d.cuMemFreeAsync(c.c_uint64(p), None)
print('freed', flush=True)
input()
"""
)


@pytest.fixture
def handed(node):
    """A maker that has handed over a block of its pool; the descriptor and the data."""
    path = str(node.state) + ".socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        maker = node.start(MAKER, PEER=path, HAMI_SIM_CONTAINER="maker")
        assert node.line(maker) == "sent"
        connection, _ = server.accept()
        with connection:
            data, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
    return maker, descriptors[0], data


def test_a_block_of_a_pool_outlives_its_maker(node, handed, monkeypatch):
    import os
    import subprocess
    import sys

    maker, descriptor, data = handed
    assert node.container("maker")["devices"][0]["bytes"] == (408 + 64) * MIB
    taker = subprocess.Popen(
        [sys.executable, "-c", "from client import *\nd = Driver()\n" + TAKER],
        env=node.environment(FD=str(descriptor), DATA=data.hex(), HAMI_SIM_CONTAINER="taker"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[descriptor],
    )
    node.running.append(taker)
    assert node.line(taker) == "7 1"
    maker.kill()
    maker.wait()
    assert node.used() == (408 + 64) * MIB
    node.go_on(taker)
    assert node.line(taker) == "freed"
    os.close(descriptor)
    assert node.used() == 408 * MIB


EVENT = """
class Handle(c.Structure): _fields_ = [('reserved', c.c_ubyte * 64)]
d.start()
"""


RECORDED = (
    EVENT
    + """
e = d.out('cuEventCreate', 6)
f = d.function('{kernel}')
d.launch(f)
d.cuEventRecord(e, None)
h = Handle()
d.cuIpcGetEventHandle(c.byref(h), e)
print(bytes(h).hex(), flush=True)
input()
"""
)
"""A process that tells the handle of an event behind a kernel, and stays."""


def test_another_process_waits_for_an_event(bare):
    bare.command("start", "A100-40G", "clock=virtual")
    maker = bare.start(RECORDED.format(kernel="spin_20ms"))
    handle = bare.line(maker)
    answers = bare.ask(
        EVENT
        + f"""
h = Handle.from_buffer_copy(bytes.fromhex({handle!r}))
e = c.c_void_p()
d.cuIpcOpenEventHandle(c.byref(e), h)
early = d.code('cuEventQuery', e)
d.cuEventSynchronize(e)
print(json.dumps([early, d.code('cuEventQuery', e)]))
"""
    )
    assert answers == [600, 0]
    assert bare.command("clock")["clock_ns"] >= 20_000_000


def test_the_event_of_a_process_that_is_gone_holds_nobody_up(node):
    maker = node.start(RECORDED.format(kernel="spin_900s"))
    handle = node.line(maker)
    waiter = node.start(
        EVENT
        + f"""
h = Handle.from_buffer_copy(bytes.fromhex({handle!r}))
e = c.c_void_p()
d.cuIpcOpenEventHandle(c.byref(e), h)
print('waits', flush=True)
d.cuEventSynchronize(e)
print('on', flush=True)
"""
    )
    assert node.line(waiter) == "waits"
    maker.kill()
    maker.wait()
    assert node.line(waiter) == "on"


def test_memory_of_another_interface_is_mapped_and_costs_nothing_again(node):
    program = """
class Location(c.Structure): _fields_ = [('type', c.c_int), ('id', c.c_int)]
class Prop(c.Structure):
    _fields_ = [('type', c.c_int), ('handles', c.c_int), ('location', Location), ('win', c.c_void_p), ('flags', c.c_uint8 * 8)]
Wide = c.c_ulonglong
class Described(c.Structure):
    _fields_ = [('type', c.c_int), ('fd', Wide), ('more', Wide), ('size', Wide), ('flags', c.c_uint * 17)]
class Buffer(c.Structure):
    _fields_ = [('offset', c.c_ulonglong), ('size', c.c_ulonglong), ('flags', c.c_uint), ('reserved', c.c_uint * 16)]
d.start()
prop = Prop(1, 1, Location(1, 0))
h = d.out('cuMemCreate', c.c_size_t(8 * 2**20), c.byref(prop), c.c_ulonglong(0), kind=c.c_uint64)
fd = c.c_int()
d.cuMemExportToShareableHandle(c.byref(fd), c.c_uint64(h), 1, c.c_ulonglong(0))
before = d.memory()[0]
x = d.out('cuImportExternalMemory', c.byref(Described(1, fd.value, 0, 8 * 2**20)))
p = d.out('cuExternalMemoryGetMappedBuffer', x, c.byref(Buffer(2**20, 2**20)), kind=c.c_uint64)
d.cuMemsetD8_v2(c.c_uint64(p), 5, c.c_size_t(2**20))
back = (c.c_char * 1)()
d.cuMemcpyDtoH_v2(back, c.c_uint64(p), c.c_size_t(1))
d.cuMemFree_v2(c.c_uint64(p))
d.cuDestroyExternalMemory(x)
print(json.dumps([back.raw[0], before - d.memory()[0], d.code('cuMemFree_v2', c.c_uint64(p))]))
"""
    assert node.ask(program) == [5, 0, 1]


def test_a_program_is_linked_of_parts(node):
    program = """
d.start()
state = c.c_void_p()
d.cuLinkCreate_v2(0, None, None, c.byref(state))
for part in (b'.visible .entry first_1ms()\\n\\0', b'.visible .entry second_2ms()\\n\\0'):
    d.cuLinkAddData_v2(state, 1, part, c.c_size_t(len(part)), b'part', 0, None, None)
image, size = c.c_void_p(), c.c_size_t()
d.cuLinkComplete(state, c.byref(image), c.byref(size))
module = d.out('cuModuleLoadData', image)
d.cuLinkDestroy(state)
names = [d.code('cuModuleGetFunction', c.byref(c.c_void_p()), module, n) for n in (b'first_1ms', b'second_2ms', b'third')]
print(json.dumps([names, size.value > 40]))
"""
    assert node.ask(program) == [[0, 0, 500], True]


def test_first_forms_tell_what_fits_into_them(node):
    program = """
d.start()
free, total, all = c.c_uint(), c.c_uint(), c.c_uint()
d.cuMemGetInfo(c.byref(free), c.byref(total))
d.cuDeviceTotalMem(c.byref(all), 0)
print(json.dumps([free.value, total.value, all.value]))
"""
    assert node.ask(program) == [2**32 - 1] * 3
