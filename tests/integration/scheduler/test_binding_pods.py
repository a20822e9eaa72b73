"""From filter to a bound pod, over real HTTP on both sides."""

from hami_core_py.codecs.native import BIND_NODE, BIND_PHASE
from hami_core_py.models.devices import IDLE
from hami_core_py.testing import builders
from tests.integration.scheduler.world import World, eventually, one_device


def test_pod_is_bound_and_recorded_in_one_write(world: World) -> None:
    world.add_node("n1", one_device())
    pod = world.add_pod("a", count=1, memory=4000, cores=30)
    before = int(pod["metadata"]["resourceVersion"])

    assert world.schedule(pod, ["n1"]) == "n1"

    bound = world.pod("a")
    (share,) = world.record("a")
    assert (share.device, share.share.memory_mib, share.share.core_units) == ("npu-0", 4000, 30)
    assert bound["spec"]["nodeName"] == bound["metadata"]["annotations"][BIND_NODE] == "n1"
    assert bound["metadata"]["annotations"][BIND_PHASE] == "success"
    assert int(bound["metadata"]["resourceVersion"]) > before


def test_of_two_pods_that_race_for_the_last_slice_one_is_bound(world: World) -> None:
    world.add_node("n1", one_device(memory_mib=6000))
    first, second = (world.add_pod(name, count=1, memory=4000) for name in ("a", "b"))
    # Both are told that the node fits before either is bound, as two schedulers would be.
    assert world.filter(first, ["n1", "x"])["NodeNames"] == ["n1"]
    world.scheduler.reservations.failed(first["metadata"]["uid"])
    assert world.filter(second, ["n1", "x"])["NodeNames"] == ["n1"]
    world.scheduler.reservations.failed(second["metadata"]["uid"])

    assert world.bind(first, "n1") == ""
    error = world.bind(second, "n1")

    assert "asked 4000 MiB" in error or "not-enough-memory" in error
    assert (world.node_of("a"), world.node_of("b")) == ("n1", "")
    assert world.usage("n1")["npu-0"].memory_mib == 4000
    assert world.filter(second, ["n1"])["NodeNames"] == []
    world.add_node("n2", one_device(memory_mib=6000))
    assert world.schedule(second, ["n1", "n2"]) == "n2"


def test_assumed_pod_is_counted_before_it_is_bound(world: World) -> None:
    world.add_node("n1", one_device(memory_mib=6000))
    first, second = (world.add_pod(name, count=1, memory=4000) for name in ("a", "b"))

    world.filter(first, ["n1"])

    assert world.filter(second, ["n1"])["FailedNodes"] == {"n1": "its devices lack free memory"}
    assert world.filter(first, ["n1"])["NodeNames"] == ["n1"], "its own reservation does not count against it"


def test_scores_are_ranks_and_the_best_node_is_assumed(world: World) -> None:
    for name in ("n1", "n2", "n3"):
        world.add_node(name, (builders.device(f"{name}-0", memory_mib=8000),))
    busy = world.add_pod("busy", count=1, memory=2000, cores=10)
    assert world.bind(busy, "n2") == ""
    eventually(lambda: world.usage("n2"), "the bound pod is counted")
    pod = world.add_pod("a", count=1, memory=1000, cores=10)

    fitting = world.filter(pod, ["n1", "n2", "n3"])["NodeNames"]

    assert world.score(pod, fitting) == {"n2": 10, "n1": 9, "n3": 8}
    assert world.usage("n2")["n2-0"].memory_mib == 3000


def test_score_passes_over_a_node_that_was_filled_after_filter_had_named_it(world: World) -> None:
    for name in ("n1", "n2", "n3"):
        world.add_node(name, (builders.device(f"{name}-0", memory_mib=8000),))
    pod = world.add_pod("a", count=1, memory=5000)
    fitting = world.filter(pod, ["n1", "n2", "n3"])["NodeNames"]
    assert fitting == ["n1", "n2", "n3"]
    assert world.bind(world.add_pod("quicker", count=1, memory=5000), "n1") == ""

    assert world.score(pod, fitting) == {"n1": 0, "n2": 10, "n3": 9}
    assert world.usage("n2")["n2-0"].memory_mib == 5000


def test_score_of_other_nodes_than_filter_named_is_decided_anew(world: World) -> None:
    for name in ("n1", "n2", "n3"):
        world.add_node(name, (builders.device(f"{name}-0", memory_mib=8000),))
    pod = world.add_pod("a", count=1, memory=5000)
    world.filter(pod, ["n1", "n2"])

    assert world.score(pod, ["n2", "n3"]) == {"n2": 10, "n3": 9}


def test_deleted_pod_gives_back_what_it_was_assumed_to_hold(world: World) -> None:
    world.add_node("n1", one_device(memory_mib=6000))
    pod = world.add_pod("a", count=1, memory=4000)
    world.filter(pod, ["n1"])
    assert world.usage("n1")["npu-0"].memory_mib == 4000

    world.client.delete("/api/v1/namespaces/default/pods/a")

    eventually(lambda: world.usage("n1").get("npu-0", IDLE) == IDLE, "nothing is counted any more")


def test_record_of_an_earlier_life_counts_after_a_restart(make_world, api) -> None:  # type: ignore[no-untyped-def]
    world = make_world()
    world.add_node("n1", one_device(memory_mib=6000))
    assert world.schedule(world.add_pod("a", count=1, memory=4000), ["n1"]) == "n1"

    again = make_world()

    assert again.usage("n1")["npu-0"].memory_mib == 4000
    pod = again.add_pod("b", count=1, memory=4000)
    assert again.filter(pod, ["n1"])["NodeNames"] == []


def test_pod_that_asks_for_nothing_of_ours_is_bound_without_a_record(world: World) -> None:
    world.add_node("n1", one_device())
    pod = world.add_pod("plain", cpu="1")

    assert world.bind(pod, "n1") == ""

    assert world.node_of("plain") == "n1"
    assert not world.pod("plain")["metadata"].get("annotations")
