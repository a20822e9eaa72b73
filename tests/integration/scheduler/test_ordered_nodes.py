"""Nodes whose plugins take their work from the v2.10 list: lock, list and phase, and what a failure gives back (T24)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hami_core_py.cluster.watch import Watcher
from hami_core_py.codecs.locks import parse_lock
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.faults import Fault
from hami_core_py.models.families import NodeLock
from hami_core_py.testing.builders import COUNT
from hami_core_py.testing.plugins import make_plugin
from tests.integration.scheduler.world import (
    NODES,
    World,
    acme_ask,
    eventually,
    older_family,
    older_node,
    one_device,
)

SHARED = "hami.io/mutex.lock"
KEYS = {"Aa": "aa.example/lock", "Bb": "bb.example/lock", "Cc": "cc.example/lock"}
FAMILIES = [older_family(name, NodeLock(key=key)) for name, key in KEYS.items()]
THREE = {f"{name.lower()}.example/npu": 1 for name in KEYS} | {f"{n.lower()}.example/memory": 1000 for n in KEYS}


class LockWatch:
    """What is seen of a node's locks from outside."""

    def __init__(self, world: World) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self._last: dict[str, str] = {}
        self.watcher = Watcher(world.client, NODES, on_event=lambda _k, node: self._note(node), on_sync=self._sync)
        self.watcher.start()
        assert self.watcher.synced.wait(60)

    def _sync(self, nodes: list[Any]) -> None:
        for node in nodes:
            self._note(node)

    def _note(self, node: Any) -> None:
        now = {k: v for k, v in node["metadata"].get("annotations", {}).items() if "lock" in k}
        for key in sorted({*now, *self._last}):
            if now.get(key) != self._last.get(key):
                self.seen.append((key, now.get(key)))
        self._last = now

    def taken(self) -> list[str]:
        return [key for key, value in self.seen if value is not None]

    def released(self) -> list[str]:
        return [key for key, value in self.seen if value is None]


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    plugins = [make_plugin(f.backend, [f]) for f in FAMILIES]
    world = make_world(ask=acme_ask(*plugins), lock_wait_seconds=0.05, timeout_seconds=1.5)
    world.client.create(NODES, older_node("n1", FAMILIES))
    eventually(lambda: len(world.scheduler.inventory.devices("n1")) == 3, "the node is known")
    return world


@pytest.fixture
def locks(world: World) -> Iterator[LockWatch]:
    watch = LockWatch(world)
    yield watch
    watch.watcher.stop()


def annotations(world: World, name: str) -> dict[str, str]:
    return world.pod(name)["metadata"].get("annotations") or {}


def test_pod_is_bound_under_the_lock_with_its_work_list(world: World) -> None:
    pod = world.add_pod("a", **{"aa.example/npu": 1, "aa.example/memory": 1000})

    assert world.schedule(pod, ["n1"]) == "n1"

    written = annotations(world, "a")
    assert written["aa.example/to-allocate"] == written["aa.example/allocated"] == "Aa-0,Aa,1000,100:;"
    assert written["hami.io/bind-phase"] == "allocating"
    lock = parse_lock(world.client.get(f"{NODES}/n1")["metadata"]["annotations"][KEYS["Aa"]])
    assert (lock.namespace, lock.pod) == ("default", "a")


def test_each_vendor_of_a_pod_is_locked_once_in_order(world: World, locks: LockWatch) -> None:
    pod = world.add_pod("a", **THREE)

    assert world.schedule(pod, ["n1"]) == "n1"

    eventually(lambda: len(locks.taken()) == 3, "all locks are seen")
    assert locks.taken() == list(KEYS.values())
    assert locks.released() == []


def test_lock_of_the_second_vendor_fails(world: World, api: ApiServer, locks: LockWatch) -> None:
    before = world.usage("n1")
    holder = world.add_pod("holder", count=1)
    world.client.patch(f"{NODES}/n1", {"metadata": {"annotations": {KEYS["Bb"]: _lock_of(holder)}}})
    pod = world.add_pod("a", **THREE)
    assert world.filter(pod, ["n1"])["NodeNames"] == ["n1"]

    error = world.bind(pod, "n1")

    assert "node lock contention" in error
    eventually(lambda: KEYS["Aa"] in locks.released(), "the first lock is released")
    assert locks.released() == [KEYS["Aa"]], "once, and no other"
    assert KEYS["Cc"] not in locks.taken(), "the third was never tried"
    assert world.usage("n1") == before
    assert annotations(world, "a") == {}


