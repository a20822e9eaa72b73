"""Whom a preemption would help: kube-scheduler evicts pods that cannot help unless it is told."""

from collections.abc import Callable

import pytest

from tests.integration.scheduler.world import Json, World, eventually, one_device


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    world = make_world()
    world.client.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
    return world


@pytest.fixture
def victim(world: World) -> Json:
    """A bound pod of low priority that fills the only device of its node; another node holds no device of such a size."""
    world.add_node("full", one_device(memory_mib=8000))
    world.add_node("small", (one_device(memory_mib=2000)[0],))
    pod = world.add_pod("victim", count=1, memory=6000, cores=10)
    assert world.schedule(pod, ["full"]) == "full"
    eventually(lambda: world.usage("full"), "it is counted")
    return pod


def preempt(world: World, pod: Json, victims: dict[str, list[str]]) -> Json:
    meta = {node: {"Pods": [{"UID": u} for u in uids], "NumPDBViolations": 1} for node, uids in victims.items()}
    answer = world.post("preempt", {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta})
    kept: Json = answer["NodeNameToMetaVictims"]
    return kept


def test_node_is_kept_where_the_pod_fits_once_the_victims_are_gone(world: World, victim: Json) -> None:
    high = world.add_pod("high", priority_class="high", count=1, memory=6000, cores=10)
    uid = victim["metadata"]["uid"]

    assert preempt(world, high, {"full": [uid], "small": []}) == {
        "full": {"Pods": [{"UID": uid}], "NumPDBViolations": 1}
    }


def test_node_is_dropped_where_these_victims_do_not_help(world: World, victim: Json) -> None:
    high = world.add_pod("high", priority_class="high", count=1, memory=6000, cores=10)

    assert preempt(world, high, {"full": ["somebody-else"]}) == {}


def test_pod_that_is_too_big_for_any_card_evicts_nobody(world: World, victim: Json) -> None:
    high = world.add_pod("high", priority_class="high", count=1, memory=9000, cores=10)

    assert preempt(world, high, {"full": [victim["metadata"]["uid"]]}) == {}


def test_victims_may_come_as_whole_pods(world: World, victim: Json) -> None:
    high = world.add_pod("high", priority_class="high", count=1, memory=6000, cores=10)
    whole = {"full": {"Pods": [victim], "NumPDBViolations": 0}}

    answer = world.post("preempt", {"Pod": high, "NodeNameToVictims": whole, "NodeNameToMetaVictims": None})

    uid = victim["metadata"]["uid"]
    assert answer == {"NodeNameToMetaVictims": {"full": {"Pods": [{"UID": uid}], "NumPDBViolations": 0}}}


def test_question_changes_nothing(world: World, victim: Json) -> None:
    high = world.add_pod("high", priority_class="high", count=1, memory=6000, cores=10)
    preempt(world, high, {"full": [victim["metadata"]["uid"]]})

    assert world.usage("full")["npu-0"].memory_mib == 6000
    assert world.scheduler.ledger.reservations() == ()
    assert world.filter(high, ["full"])["FailedNodes"] == {"full": "its devices lack free memory"}


def test_assumed_pod_of_lower_priority_gives_way_in_filter(world: World) -> None:
    world.add_node("n1", one_device(memory_mib=8000))
    low = world.add_pod("low", count=1, memory=6000, cores=10)
    high = world.add_pod("high", priority_class="high", count=1, memory=6000, cores=10)
    assert world.filter(low, ["n1"])["NodeNames"] == ["n1"]

    assert world.schedule(high, ["n1"]) == "n1"

    assert "asked 6000 MiB" in world.bind(low, "n1") or world.node_of("low") == ""
