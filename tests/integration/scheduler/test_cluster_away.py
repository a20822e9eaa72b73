"""An API server that is away or forgets: nothing is lost, and what drifted all the same is found (T27 g)."""

from collections.abc import Callable

import pytest

from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.testing import builders
from tests.integration.scheduler.world import World, eventually, one_device


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    world = make_world()
    world.add_node("n1", one_device(memory_mib=6000))
    return world


def test_scheduler_answers_while_the_api_server_is_away_and_learns_what_it_missed(world: World, api: ApiServer) -> None:
    pod = world.add_pod("a", count=1, memory=4000, cores=10)
    assert world.schedule(pod, ["n1"]) == "n1"
    waiting = world.add_pod("b", count=1, memory=4000, cores=10)
    api.stop()

    assert world.filter(waiting, ["n1"])["FailedNodes"] == {"n1": "its devices lack free memory"}

    _delete(api, "a")
    api.start()
    eventually(lambda: not world.usage("n1"), "the deletion that happened meanwhile is known")
    assert world.schedule(waiting, ["n1"]) == "n1"


def test_bind_while_the_api_server_is_away_fails_and_leaves_nothing(world: World, api: ApiServer) -> None:
    pod = world.add_pod("a", count=1, memory=4000)
    world.filter(pod, ["n1"])
    api.stop()

    error = world.bind(pod, "n1")

    assert "no answer" in error
    api.start()
    eventually(lambda: world.usage("n1") == {}, "nothing is counted")
    assert world.schedule(pod, ["n1"]) == "n1"


def test_expired_watch_lists_anew_and_misses_nothing(world: World, api: ApiServer) -> None:
    pod = world.add_pod("a", count=1, memory=4000, cores=10)
    assert world.schedule(pod, ["n1"]) == "n1"

    api.end_watches(is_expired=True)
    world.client.delete("/api/v1/namespaces/default/pods/a", {"gracePeriodSeconds": 0})
    world.client.create("/api/v1/nodes", _node("n2"))

    eventually(lambda: world.scheduler.inventory.devices("n2"), "the new node is known")
    eventually(lambda: not world.usage("n1"), "the deleted pod is gone")


def test_scheduler_that_does_not_know_its_cluster_yet_says_so_at_once(
    make_world: Callable[..., World], api: ApiServer
) -> None:
    world = make_world()
    pod = world.add_pod("a", count=1, memory=4000)
    world.scheduler._pod_watch.synced.clear()

    answer = world.filter(pod, ["n1"])

    assert answer["Error"] == "cannot decide yet: the cluster's pods have not been read yet"
    assert world.http.get("/readyz").status_code == 503
    assert "cannot bind yet" in world.bind(pod, "n1")
    assert world.score(pod, ["n1"]) == {"n1": 0}


def test_delete_event_that_was_lost_is_found_by_the_next_recount(world: World, api: ApiServer) -> None:
    pod = world.add_pod("a", count=1, memory=4000, cores=10)
    assert world.schedule(pod, ["n1"]) == "n1"
    eventually(lambda: not world.scheduler.ledger.reservations(), "the record has arrived")
    world.scheduler._pod_watch.stop()
    world.client.delete("/api/v1/namespaces/default/pods/a", {"gracePeriodSeconds": 0})
    assert world.usage("n1")["npu-0"].memory_mib == 4000

    world.scheduler.care.reconcile()

    assert world.usage("n1") == {}
    assert "hami_ledger_drift_total 1.0" in world.http.get("/metrics").text


def test_recount_of_true_books_finds_nothing(world: World) -> None:
    for name in ("a", "b"):
        pod = world.add_pod(name, count=1, memory=1000, cores=10)
        assert world.schedule(pod, ["n1"]) == "n1"
    waiting = world.add_pod("c", count=1, memory=1000, cores=10)
    world.filter(waiting, ["n1"])

    world.scheduler.care.reconcile()

    assert world.scheduler.ledger.drift_total == 0
    assert world.usage("n1")["npu-0"].memory_mib == 3000


def test_bad_objects_do_not_stop_the_good_ones(world: World) -> None:
    annotations = {"hami.io/node-acme-inventory": '{"version":99}'}
    world.client.create("/api/v1/nodes", {"metadata": {"name": "odd", "annotations": annotations}})
    world.add_node("n2", (builders.device("npu-9"),))
    pod = world.add_pod("a", count=1, memory=1000)

    answer = world.filter(pod, ["odd", "n2"])

    assert answer["NodeNames"] == ["n2"]
    assert list({**(answer["FailedNodes"] or {}), **(answer["FailedAndUnresolvableNodes"] or {})}) == ["odd"]


def _node(name: str) -> dict[str, object]:
    from tests.integration.scheduler.world import node_object

    return node_object(name, (builders.device(f"{name}-0"),))


def _delete(api: ApiServer, name: str) -> None:
    """Delete a pod behind the API server's back, as another one of the cluster would have."""
    api.store.delete("pods", name, "default", grace_seconds=0)
