"""Pods whose limits do not hold: who is evicted on a monitor's word, and on whose word nobody is."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from hami_core_py.cluster.events import KEPT
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.faults import Fault
from hami_core_py.services.scheduling import evicting
from tests.integration.scheduler.world import Json, World, eventually, one_device

EVENTS = "/api/v1/namespaces/kube-system/events"
"""Another namespace than the scheduler's trial uses, so that the tests' own events come in."""


@pytest.fixture
def evicts(make_world: Callable[..., World]) -> World:
    """A scheduler that evicts, and a pod bound to its only node."""
    world = make_world(evict=True)
    world.add_node("n1", one_device())
    bound(world, "greedy")
    return world


@pytest.fixture
def guarded(api: ApiServer) -> None:
    """The API server refuses the scheduler's trial, as with the chart's policy."""
    fields = {"verbs": ("create",), "resource": "events", "namespace": "default"}
    api.faults.add(Fault(**fields, status=403, reason="Forbidden", message=f"events {KEPT}"))


def bound(world: World, name: str) -> Json:
    pod = world.add_pod(name, count=1, memory=1000, cores=10)
    assert world.schedule(pod, ["n1"]) == "n1"
    eventually(lambda: world.scheduler.ledger.reservation(pod["metadata"]["uid"]) is None, "the record is read")
    return pod


def warn(world: World, pod: str, *, node: str = "n1", age_seconds: float = 0.0, **fields: Any) -> None:
    """What a monitor writes."""
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=age_seconds)
    uid = world.pod(pod)["metadata"]["uid"]
    event = {
        "metadata": {"generateName": "warning-", "namespace": "kube-system"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": pod, "uid": uid},
        "type": "Warning",
        "reason": "LimitNotHeld",
        "message": "holds more than its limit",
        "lastTimestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "source": {"component": "hami-monitor", "host": node},
        "reportingComponent": "hami-monitor",
    }
    world.client.create(EVENTS, {**event, **fields})


def is_ending(world: World, name: str) -> bool:
    return "deletionTimestamp" in world.pod(name)["metadata"]


def test_pod_that_its_nodes_monitor_warns_about_is_evicted(guarded: None, evicts: World) -> None:
    bound(evicts, "decent")
    warn(evicts, "greedy")
    eventually(lambda: evicts.scheduler.evictor.outcomes["evicted"], "evicted")
    assert is_ending(evicts, "greedy")
    assert not is_ending(evicts, "decent")
    assert 'hami_limit_evictions_total{outcome="evicted"} 1.0' in evicts.http.get("/metrics").text


def test_nobody_is_evicted_where_anybody_could_write_the_event(evicts: World) -> None:
    warn(evicts, "greedy")
    eventually(lambda: evicts.scheduler.evictor.outcomes["unguarded"], "looked at")
    assert not is_ending(evicts, "greedy")
    assert evicts.scheduler.evictor.outcomes["evicted"] == 0


def test_word_of_another_node_old_news_and_other_events_count_for_nothing(guarded: None, evicts: World) -> None:
    evicts.add_pod("bare")
    warn(evicts, "greedy", node="n2")
    warn(evicts, "greedy", age_seconds=evicting.FRESH_SECONDS + 60)
    warn(evicts, "greedy", reportingComponent="tenant")
    warn(evicts, "greedy", reason="LimitHeld")
    warn(evicts, "bare")
    other = {"kind": "Pod", "namespace": "default", "name": "greedy", "uid": "of its predecessor"}
    warn(evicts, "greedy", involvedObject=other)
    bound(evicts, "next")
    warn(evicts, "next")
    eventually(lambda: evicts.scheduler.evictor.outcomes["evicted"], "the last one evicted")
    assert is_ending(evicts, "next")
    assert not is_ending(evicts, "greedy")
    assert not is_ending(evicts, "bare")


def test_disruption_budget_holds_an_eviction_back_until_it_allows(guarded: None, api: ApiServer, evicts: World) -> None:
    refuses = Fault(
        verbs=("create",),
        resource="pods",
        subresource="eviction",
        status=429,
        message="budget",
        retry_after_s=1,
        times=1,
    )
    api.faults.add(refuses)
    warn(evicts, "greedy")
    eventually(lambda: evicts.scheduler.evictor.outcomes["held_back"], "held back")
    eventually(lambda: is_ending(evicts, "greedy"), "evicted in the end")


def test_scheduler_that_is_not_told_to_evict_does_not_even_look(world: World) -> None:
    assert world.scheduler.evictor is None
    assert "hami_limit_evictions" not in world.http.get("/metrics").text