def test_error_of_a_release_does_not_hide_why_it_was_released(world: World, api: ApiServer) -> None:
    before = world.usage("n1")
    pod = world.add_pod("a", **THREE)
    world.filter(pod, ["n1"])
    api.faults.add(
        Fault(verbs=("create",), resource="pods", subresource="binding", status=422, message="the first error")
    )
    # Three locks are taken; whatever comes after them is a release.
    api.faults.add(Fault(verbs=("patch",), resource="nodes", stall_s=0.0, times=3))
    api.faults.add(Fault(verbs=("patch",), resource="nodes", status=500, message="a later error"))

    error = world.bind(pod, "n1")

    assert "the first error" in error
    assert "a later error" not in error
    assert world.usage("n1") == before


@pytest.mark.parametrize("status", [404, 409, 422, 500])
def test_refused_binding_gives_every_lock_back(world: World, api: ApiServer, locks: LockWatch, status: int) -> None:
    before = world.usage("n1")
    pod = world.add_pod("a", **THREE)
    world.filter(pod, ["n1"])
    api.faults.add(Fault(verbs=("create",), resource="pods", subresource="binding", status=status, times=1))

    assert world.bind(pod, "n1") != ""

    eventually(lambda: len(locks.released()) == 3, "all locks are released")
    assert locks.released() == list(reversed(KEYS.values()))
    assert world.usage("n1") == before
    assert "hami.io/bind-phase" not in annotations(world, "a")
    assert world.schedule(pod, ["n1"]) == "n1"


@pytest.mark.parametrize(("status", "times"), [(404, 1), (409, 6), (500, 1)])
def test_lock_that_cannot_be_written_leaves_nothing(world: World, api: ApiServer, status: int, times: int) -> None:
    before = world.usage("n1")
    pod = world.add_pod("a", **THREE)
    world.filter(pod, ["n1"])
    verbs = ("get",) if status == 404 else ("patch",)
    api.faults.add(Fault(verbs=verbs, resource="nodes", status=status, times=times))

    assert world.bind(pod, "n1") != ""

    api.faults.clear()
    assert world.usage("n1") == before
    assert not [k for k in world.client.get(f"{NODES}/n1")["metadata"]["annotations"] if "lock" in k]


def test_nothing_is_known_to_have_failed_while_the_outcome_is_unknown(
    world: World, api: ApiServer, locks: LockWatch
) -> None:
    pod = world.add_pod("a", **THREE)
    world.filter(pod, ["n1"])
    api.faults.add(Fault(verbs=("create",), resource="pods", subresource="binding", drop=True, times=1))

    assert "not known yet" in world.bind(pod, "n1")

    assert locks.released() == []
    eventually(lambda: len(locks.released()) == 3, "the locks go when the outcome is known")
    eventually(lambda: world.usage("n1") == {}, "and so do the shares")


def test_late_node_needs_no_lock_and_no_list(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.add_node("n1", one_device())
    pod = world.add_pod("a", count=1, memory=1000)

    assert world.schedule(pod, ["n1"]) == "n1"

    assert SHARED not in world.client.get(f"{NODES}/n1")["metadata"]["annotations"]
    assert "hami.io/bind-phase" not in annotations(world, "a")


def test_our_own_agent_in_ordered_mode_is_given_the_shared_lock(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.add_node("n1", one_device(), identity="ordered")
    pod = world.add_pod("a", **{COUNT: 1})

    assert world.schedule(pod, ["n1"]) == "n1"

    assert world.client.get(f"{NODES}/n1")["metadata"]["annotations"][SHARED].endswith(",default,a")


def _lock_of(pod: Any) -> str:
    return f"2099-01-01T00:00:00Z,{pod['metadata']['namespace']},{pod['metadata']['name']}"
