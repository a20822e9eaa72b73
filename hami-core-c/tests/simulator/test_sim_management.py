"""The management library, as the vendor's own binding sees it."""

import json
import os
import subprocess
import sys

import pytest

MIB = 2**20


@pytest.fixture
def nvml(bare):
    """Runs a program with ``n`` = pynvml on the node; its value is what it prints."""
    pytest.importorskip("pynvml")

    def ask(program, **environment):
        head = "import json, pynvml as n\nn.nvmlInit()\nhandle = n.nvmlDeviceGetHandleByIndex\n"
        variables = bare.environment(LD_LIBRARY_PATH=str(bare.libraries), **environment)
        done = subprocess.run(
            [sys.executable, "-c", head + program], env=variables, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def test_devices_are_what_their_profiles_say(bare, nvml):
    bare.command("start", "A100-40G,T4")
    program = """
def tell(h):
    memory = n.nvmlDeviceGetMemoryInfo(h)
    return [n.nvmlDeviceGetName(h), memory.total // 2**20, n.nvmlDeviceGetPciInfo(h).busId, n.nvmlDeviceGetMinorNumber(h)]
print(json.dumps([tell(handle(i)) for i in range(n.nvmlDeviceGetCount())]))
"""
    assert nvml(program) == [
        ["NVIDIA A100-SXM4-40GB", 40960, "00000000:10:00.0", 0],
        ["Tesla T4", 15360, "00000000:13:00.0", 1],
    ]


def test_driver_and_management_library_agree_on_identity_and_memory(bare, nvml):
    bare.command("start", "A100-40G,H100")
    told = bare.ask("""
d.start()
u = (c.c_char * 16)()
d.cuDeviceGetUuid_v2(u, 0)
d.alloc(2**30)
print(json.dumps([bytes(u).hex(), d.memory()[0]]))
""")
    uuids = nvml("print(json.dumps([n.nvmlDeviceGetUUID(handle(i)) for i in (0, 1)]))")
    assert uuids[1].removeprefix("GPU-").replace("-", "") == told[0], "the faster card comes first for the driver"


def test_processes_are_listed_with_their_memory(bare, nvml):
    bare.command("start", "A100-40G")
    holder = bare.start("d.start()\nd.alloc(2**30)\nprint(os.getpid(), flush=True)\ninput()")
    pid = int(bare.line(holder))
    program = "print(json.dumps([[p.pid, p.usedGpuMemory // 2**20] for p in n.nvmlDeviceGetComputeRunningProcesses(handle(0))]))"
    assert nvml(program) == [[pid, 1024 + 408]]
    holder.kill()
    assert nvml(program) == []


def test_process_of_a_container_is_known_by_its_pid_out_here(bare, nvml):
    unshare = ("unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespaces here")
    bare.command("start", "A100-40G")
    client = [bare.libraries / "hami-sim-client", "take", "10", "wait", "60"]
    variables = bare.environment(LD_LIBRARY_PATH=str(bare.libraries))
    with subprocess.Popen([*unshare, *client], env=variables, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert "took" in bare.line(holder)
            (pid,) = nvml("print(json.dumps([p.pid for p in n.nvmlDeviceGetComputeRunningProcesses(handle(0))]))")
            with open(f"/proc/{pid}/status") as status:
                assert f"NSpid:\t{pid}\t1\n" in status.read()
        finally:
            holder.kill()


def test_processes_are_listed_in_detail(bare, nvml):
    bare.command("start", "A100-40G")
    holder = bare.start("d.start()\nprint(os.getpid(), flush=True)\ninput()")
    pid = int(bare.line(holder))
    program = """
def told(mode):
    listed = n.nvmlDeviceGetRunningProcessDetailList(handle(0), n.nvmlProcessDetailList_v1, mode)
    return [[p.pid, p.usedGpuMemory // 2**20] for p in listed]
print(json.dumps([told(n.NVML_PROCESS_MODE_COMPUTE), told(n.NVML_PROCESS_MODE_GRAPHICS)]))
"""
    assert nvml(program) == [[[pid, 408]], []]


def test_memory_is_told_in_both_versions(bare, nvml):
    bare.command("start", "T4")
    program = """
a, b = n.nvmlDeviceGetMemoryInfo(handle(0)), n.nvmlDeviceGetMemoryInfo(handle(0), version=n.nvmlMemory_v2)
print(json.dumps([a.total == b.total, a.used - b.used - b.reserved, b.reserved // 2**20]))
"""
    assert nvml(program) == [True, 0, 446]


def test_samples_are_late_whole_percent_and_leave_idle_processes_out(bare, nvml):
    bare.command("start", "A100-40G", "clock=virtual")
    busy = bare.start("""
d.start()
f = d.function('spin_1ms')
idle = d.out('cuCtxCreate_v2', 0, 0)
d.cuCtxSetCurrent(d.out('cuDevicePrimaryCtxRetain', 0))
for _ in range(305): d.launch(f)
d.cuCtxSynchronize()
print(os.getpid(), flush=True)
input()
""")
    pid = int(bare.line(busy))
    now = bare.command("clock")["clock_ns"]
    bare.command("clock", f"+{2_000_000_000 - now + 150_000_000}")
    program = """
def look():
    try:
        return [[s.pid, s.smUtil] for s in n.nvmlDeviceGetProcessUtilization(handle(0), 0)]
    except n.NVMLError as problem:
        return problem.value
print(json.dumps(look()))
"""
    assert nvml(program) == 6, "the sample of the first second is not readable before it is 0.2 s old"
    bare.command("clock", "+100000000")
    assert nvml(program) == [[pid, 30]]


def test_no_samples_where_the_node_has_none(bare, nvml):
    bare.command("start", "T4", "nvml=none")
    program = """
try:
    n.nvmlDeviceGetProcessUtilization(handle(0), 0)
except n.NVMLError as problem:
    print(problem.value)
"""
    assert nvml(program) == 3


def test_a_critical_event_reaches_whoever_listens(bare):
    pytest.importorskip("pynvml")
    bare.command("start", "2xT4")
    program = """
import pynvml as n
n.nvmlInit()
events = n.nvmlEventSetCreate()
for i in range(2): n.nvmlDeviceRegisterEvents(n.nvmlDeviceGetHandleByIndex(i), n.nvmlEventTypeXidCriticalError, events)
print('listening', flush=True)
e = n.nvmlEventSetWait_v2(events, 0xffffffff)
print(n.nvmlDeviceGetIndex(e.device), e.eventData, flush=True)
"""
    listener = bare.start(program, LD_LIBRARY_PATH=str(bare.libraries))
    assert bare.line(listener) == "listening"
    bare.command("xid", "1", "79")
    assert bare.line(listener) == "1 79"


def test_a_lost_device_fails_and_a_recovered_one_works_again(bare, nvml):
    bare.command("start", "2xT4")
    bare.command("lose", "0")
    program = """
def code(call):
    try:
        call()
    except n.NVMLError as problem:
        return problem.value
    return 0
print(json.dumps([code(lambda: handle(0)), code(lambda: n.nvmlDeviceGetName(handle(1)))]))
"""
    assert nvml(program) == [15, 0]
    assert bare.ask("d.cuInit(0)\nprint(d.code('cuDevicePrimaryCtxRetain', c.byref(c.c_void_p()), 0))") == 46
    bare.command("recover", "0")
    assert nvml(program) == [0, 0]


def test_work_on_a_device_that_is_lost_ends(bare):
    bare.command("start", "T4")
    worker = bare.start("""
d.start()
f = d.function('spin_900ms')
for _ in range(100): d.launch(f)
print('working', flush=True)
print(d.code('cuCtxSynchronize'), flush=True)
""")
    assert bare.line(worker) == "working"
    bare.command("lose", "0")
    assert bare.line(worker) == "46"


def test_neighbours_are_linked(bare, nvml):
    bare.command("start", "4xA100-40G,T4")
    program = """
import collections
def links(h):
    for link in range(n.NVML_NVLINK_MAX_LINKS):
        try:
            if n.nvmlDeviceGetNvLinkState(h, link):
                yield n.nvmlDeviceGetNvLinkRemotePciInfo(h, link).busId
        except n.NVMLError:
            return
level = n.nvmlDeviceGetTopologyCommonAncestor(handle(0), handle(1))
print(json.dumps([collections.Counter(links(handle(0))), collections.Counter(links(handle(4))), level]))
"""
    assert nvml(program) == [{"00000000:13:00.0": 4, "00000000:16:00.0": 4, "00000000:19:00.0": 4}, {}, 10]


def test_a_card_is_cut_and_each_instance_has_its_own_memory(bare, nvml):
    bare.command("start", "A100-40G")
    program = """
h = handle(0)
before = n.nvmlDeviceGetMigMode(h)
import ctypes
n.nvmlDeviceSetMigMode(h, 1)
made = []
for profile in (2, 2):
    info = n.nvmlDeviceGetGpuInstanceProfileInfo(h, profile)
    instance = n.nvmlDeviceCreateGpuInstance(h, info.id)
    compute = n.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 2, 0)
    n.nvmlGpuInstanceCreateComputeInstance(instance, compute.id)
left = n.nvmlDeviceGetGpuInstanceRemainingCapacity(h, n.nvmlDeviceGetGpuInstanceProfileInfo(h, 0).id)
migs = [n.nvmlDeviceGetMigDeviceHandleByIndex(h, i) for i in range(2)]
sizes = [n.nvmlDeviceGetMemoryInfo(m).total // 2**20 for m in migs]
print(json.dumps([before, left, [n.nvmlDeviceGetUUID(m) for m in migs], sizes]))
"""
    before, left, uuids, sizes = nvml(program)
    assert (before, left, sizes) == ([0, 0], 0, [19968, 19968])
    use = """
d.start()
p = c.c_uint64()
code = d.code('cuMemAlloc_v2', c.byref(p), c.c_size_t(15 * 2**30))
print(json.dumps([d.memory()[1] // 2**20, code, d.memory()[0] // 2**20]), flush=True)
"""
    holder = bare.start("import json" + use + "input()", CUDA_VISIBLE_DEVICES=uuids[0])
    assert json.loads(bare.line(holder)) == [19968, 0, 19968 - 408 - 15 * 1024]
    assert bare.ask(use, CUDA_VISIBLE_DEVICES=uuids[1])[1] == 0
    assert bare.ask(use, CUDA_VISIBLE_DEVICES=uuids[0])[1] == 2


def test_compute_instances_have_places_inside_their_gpu_instance(bare, nvml):
    bare.command("start", "A100-40G")
    program = """
h = handle(0)
n.nvmlDeviceSetMigMode(h, 1)
whole = n.nvmlDeviceCreateGpuInstance(h, n.nvmlDeviceGetGpuInstanceProfileInfo(h, 4).id)
number = [n.nvmlGpuInstanceGetComputeInstanceProfileInfo(whole, profile, 0).id for profile in range(5)]
get = n._nvmlGetFunctionPointer
def places(profile):
    count = c_uint(0)
    get('nvmlGpuInstanceGetComputeInstancePossiblePlacements')(whole, number[profile], None, byref(count))
    found = (Place * count.value)()
    get('nvmlGpuInstanceGetComputeInstancePossiblePlacements')(whole, number[profile], found, byref(count))
    return [(one.start, one.size) for one in found]
def at(profile, start):
    made = c_void_p()
    answer = get('nvmlGpuInstanceCreateComputeInstanceWithPlacement')(whole, number[profile], byref(Place(start, 0)), byref(made))
    return answer or n.nvmlComputeInstanceGetInfo_v2(made).placement.start
def left(): return [n.nvmlGpuInstanceGetComputeInstanceRemainingCapacity(whole, one) for one in number]
first = at(1, 2), at(0, 2), at(0, 5), at(2, 1), left()
n.nvmlGpuInstanceCreateComputeInstance(whole, number[1])
print(json.dumps([[places(one) for one in range(5)], first, left()]))
"""
    start = """from ctypes import Structure, byref, c_uint, c_void_p
class Place(Structure):
    _fields_ = [('start', c_uint), ('size', c_uint)]
"""
    places, first, left = nvml(start + program)
    assert places == [
        [[at, 1] for at in range(7)],
        [[0, 2], [2, 2], [4, 2]],
        [[0, 3], [4, 3]],
        [[0, 4]],
        [[0, 7]],
    ]
    no_room = 23
    assert first == [2, no_room, 5, no_room, [4, 1, 0, 0, 0]]
    assert left == [2, 0, 0, 0, 0]


def test_instances_have_places_and_are_destroyed_from_the_inside(bare, nvml):
    bare.command("start", "A100-40G")
    program = """
def code(call, *words):
    try:
        call(*words)
    except n.NVMLError as problem:
        return problem.value
    return 0
h = handle(0)
n.nvmlDeviceSetMigMode(h, 1)
info = n.nvmlDeviceGetGpuInstanceProfileInfo(h, 1)
count, places = c_uint(0), None
n.nvmlDeviceGetGpuInstancePossiblePlacements(h, info.id, None, byref(count))
places = (n.c_nvmlGpuInstancePlacement_t * count.value)()
n.nvmlDeviceGetGpuInstancePossiblePlacements(h, info.id, places, byref(count))
starts = [p.start for p in places]
made = n.nvmlDeviceCreateGpuInstanceWithPlacement(h, info.id, byref(places[1]))
taken = code(n.nvmlDeviceCreateGpuInstanceWithPlacement, h, info.id, byref(places[1]))
profile = n.nvmlGpuInstanceGetComputeInstanceProfileInfo(made, 0, 0)
inside = n.nvmlGpuInstanceCreateComputeInstance(made, profile.id)
n.nvmlDeviceSetMigMode(h, 0)
mode = n.nvmlDeviceGetMigMode(h)
answers = [code(n.nvmlGpuInstanceDestroy, made), code(n.nvmlComputeInstanceDestroy, inside), code(n.nvmlGpuInstanceDestroy, made)]
print(json.dumps([starts, taken, answers, mode, n.nvmlDeviceGetGpuInstanceRemainingCapacity(h, info.id)]))
"""
    starts, taken, answers, mode, left = nvml("from ctypes import byref, c_uint\n" + program)
    assert starts == [0, 2, 4]
    assert taken != 0
    assert answers[0] != 0
    assert answers[1:] == [0, 0]
    assert (mode, left) == ([1, 0], 3), "off is pending as long as the card is cut"


def test_faults_hit_the_calls_they_name(node):
    node.command("fault", "cuMemAlloc_v2", "2", "skip=1", "times=1", "container=a")
    program = """
d.start()
p = c.c_uint64()
print(json.dumps([d.code('cuMemAlloc_v2', c.byref(p), c.c_size_t(9)) for _ in range(3)]))
"""
    assert node.ask(program, HAMI_SIM_CONTAINER="b") == [0, 0, 0]
    assert node.ask(program, HAMI_SIM_CONTAINER="a") == [0, 2, 0]
    node.command("fault", "clear")
    assert node.ask(program, HAMI_SIM_CONTAINER="a") == [0, 0, 0]


@pytest.mark.parametrize(
    ("visible", "names"),
    [
        (None, ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "Tesla T4"]),
        ("1,0", ["NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"]),
        ("2,7,0", ["Tesla T4"]),
        ("0,0", []),
        ("", []),
    ],
)
def test_the_environment_says_which_devices_are_seen(bare, visible, names):
    bare.command("start", "T4,A100-40G,H100")
    program = """
code = d.code('cuInit', 0)
n = c.c_int(0)
d.library.cuDeviceGetCount(c.byref(n))
def name(i):
    text = c.create_string_buffer(96)
    d.cuDeviceGetName(text, 96, i)
    return text.value.decode()
print(json.dumps([code, [name(i) for i in range(n.value)]]))
"""
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert bare.ask(program, **environment) == [0 if names else 100, names]
    by_bus = bare.ask(program, CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert by_bus[1] == ["Tesla T4", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"]


def test_devices_are_seen_by_identity(bare):
    bare.command("start", "3xT4")
    wanted = bare.command("show")["devices"][2]["uuid"]
    program = """
d.cuInit(0)
text = c.create_string_buffer(20)
d.cuDeviceGetPCIBusId(text, 20, 0)
print(json.dumps(text.value.decode()))
"""
    assert bare.ask(program, CUDA_VISIBLE_DEVICES=wanted[:12]) == "0000:16:00.0"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a race needs two processors")
def test_many_processes_race_for_memory_and_some_are_killed(node):
    program = """
import random
d.start()
r, live = random.Random(os.getpid()), []
print('ready', flush=True)
input()
while True:
    if live and r.random() < 0.5:
        d.free(live.pop())
    else:
        try:
            live.append(d.alloc(r.choice([2**30, 5 * 2**30, 100])))
        except Refused:
            live and d.free(live.pop())
"""
    racers = [node.start(program) for _ in range(12)]
    for racer in racers:
        assert node.line(racer) == "ready"
    for racer in racers:
        node.go_on(racer)
    for _ in range(5):
        assert node.used() <= 42310041600
    for racer in racers[:6]:
        racer.kill()
    shown = node.command("show")
    booked = sum(use["bytes"] for process in shown["processes"] for use in process["devices"])
    assert shown["devices"][0]["memory_peak_bytes"] <= shown["devices"][0]["memory_total_bytes"]
    assert booked <= shown["devices"][0]["memory_total_bytes"]
    for racer in racers[6:]:
        racer.kill()
        racer.wait()
    assert node.used() == 0
