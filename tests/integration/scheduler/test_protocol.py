"""The extender protocol as a real kube-scheduler speaks it, and as nobody should (T18)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hami_core_py.models.families import Resources
from hami_core_py.testing import builders
from hami_core_py.testing.plugins import make_plugin
from tests.integration.scheduler.world import NODES, World, acme_ask, eventually, node_object, one_device

TRACES = Path(__file__).parents[2] / "fixtures" / "extender"
TRACED_NODES = ("node-00000", "node-00001", "node-00002")


def trace(name: str) -> dict[str, Any]:
    """A request that kube-scheduler 1.37 made, and what an extender of the experiments answered."""
    found: dict[str, Any] = json.loads((TRACES / f"{name}.json").read_text())
    return found


@pytest.fixture
def traced(make_world: Callable[..., World]) -> World:
    """A cluster like that of the recorded requests, whose pods ask for one ``example.com/gpu`` each."""
    family = builders.family(resources=Resources(count="example.com/gpu"))
    world = make_world(ask=acme_ask(make_plugin("acme", [family])))
    for name in TRACED_NODES:
        node = node_object(name, (builders.device(f"{name}-0"),))
        node["status"]["allocatable"] = node["status"]["capacity"] = {"example.com/gpu": "10"}
        world.client.create(NODES, node)
    eventually(lambda: len(world.scheduler.inventory.names()) == 3, "the nodes are known")
    return world


def test_recorded_filter_is_answered_with_the_nodes_that_fit(traced: World) -> None:
    recorded = trace("filter")
    answer = traced.post("filter", recorded["request"])

    assert set(answer) >= set(recorded["response"]) - {"NodeNames"} | {"NodeNames"}
    known = [name for name in recorded["request"]["NodeNames"] if name in TRACED_NODES]
    assert sorted(answer["NodeNames"]) == sorted(known)
    assert answer["Error"] == ""


def test_recorded_prioritize_is_answered_with_a_rank_for_each_node(traced: World) -> None:
    request = trace("prioritize")["request"]
    traced.post("filter", request)

    answer = traced.post("prioritize", request)

    assert sorted((entry["Host"], entry["Score"]) for entry in answer) == [
        ("node-00000", 10),
        ("node-00001", 9),
        ("node-00002", 8),
    ]


def test_recorded_filter_with_whole_nodes_is_answered_with_whole_nodes(traced: World) -> None:
    request = trace("filter-nodeCacheCapable-false")["request"]

    answer = traced.post("filter", request)

    kept = [node["metadata"]["name"] for node in answer["Nodes"]["items"]]
    given = {node["metadata"]["name"]: node for node in request["Nodes"]["items"]}
    assert set(kept) == set(given) & set(TRACED_NODES)
    assert all(given[node["metadata"]["name"]] == node for node in answer["Nodes"]["items"])
    assert answer["NodeNames"] is None


def test_recorded_preempt_keeps_no_node_where_the_pod_fits_without_it_anyway(traced: World) -> None:
    recorded = trace("preempt")
    answer = traced.post("preempt", recorded["request"])

    # The pod would fit once the victims are gone; kube-scheduler's own filters said no, for a reason that is not ours.
    assert answer == {"NodeNameToMetaVictims": recorded["request"]["NodeNameToMetaVictims"]}


def test_recorded_bind_names_the_pod_that_is_gone(traced: World) -> None:
    answer = traced.post("bind", trace("bind")["request"])

    assert set(answer) == {"Error"}
    assert "not found" in answer["Error"]


@pytest.fixture
def world_with_node(world: World) -> World:
    world.add_node("n1", one_device())
    return world


def bad_calls() -> list[tuple[str, str, Any, str]]:
    return [
        ("filter", "{}", b"{}", "expected a pod object"),
        ("filter", "null pod", b'{"Pod": null, "NodeNames": ["n1"]}', "expected a pod object"),
        ("filter", "text pod", b'{"Pod": "x", "NodeNames": ["n1"]}', "expected a pod object"),
        ("filter", "empty", b"", "expected a JSON object, got nothing"),
        ("filter", "no json", b"{", "not JSON"),
        ("filter", "list", b"[]", "expected a JSON object"),
        ("filter", "numbers", b'{"Pod": {}, "NodeNames": [1]}', "a list of node names"),
        ("filter", "spec", b'{"Pod": {"spec": 7}, "NodeNames": ["n1"]}', ""),
        ("filter", "too long", b'{"Pod": {"x": "' + b"y" * (1024 * 1024) + b'"}}', "at most 1048576 bytes"),
        ("bind", "empty", b"", "expected a JSON object, got nothing"),
        ("bind", "{}", b"{}", "PodNamespace"),
        ("bind", "too long", b"[" + b"1," * (1024 * 1024) + b"1]", "at most 1048576 bytes"),
    ]


@pytest.mark.parametrize(("verb", "name", "body", "says"), bad_calls(), ids=lambda v: v if isinstance(v, str) else "")
def test_bad_call_is_answered_with_an_error_and_the_next_good_one_is_served(
    world_with_node: World, verb: str, name: str, body: bytes, says: str
) -> None:
    answer = world_with_node.http.post(f"/{verb}", content=body)

    assert answer.status_code == 200
    assert answer.json()["Error"]
    assert says in answer.json()["Error"]
    pod = world_with_node.add_pod("good", count=1, memory=1000)
    assert world_with_node.schedule(pod, ["n1"]) == "n1"


@pytest.mark.parametrize("verb", ["score", "preempt"])
def test_bad_call_of_a_verb_whose_answer_has_no_room_for_an_error_gets_status_400(world: World, verb: str) -> None:
    answer = world.http.post(f"/{verb}", content=b"{}")

    assert answer.status_code == 400
    assert "expected a pod object" in answer.json()["Error"]


def test_unknown_node_beside_a_good_one_is_refused_alone(world_with_node: World) -> None:
    pod = world_with_node.add_pod("a", count=1, memory=1000)

    answer = world_with_node.filter(pod, ["n1", "nowhere"])

    assert answer["NodeNames"] == ["n1"]
    assert answer["FailedAndUnresolvableNodes"] == {"nowhere": "it is not known to HAMi"}


def test_field_names_are_taken_in_any_case(world_with_node: World) -> None:
    pod = world_with_node.add_pod("a", count=1, memory=1000)

    answer = world_with_node.post("filter", {"pod": pod, "nodenames": ["n1"]})

    assert answer["NodeNames"] == ["n1"]


def test_pod_that_asks_for_nothing_of_ours_gets_its_nodes_back(world: World) -> None:
    pod = world.add_pod("plain", cpu="1")

    assert world.filter(pod, ["x", "y"])["NodeNames"] == ["x", "y"]
    nodes = {"metadata": {}, "items": [{"metadata": {"name": "x"}}]}
    assert world.post("filter", {"Pod": pod, "Nodes": nodes})["Nodes"] == nodes
    assert world.score(pod, ["x", "y"]) == {"x": 0, "y": 0}


def test_request_that_cannot_be_read_is_explained(world_with_node: World) -> None:
    pod = world_with_node.add_pod("a", count=1, memory="12Gi")

    answer = world_with_node.filter(pod, ["n1"])

    assert answer["NodeNames"] is None
    assert builders.MEMORY in answer["Error"]


def test_wrong_method_and_path_are_told_apart(world: World) -> None:
    assert world.http.get("/filter").status_code == 405
    assert world.http.post("/nothing").status_code == 404


def test_whole_nodes_that_nobody_knows_are_judged_by_what_they_say_and_leave_no_trace(world: World) -> None:
    pod = world.add_pod("a", count=1, memory=4000)
    nodes = [node_object("tmpl-a", one_device(memory_mib=8000)), node_object("tmpl-b", one_device(memory_mib=2000))]

    answer = world.post("filter", {"Pod": pod, "Nodes": {"items": nodes}})

    assert [node["metadata"]["name"] for node in answer["Nodes"]["items"]] == ["tmpl-a"]
    assert {**(answer["FailedNodes"] or {}), **(answer["FailedAndUnresolvableNodes"] or {})} == {
        "tmpl-b": "its devices lack free memory"
    }
    assert world.scheduler.inventory.names() == ()
    assert world.scheduler.ledger.reservations() == ()


def test_shortlist_answers_the_best_and_names_the_rest_nowhere(make_world: Callable[..., World]) -> None:
    world = make_world(shortlist=2)
    for name in ("n1", "n2", "n3"):
        world.add_node(name, (builders.device(f"{name}-0"),))
    pod = world.add_pod("a", count=1, memory=1000)

    answer = world.filter(pod, ["n3", "n2", "n1"])

    assert answer["NodeNames"] == ["n1", "n2"]
    assert answer["FailedNodes"] is None
    assert answer["FailedAndUnresolvableNodes"] is None


def test_refused_pod_is_told_the_numbers_in_one_event(world_with_node: World) -> None:
    pod = world_with_node.add_pod("a", count=1, memory=20000)
    for _ in range(3):
        assert world_with_node.filter(pod, ["n1"])["NodeNames"] == []

    (event,) = eventually(lambda: world_with_node.events("FilteringFailed"), "an event tells")

    assert "asked 20000 MiB, 16384 of 16384 MiB free" in event["message"]
    assert event["count"] == 1


def test_too_big_for_any_card_is_beyond_what_an_eviction_cures(world_with_node: World) -> None:
    pod = world_with_node.add_pod("a", count=1, memory=20000)

    answer = world_with_node.filter(pod, ["n1"])

    assert answer["FailedAndUnresolvableNodes"] == {"n1": "its devices lack free memory"}
    assert answer["FailedNodes"] is None


def test_metrics_count_calls_by_outcome(world_with_node: World) -> None:
    pod = world_with_node.add_pod("a", count=1, memory=1000)
    world_with_node.filter(pod, ["n1"])

    text = world_with_node.http.get("/metrics").text

    assert 'hami_extender_calls_total{outcome="fits",verb="filter"} 1.0' in text
    assert "hami_ledger_drift_total 0.0" in text
    assert 'hami_reservations{state="assumed"} 1.0' in text


def test_shortlist_of_one_counts_the_pod_at_once_because_no_score_will_be_asked(
    make_world: Callable[..., World],
) -> None:
    world = make_world(shortlist=1)
    for name in ("n1", "n2"):
        world.add_node(name, (builders.device(f"{name}-0", memory_mib=6000),))
    first, second = (world.add_pod(name, count=1, memory=4000) for name in ("a", "b"))

    answers = [world.filter(pod, ["n1", "n2"])["NodeNames"] for pod in (first, second)]

    assert answers == [["n1"], ["n2"]]
