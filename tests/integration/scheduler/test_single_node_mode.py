"""The answer of other HAMi versions: one node, and refusals in v2.10's words."""

from collections.abc import Callable

import pytest

from hami_core_py.testing import builders
from tests.integration.scheduler.world import World, one_device


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(mode="single-node")


def test_filter_answers_one_node_and_counts_the_pod_there(world: World) -> None:
    for name in ("n1", "n2"):
        world.add_node(name, (builders.device(f"{name}-0", memory_mib=6000),))
    first, second = (world.add_pod(name, count=1, memory=4000) for name in ("a", "b"))

    answers = [world.filter(pod, ["n1", "n2"])["NodeNames"] for pod in (first, second)]

    assert answers == [["n1"], ["n2"]]
    assert world.bind(first, "n1") == world.bind(second, "n2") == ""


def test_refusals_are_counted_in_words_of_v210(world: World) -> None:
    world.add_node("n1", (*one_device(memory_mib=2000), builders.device("npu-1", memory_mib=3000)))
    pod = world.add_pod("a", count=1, memory=4000)

    answer = world.filter(pod, ["n1", "nowhere"])

    assert answer["NodeNames"] is None
    assert answer["FailedNodes"] == {"n1": "2/2 CardInsufficientMemory", "nowhere": "node unregistered"}
