"""Streams, events, graphs: what waits for what, and how long work takes on the device's clock."""

import pytest

VIRTUAL = "import json\n"


@pytest.fixture
def virtual(bare):
    bare.command("start", "A100-40G", "clock=virtual")
    return bare


def test_events_tell_the_device_time_of_what_lies_between(virtual):
    program = """
d.start(); f = d.function('spin_5ms'); a, b = d.out('cuEventCreate', 0), d.out('cuEventCreate', 0)
d.cuEventRecord(a, None); [d.launch(f) for _ in range(10)]; d.cuEventRecord(b, None)
early = d.code('cuEventQuery', b); d.cuEventSynchronize(b); ms = c.c_float(); d.cuEventElapsedTime(c.byref(ms), a, b)
print(json.dumps([early, round(ms.value, 2)]))
"""
    assert virtual.ask(program) == [600, 50.0]


def test_kernels_take_one_wave_per_eight_blocks_of_each_multiprocessor(virtual):
    program = """
d.start(); f = d.function('waves'); a, b = d.out('cuEventCreate', 0), d.out('cuEventCreate', 0)
def took(blocks):
    d.cuEventRecord(a, None); d.launch(f, blocks); d.cuEventRecord(b, None); d.cuCtxSynchronize()
    ms = c.c_float(); d.cuEventElapsedTime(c.byref(ms), a, b); return round(ms.value, 3)
print(json.dumps([took(n) for n in (1, 108 * 8, 108 * 8 + 1, 108 * 80)]))
"""
    assert virtual.ask(program) == [0.1, 0.1, 0.2, 1.0]


def test_the_queue_holds_1024_launches_and_then_makes_the_client_wait(virtual):
    program = """
d.start(); f = d.function('spin_1ms')
for _ in range(1025): d.launch(f)
before = d.code('cuStreamQuery', None); d.cuCtxSynchronize(); print(json.dumps([before]))
"""
    assert virtual.ask(program) == [600]
    assert virtual.command("show")["clock_ns"] >= 1025 * 10**6


def test_a_stream_waits_for_its_own_work_only(virtual):
    program = """
d.start(); f = d.function('spin_9ms'); s, t = d.out('cuStreamCreate', 1), d.out('cuStreamCreate', 1)
d.launch(f, 1, s); print(json.dumps([d.code('cuStreamQuery', s), d.code('cuStreamQuery', t)]))
"""
    assert virtual.ask(program) == [600, 0]


def test_host_functions_run_when_the_stream_gets_there(node):
    program = """
import threading
d.start(); f = d.function('spin_2ms'); seen = threading.Event()
callback = c.CFUNCTYPE(None, c.c_void_p)(lambda data: seen.set())
d.launch(f); d.cuLaunchHostFunc(None, callback, None); d.cuCtxSynchronize(); print(json.dumps(seen.is_set()))
"""
    assert node.ask(program) is True


GRAPH = """
d.start(); f = d.function('spin_3ms'); s = d.out('cuStreamCreate', 1)
d.cuStreamBeginCapture_v2(s, 0)
for _ in range(4): d.launch(f, 1, s)
p = d.out('cuMemAllocAsync', c.c_size_t(64 * 2**20), s, kind=c.c_uint64); d.cuMemFreeAsync(c.c_uint64(p), s)
graph = c.c_void_p()
d.cuStreamEndCapture(s, c.byref(graph))
e = d.out('cuGraphInstantiateWithFlags', graph, c.c_ulonglong(0))
"""


def test_captured_work_runs_at_launch_and_not_before(virtual):
    program = (
        GRAPH
        + """
idle = d.code('cuStreamQuery', s); a, b = d.out('cuEventCreate', 0), d.out('cuEventCreate', 0); before = d.memory()[0]
d.cuEventRecord(a, s); d.cuGraphLaunch(e, s); d.cuEventRecord(b, s); d.cuStreamSynchronize(s)
ms = c.c_float()
d.cuEventElapsedTime(c.byref(ms), a, b)
kept = before - d.memory()[0]
d.cuDeviceGraphMemTrim(0)
n = c.c_size_t()
d.cuGraphGetNodes(graph, None, c.byref(n))
print(json.dumps([idle, round(ms.value, 2), kept // 2**20, before - d.memory()[0], n.value]))
"""
    )
    assert virtual.ask(program) == [0, 12.0, 64, 0, 6]


def test_a_global_capture_forbids_questions_of_others(virtual):
    program = """
import threading
d.start()
s = d.out('cuStreamCreate', 1)
ev = d.out('cuEventCreate', 0)
d.cuEventRecord(ev, None)
d.cuCtxSynchronize()
d.cuStreamBeginCapture_v2(s, 0); answers = []
def ask():
    answers.append(d.code('cuEventQuery', ev))
    d.cuThreadExchangeStreamCaptureMode(c.byref(c.c_int(2)))
    answers.append(d.code('cuEventQuery', ev))
t = threading.Thread(target=ask); t.start(); t.join(); print(json.dumps(answers))
"""
    assert virtual.ask(program) == [900, 0]


def test_two_processes_take_turns_in_real_time(node):
    program = """
import time
d.start(); f = d.function('spin_500us'); print('ready', flush=True); input(); end = time.monotonic() + 2.0
while time.monotonic() < end:
    [d.launch(f) for _ in range(40)]; d.cuCtxSynchronize()
print('done', flush=True); input()
"""
    both = [node.start(program, HAMI_SIM_CONTAINER=tag) for tag in ("a", "b")]
    for process in both:
        assert node.line(process) == "ready"
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in both:
        assert node.line(process) == "done"
    busy = [node.container(tag)["devices"][0]["busy_ns"] / 1e9 for tag in ("a", "b")]
    assert busy == pytest.approx([1.0, 1.0], abs=0.15)


def test_work_of_a_killed_process_goes_with_it(node):
    program = "d.start(); f = d.function('spin_50ms'); [d.launch(f) for _ in range(1000)]; print('queued', flush=True); input()"
    process = node.start(program)
    assert node.line(process) == "queued"
    process.kill()
    process.wait()
    shown = node.command("show")
    assert (shown["processes"], shown["devices"][0]["contexts"]) == ([], 0)


def test_a_child_of_an_initialised_process_has_no_driver(node):
    program = """
import os
d.start(); r, w = os.pipe(); pid = os.fork()
if pid == 0:
    os.write(w, str(d.code('cuCtxSynchronize')).encode() + b' ' + str(d.code('cuInit', 0)).encode()); os._exit(0)
os.waitpid(pid, 0); print(json.dumps([int(x) for x in os.read(r, 20).split()]))
"""
    assert node.ask(program) == [3, 3]
