"""kube-scheduler shows a sample of its nodes; a pod that all of them refuse is sent to another that would hold it."""

import time

import pytest

from hami_core_py.lab.apiserver.faults import Fault
from hami_core_py.services.scheduling import nominating
from hami_core_py.services.scheduling.nominating import PAUSE_SECONDS, SETTLE_SECONDS
from tests.integration.scheduler.world import Json, World, eventually, one_device


@pytest.fixture
def world(world: World) -> World:
    """Two nodes that are too small, and one that is not."""
    for name, memory_mib in (("small-1", 2000), ("small-2", 2000), ("large", 16000)):
        world.add_node(name, one_device(memory_mib=memory_mib))
    return world


def nominated(world: World, name: str) -> str:
    return str((world.pod(name).get("status") or {}).get("nominatedNodeName") or "")


def refuse(world: World, pod: Json, names: list[str]) -> None:
    """One attempt of kube-scheduler that finds no node among these, and what it writes then."""
    assert world.schedule(pod, names) == ""
    give_up(world, pod["metadata"]["name"])


def give_up(world: World, name: str) -> None:
    """What kube-scheduler writes when it has found no node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"}
    path = f"/api/v1/namespaces/default/pods/{name}/status"
    world.client.patch(path, {"status": {"conditions": [condition]}}, "strategic")


def settled(world: World) -> None:
    """Another pod, refused later, has been nominated: whatever was due before has been done."""
    later = world.add_pod("later", count=1, memory=9000)
    refuse(world, later, ["small-1"])
    eventually(lambda: nominated(world, "later"), "the later pod is nominated")


def test_pod_that_its_sample_refused_is_sent_to_a_node_outside_it(world: World) -> None:
    pod = world.add_pod("p", count=1, memory=9000)
    refuse(world, pod, ["small-1", "small-2"])
    eventually(lambda: nominated(world, "p") == "large", "it is nominated")
    assert world.schedule(pod, ["large"]) == "large"


def test_pod_that_fits_nowhere_is_not_nominated(world: World) -> None:
    refuse(world, world.add_pod("p", count=1, memory=90000), ["small-1", "small-2"])
    settled(world)
    assert nominated(world, "p") == ""


def test_pod_that_was_tried_before_we_heard_of_the_room_is_sent_there(world: World) -> None:
    holder = world.add_pod("holder", count=1, memory=9000)
    assert world.schedule(holder, ["large"]) == "large"
    refuse(world, world.add_pod("p", count=1, memory=9000), ["small-1", "small-2", "large"])
    world.client.delete("/api/v1/namespaces/default/pods/holder", {"gracePeriodSeconds": 0})
    eventually(lambda: nominated(world, "p") == "large", "it is nominated, though the node was in the sample")


def test_nomination_of_kube_scheduler_is_left_alone(world: World) -> None:
    pod = world.add_pod("p", count=1, memory=9000)
    path = "/api/v1/namespaces/default/pods/p/status"
    world.client.patch(path, {"status": {"nominatedNodeName": "small-2"}})
    refuse(world, pod, ["small-1", "small-2"])
    settled(world)
    assert nominated(world, "p") == "small-2"


def test_node_that_kube_scheduler_refused_is_not_named_again_at_once(world: World) -> None:
    pod = world.add_pod("p", count=1, memory=9000)
    refuse(world, pod, ["small-1", "small-2"])
    eventually(lambda: nominated(world, "p") == "large", "it is nominated")
    # kube-scheduler's own rules do not allow that node: it takes the name back and tries the others.
    world.client.patch("/api/v1/namespaces/default/pods/p/status", {"status": {"nominatedNodeName": None}})
    refuse(world, pod, ["small-1", "small-2"])
    settled(world)
    assert nominated(world, "p") == ""


def test_pod_that_was_bound_meanwhile_is_left_alone(world: World) -> None:
    pod = world.add_pod("p", count=1, memory=9000)
    refuse(world, pod, ["small-1", "small-2"])
    assert world.schedule(pod, ["large"]) == "large"
    refuse(world, world.add_pod("later", count=1, memory=1000), [])
    eventually(lambda: nominated(world, "later"), "the later pod is nominated")
    assert nominated(world, "p") == ""


def test_room_heard_of_long_after_the_attempt_is_used(world: World) -> None:
    """kube-scheduler tried when it heard of a pod's end, we hear of it a moment later: nothing else would wake the pod."""
    assert world.schedule(world.add_pod("holder", count=1, memory=9000), ["large"]) == "large"
    refuse(world, world.add_pod("p", count=1, memory=9000), ["small-1", "small-2", "large"])
    time.sleep(2 * SETTLE_SECONDS)
    assert nominated(world, "p") == ""
    world.client.delete("/api/v1/namespaces/default/pods/holder", {"gracePeriodSeconds": 0})
    eventually(lambda: nominated(world, "p") == "large", "it is nominated")


