"""*Ordered* identity: the pod that holds the node lock is served, and its lock is given back in every outcome."""

import threading

import grpc
import pytest

from hami_core_py.lab.apiserver import Fault
from hami_core_py.models.allocations import Mount
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp

LOCK = "hami.io/mutex.lock"
WORK = "hami.io/acme-to-allocate"
PHASE = "hami.io/bind-phase"


@pytest.fixture
def node(world):
    world.start(identity="ordered")
    return world


def lock(world, text):
    world.client.patch("/api/v1/nodes/node-a", {"metadata": {"annotations": {LOCK: text}}})


def lock_for(world, name):
    lock(world, f"2031-02-03T04:05:06Z,default,{name}")


def annotations(world, name):
    return world.client.get(f"/api/v1/namespaces/default/pods/{name}")["metadata"]["annotations"]


def refused(world, *requests):
    with pytest.raises(grpc.RpcError) as caught:
        world.kubelet.allocate(*requests)
    return caught.value.code(), caught.value.details()


def waiting(world, name="p1", shares=None, **more):
    found = shares or {"main": [(world.npu(1), world.share(3000, 30))]}
    return world.pod(name, found, ordered=True, **more)


def test_plugin_wants_no_call_before_a_start(node):
    assert node.kubelet.plugins["acme.example/npu"].options.pre_start_required is False
    node.eventually(
        "the mode", lambda: '"identity":"ordered"' in node.annotations().get("hami.io/node-acme-inventory", "")
    )


def test_allocate_follows_the_record_and_not_the_ids(world):
    world.acme.devices = [world.npu(n) for n in range(4)]
    world.start(identity="ordered")
    shares = {
        "idle": [],
        "a": [(world.npu(1), world.share(3000, 30))],
        "b": [(world.npu(2), world.share(500, 0)), (world.npu(3), world.share(500, 0))],
    }
    waiting(world, shares=shares)
    lock_for(world, "p1")
    first, second = world.kubelet.allocate(["npu-0::3"], ["npu-0::5", "npu-0::6"])
    assert (first.envs["ACME_DEVICES"], first.envs["ACME_MEMORY"]) == ("npu-1", "3000")
    assert (second.envs["ACME_DEVICES"], second.envs["ACME_MEMORY"]) == ("npu-2,npu-3", "500,500")
    assert "npu-0" not in str(first) + str(second)
    assert annotations(world, "p1")[WORK] == ";;;"
    assert annotations(world, "p1")[PHASE] == "success"
    assert LOCK not in world.annotations()


def test_preferred_ids_are_on_the_devices_of_the_container_that_waits_for_so_many(world):
    world.acme.devices = [world.npu(n) for n in range(4)]
    world.start(identity="ordered")
    pair = [(world.npu(2), world.share(500, 0)), (world.npu(3), world.share(500, 0))]
    waiting(world, shares={"idle": [], "a": [(world.npu(1), world.share(3000, 30))], "b": pair})
    lock_for(world, "p1")
    available = [f"npu-{d}::{s}" for d in range(4) for s in range(3)]
    request = dp.PreferredAllocationRequest()
    for size in (1, 2, 3):
        request.container_requests.add(available_deviceIDs=available, allocation_size=size)
    answer = world.kubelet.plugins["acme.example/npu"].stub.GetPreferredAllocation(request, timeout=60)
    assert [sorted(one.deviceIDs) for one in answer.container_responses] == [["npu-1::0"], ["npu-2::0", "npu-3::0"], []]


def test_lock_stays_while_a_container_waits(node):
    waiting(node, shares={name: [(node.npu(1), node.share())] for name in ("a", "b")})
    lock_for(node, "p1")
    answer = node.kubelet.allocate(["npu-0::0"])[0]
    assert answer.envs["ACME_WHO"].endswith("/a")
    assert annotations(node, "p1")[PHASE] == "allocating"
    assert LOCK in node.annotations()
    answer = node.kubelet.allocate(["npu-0::1"])[0]
    assert answer.envs["ACME_WHO"].endswith("/b")
    assert LOCK not in node.annotations()


def test_lock_names_the_pod_whatever_others_claim(node):
    waiting(node, "p2", annotations={PHASE: "allocating", "hami.io/bind-time": "1"})
    waiting(node, "p1")
    lock_for(node, "p1")
    answer = node.kubelet.allocate(["npu-0::0"])[0]
    uid = node.client.get("/api/v1/namespaces/default/pods/p1")["metadata"]["uid"]
    assert answer.envs["ACME_WHO"] == f"{uid}/main"


@pytest.mark.parametrize("text", [None, "2031-02-03T04:05:06Z", "bad", "t,default,p1,1"], ids=repr)
def test_without_a_lock_that_names_a_pod_nobody_is_served(node, text):
    waiting(node, "p2")
    if text is not None:
        lock(node, text)
    code, sentence = refused(node, ["npu-0::0"])
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert LOCK in sentence
    assert annotations(node, "p2")[PHASE] == "allocating"
    assert node.annotations().get(LOCK) == text
    assert node.acme.granted == []


def test_wrong_count_names_both_numbers(node):
    waiting(node)
    lock_for(node, "p1")
    _, sentence = refused(node, ["npu-0::0", "npu-0::1"])
    assert "gave 2 ids" in sentence
    assert "names 1 devices" in sentence
    assert_given_back(node)


