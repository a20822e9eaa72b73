"""A backend that did not load: its pods look as if they asked for nothing, and must not be bound as if they did."""

from collections.abc import Callable

from hami_core_py.testing import builders
from hami_core_py.testing.plugins import make_plugin
from tests.integration.scheduler.world import World, acme_ask, one_device


def half(make_world: Callable[..., World]) -> World:
    """A scheduler whose second backend speaks another contract."""
    broken = make_plugin("broken", [builders.family("Broken", backend="broken")], api=99)
    world = make_world(ask=acme_ask(make_plugin("acme", [builders.family()]), broken))
    world.add_node("n1", one_device())
    return world


def test_pod_of_the_missing_backend_is_refused_and_told_why(make_world: Callable[..., World]) -> None:
    world = half(make_world)
    pod = world.add_pod("p", **{"broken.example/npu": 1})
    answer = world.filter(pod, ["n1"])
    assert answer["NodeNames"] == []
    assert list(answer["FailedNodes"]) == ["n1"]
    assert "backend 'broken': did not load" in world.bind(pod, "n1")
    assert world.node_of("p") == ""


def test_pod_that_asks_the_missing_backend_and_another_is_refused(make_world: Callable[..., World]) -> None:
    world = half(make_world)
    pod = world.add_pod("p", count=1, memory=1000, **{"broken.example/npu": 1})
    assert world.filter(pod, ["n1"])["NodeNames"] == []
    assert "whether broken.example/npu is its" in world.bind(pod, "n1")


def test_pods_of_the_others_go_on(make_world: Callable[..., World]) -> None:
    world = half(make_world)
    assert world.schedule(world.add_pod("p", count=1, memory=1000), ["n1"]) == "n1"