def test_refusal_soon_after_another_is_looked_at_later(world: World) -> None:
    world.add_node("large-2", one_device(memory_mib=16000))
    pod = world.add_pod("p", count=1, memory=9000)
    refuse(world, pod, ["small-1", "small-2"])
    eventually(lambda: nominated(world, "p").startswith("large"), "it is nominated")
    first = nominated(world, "p")
    world.client.patch("/api/v1/namespaces/default/pods/p/status", {"status": {"nominatedNodeName": None}})
    refuse(world, pod, ["small-1", "small-2"])
    eventually(lambda: nominated(world, "p") not in ("", first), "the other one is named")


def test_refusal_that_kube_scheduler_writes_late_is_waited_for(world: World) -> None:
    """On a busy machine it may take longer than we wait at first."""
    pod = world.add_pod("p", count=1, memory=9000)
    assert world.schedule(pod, ["small-1", "small-2"]) == ""
    settled(world)
    assert nominated(world, "p") == ""
    give_up(world, "p")
    eventually(lambda: nominated(world, "p") == "large", "it is nominated")


def test_older_nomination_that_kube_scheduler_takes_back_late_is_waited_for(world: World) -> None:
    world.add_node("large-2", one_device(memory_mib=16000))
    pod = world.add_pod("p", count=1, memory=9000)
    refuse(world, pod, ["small-1", "small-2"])
    eventually(lambda: nominated(world, "p").startswith("large"), "it is nominated")
    first = nominated(world, "p")
    refuse(world, pod, ["small-1", "small-2"])
    time.sleep(PAUSE_SECONDS + 2 * SETTLE_SECONDS)
    assert nominated(world, "p") == first
    world.client.patch("/api/v1/namespaces/default/pods/p/status", {"status": {"nominatedNodeName": None}})
    eventually(lambda: nominated(world, "p") not in ("", first), "the other one is named")


def test_pod_is_nominated_once_the_api_server_answers_again(world: World) -> None:
    pod = world.add_pod("p", count=1, memory=9000)
    world.api.faults.add(Fault(verbs=("get",), resource="pods", name="p", status=503, times=1))
    refuse(world, pod, ["small-1", "small-2"])
    settled(world)
    eventually(lambda: nominated(world, "p") == "large", "it is nominated")


def test_crowd_that_waits_for_one_room_is_not_sent_there_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler would count all of them when it tries one, and take none."""
    monkeypatch.setattr(nominating, "PAUSE_SECONDS", 4.0)
    crowd = [f"p{number}" for number in range(4)]
    assert world.schedule(world.add_pod("holder", count=1, memory=9000), ["large"]) == "large"
    for name in crowd:
        refuse(world, world.add_pod(name, count=1, memory=9000), ["small-1", "small-2", "large"])
    world.client.delete("/api/v1/namespaces/default/pods/holder", {"gracePeriodSeconds": 0})
    eventually(lambda: [name for name in crowd if nominated(world, name)], "one is nominated")
    time.sleep(2 * SETTLE_SECONDS)
    first = [name for name in crowd if nominated(world, name)]
    assert len(first) == 1
    assert world.schedule(world.pod(first[0]), ["large"]) == "large"
    world.client.delete(f"/api/v1/namespaces/default/pods/{first[0]}", {"gracePeriodSeconds": 0})
    eventually(lambda: [name for name in crowd if name not in first and nominated(world, name)], "another one follows")
