"""A bind that fails at any step leaves nothing behind; one whose outcome is unknown keeps what it took (T24)."""

from collections.abc import Callable

import pytest

from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.faults import Fault
from hami_core_py.services.holding import State
from tests.integration.scheduler.world import Json, World, eventually, one_device

BINDING = {"verbs": ("create",), "resource": "pods", "subresource": "binding"}


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    world = make_world()
    world.add_node("n1", one_device(memory_mib=6000))
    return world


@pytest.fixture
def impatient(make_world: Callable[..., World]) -> World:
    """The same with calls that may not take long."""
    world = make_world(timeout_seconds=0.5)
    world.add_node("n1", one_device(memory_mib=6000))
    return world


def prepared(world: World) -> Json:
    """A pod after its filter."""
    pod = world.add_pod("a", count=1, memory=4000, cores=20)
    assert world.filter(pod, ["n1"])["NodeNames"] == ["n1"]
    return pod


@pytest.mark.parametrize("status", [403, 404, 409, 422, 429, 500, 503])
def test_refused_binding_leaves_the_books_as_before_the_filter(world: World, api: ApiServer, status: int) -> None:
    before = world.usage("n1")
    pod = prepared(world)
    api.faults.add(Fault(**BINDING, status=status, message="not today", times=1))

    error = world.bind(pod, "n1")

    assert "not today" in error
    assert world.usage("n1") == before
    assert world.scheduler.ledger.reservations() == ()
    assert world.node_of("a") == ""
    assert world.record("a") == ()
    assert world.schedule(pod, ["n1"]) == "n1", "the next attempt succeeds"
    eventually(lambda: world.events("BindingFailed"), "an event tells why")


def test_pod_that_is_gone_leaves_nothing(world: World) -> None:
    pod = prepared(world)
    world.client.delete("/api/v1/namespaces/default/pods/a")

    assert "not found" in world.bind(pod, "n1")

    eventually(lambda: not world.usage("n1"), "nothing is counted")


def test_successor_of_the_same_name_is_not_bound_in_its_place(world: World) -> None:
    pod = prepared(world)
    world.client.delete("/api/v1/namespaces/default/pods/a")
    world.add_pod("a", count=1, memory=4000)

    assert world.bind(pod, "n1") != ""

    assert world.node_of("a") == ""
    eventually(lambda: not world.usage("n1"), "nothing is counted")


def test_pod_that_nobody_asked_about_before_is_read_and_bound(world: World) -> None:
    pod = world.add_pod("a", count=1, memory=4000)

    assert world.bind(pod, "n1") == ""
    assert world.record("a")[0].share.memory_mib == 4000


def test_pod_that_cannot_be_read_is_not_bound(world: World, api: ApiServer) -> None:
    pod = world.add_pod("a", count=1, memory=4000)
    api.faults.add(Fault(verbs=("get",), resource="pods", status=404, times=1))

    assert "injected fault" in world.bind(pod, "n1")
    assert world.usage("n1") == {}


def test_unknown_node_is_refused(world: World) -> None:
    pod = prepared(world)

    assert "nowhere" in world.bind(pod, "nowhere")
    assert world.usage("n1") == {}


def test_answer_that_is_lost_after_the_binding_was_stored_is_found_out(world: World, api: ApiServer) -> None:
    pod = prepared(world)
    api.faults.add(Fault(**BINDING, when="after", drop=True, times=1))

    assert world.bind(pod, "n1") == "", "a look at the pod tells that it is bound"

    assert world.node_of("a") == "n1"
    assert world.usage("n1")["npu-0"].memory_mib == 4000


def test_lost_answer_keeps_the_reservation_until_the_pod_could_be_looked_at(world: World, api: ApiServer) -> None:
    pod = prepared(world)
    api.faults.add(Fault(**BINDING, when="after", drop=True, times=1))
    blind = api.faults.add(Fault(verbs=("get",), resource="pods", status=503))
    # The watch must not tell either, or there would be nothing to find out.
    deaf = api.faults.add(Fault(verbs=("watch", "list"), resource="pods", status=503))
    api.end_watches()

    assert "not known yet" in world.bind(pod, "n1")

    uid = pod["metadata"]["uid"]
    held = world.scheduler.ledger.reservation(uid)
    assert held is not None
    assert held.state is State.BINDING
    assert world.filter(pod, ["n1", "n2"])["NodeNames"] == ["n1"], "meanwhile that node alone"
    assert world.usage("n1")["npu-0"].memory_mib == 4000
    api.faults.remove(blind)
    world.scheduler.binder.settle()
    assert world.scheduler.ledger.reservation(uid) is None
    assert world.usage("n1")["npu-0"].memory_mib == 4000
    api.faults.remove(deaf)


def test_binding_that_never_arrived_is_given_up_once_it_can_no_longer_happen(impatient: World, api: ApiServer) -> None:
    world = impatient
    pod = prepared(world)
    api.faults.add(Fault(**BINDING, when="before", drop=True, times=1))

    assert "not known yet" in world.bind(pod, "n1")
    assert world.usage("n1")["npu-0"].memory_mib == 4000, "it may still happen"

    eventually(lambda: world.usage("n1") == {}, "the reservation ends")
    assert world.schedule(pod, ["n1"]) == "n1"


def test_answer_that_takes_too_long_is_not_waited_for(impatient: World, api: ApiServer) -> None:
    world = impatient
    pod = prepared(world)
    api.faults.add(Fault(**BINDING, when="after", stall_s=1.0, times=1))

    assert "not known yet" in world.bind(pod, "n1"), "a look would outlast kube-scheduler's patience"
    assert world.bind(pod, "n1") == "", "asked again it has been found out"

    assert world.node_of("a") == "n1"
    assert world.usage("n1")["npu-0"].memory_mib == 4000


def test_second_bind_of_a_pod_finds_out_what_became_of_the_first(world: World, api: ApiServer) -> None:
    pod = prepared(world)
    api.faults.add(Fault(**BINDING, when="after", drop=True, times=1))
    blind = api.faults.add(Fault(verbs=("get",), resource="pods", status=503))
    world.bind(pod, "n1")
    api.faults.remove(blind)

    assert world.bind(pod, "n1") == ""
    assert world.bind(pod, "n1") == "", "and once more when the watch has told"
    assert world.usage("n1")["npu-0"].memory_mib == 4000


def test_annotations_that_would_silence_the_pod_for_ever_are_not_written(world: World) -> None:
    pod = world.add_pod("a", count=1, memory=4000)
    patch = {"metadata": {"annotations": {"note": "x" * 262_000}}}
    pod = world.client.patch("/api/v1/namespaces/default/pods/a", patch)
    world.filter(pod, ["n1"])

    assert "at most 262144 bytes" in world.bind(pod, "n1")

    assert world.node_of("a") == ""
    assert world.usage("n1") == {}