def assert_given_back(world):
    assert LOCK not in world.annotations()
    assert annotations(world, "p1")[PHASE] == "failed"
    world.eventually("one event", lambda: len(world.events("DevicesRefused")) == 1)


def garbled_list(world):
    world.client.patch("/api/v1/namespaces/default/pods/p1", {"metadata": {"annotations": {WORK: "a,b:;"}}})


def failing_backend(world):
    def fail(_allocation, _grant):
        raise RuntimeError("cannot build the environment")

    world.acme.granting = fail


def missing_library(world):
    missing = str(world.state / "host" / "acme" / "1" / "libacme.so")

    def grant(_allocation, grant):
        return type(grant)(env=grant.env, mounts=(Mount(host_path=missing, container_path="/usr/lib/libacme.so"),))

    world.acme.granting = grant


def unreadable_pod(world):
    world.api.faults.add(Fault(verbs=("get",), resource="pods", name="p1", status=500, times=4))


def phase_not_written(world):
    # The work list, and every attempt to write the phase after it, fail; the mark of the failure then goes through.
    world.api.faults.add(Fault(verbs=("patch",), resource="pods", name="p1", status=500, times=4))


@pytest.mark.parametrize(
    "inject",
    [garbled_list, failing_backend, missing_library, unreadable_pod, phase_not_written],
    ids=lambda f: f.__name__,
)
def test_failure_gives_the_lock_back_and_marks_the_pod(node, inject):
    waiting(node)
    lock_for(node, "p1")
    inject(node)
    refused(node, ["npu-0::0"])
    assert_given_back(node)
    node.api.faults.clear()
    node.acme.granting = lambda _allocation, grant: grant
    waiting(node, "p3")
    lock_for(node, "p3")
    assert node.kubelet.allocate(["npu-0::0"])[0].envs["ACME_DEVICES"] == "npu-1"
    assert LOCK not in node.annotations()


def test_phase_that_cannot_be_written_gives_the_lock_back(node):
    waiting(node)
    lock_for(node, "p1")
    node.api.faults.add(Fault(verbs=("patch",), resource="pods", name="p1", times=1))  # the work list passes
    node.api.faults.add(Fault(verbs=("patch",), resource="pods", name="p1", status=500, times=4))
    refused(node, ["npu-0::0"])
    assert annotations(node, "p1")[WORK] == ";"
    assert_given_back(node)


def test_pod_that_the_kubelet_has_just_forgotten_does_not_hold_up_the_next(node):
    whole = {"main": [(node.npu(1), node.share(16384, 100))]}
    gone = waiting(node, "gone", whole)
    lock_for(node, "gone")
    node.kubelet.admit(gone["metadata"]["uid"], "main", ["npu-0::0"])
    node.client.delete("/api/v1/namespaces/default/pods/gone", {"gracePeriodSeconds": 0})
    waiting(node, "next", whole)
    lock_for(node, "next")
    node.eventually("the watch", lambda: {one.view.name for one in node.agent._pods.all()} == {"next"})
    assert node.kubelet.allocate(["npu-0::1"])[0].envs["ACME_MEMORY"] == "16384"


def test_call_that_the_kubelet_gave_up_gives_the_lock_back(node):
    waiting(node)
    lock_for(node, "p1")

    def hang_until_cancelled(_allocation, grant):
        node.eventually("the kubelet to give up", lambda: not plugin_stub_waits.is_set())
        return grant

    plugin_stub_waits = threading.Event()
    plugin_stub_waits.set()
    node.acme.granting = hang_until_cancelled
    request = dp.AllocateRequest()
    request.container_requests.add(devices_ids=["npu-0::0"])
    call = node.kubelet.plugins["acme.example/npu"].stub.Allocate.future(request)
    node.eventually("the grant to be asked for", lambda: node.acme.granted)
    call.cancel()
    node.eventually("the cancellation to arrive", call.cancelled)
    # The server learns of it through the connection; a further call over it comes after.
    node.kubelet.plugins["acme.example/npu"].stub.GetDevicePluginOptions(dp.Empty(), timeout=60)
    plugin_stub_waits.clear()
    node.eventually("the lock to be given back", lambda: LOCK not in node.annotations())
    assert_given_back(node)


def test_lock_of_a_pod_that_is_gone_is_given_back(node):
    lock_for(node, "p1")
    code, _ = refused(node, ["npu-0::0"])
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert LOCK not in node.annotations()


def test_work_list_that_disagrees_with_the_record_is_refused(node):
    waiting(node, annotations={WORK: "npu-0,Acme,16000,100:;"})
    lock_for(node, "p1")
    _, sentence = refused(node, ["npu-0::0"])
    assert "name different devices" in sentence
    assert_given_back(node)


def test_answer_carries_mounts_and_device_files(node):
    def grant(allocation, grant):
        mounts = (Mount(host_path=f"{allocation.directory}/shared", container_path="/opt/acme", read_only=False),)
        return type(grant)(env=grant.env, mounts=mounts, device_paths=("/dev/null",), files=grant.files)

    node.acme.granting = grant
    waiting(node)
    lock_for(node, "p1")
    answer = node.kubelet.allocate(["npu-0::0"])[0]
    assert [(m.container_path, m.read_only) for m in answer.mounts] == [("/opt/acme", False)]
    assert [(d.host_path, d.permissions) for d in answer.devices] == [("/dev/null", "rw")]
    assert (node.root / answer.mounts[0].host_path).is_dir()
    assert not list(node.cdi.glob("hami-*"))
