"""Preemption by the real kube-scheduler, with the extender's verb: evict where it helps, and only there."""

from collections.abc import Iterator
from contextlib import suppress

import pytest

from hami_core_py.cluster.errors import AlreadyExists
from tests.cluster.daemons import eventually
from tests.cluster.fakenodes import add_node, devices_of
from tests.cluster.hami import Hami
from tests.cluster.pods import Pods, gpu, pod, shares_of

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture(autouse=True)
def high(hami: Hami) -> Iterator[str]:
    """A priority class above the ordinary."""
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    with suppress(AlreadyExists):
        hami.plane.client.create(CLASSES, body)
    yield "high"
    hami.plane.client.delete(f"{CLASSES}/high")


def five_nodes(hami: Hami, pods: Pods, low: dict[str, str]) -> list[str]:
    """Five nodes of one card, each with a low pod; the pods' uids."""
    for number in range(5):
        name = f"n{number}"
        add_node(
            hami.plane.client,
            name,
            hami.family,
            devices_of(hami.family, name, 1, memory_mib=10000),
            capacity={"cpu": "4"},
        )
        pods.create(pod(f"low{number}", low, nodeSelector={"kubernetes.io/hostname": name}))
        pods.bound(f"low{number}")
    return [pods.get(f"low{number}")["metadata"]["uid"] for number in range(5)]


def alive(pods: Pods, uids: list[str]) -> int:
    return len({p["metadata"]["uid"] for p in pods.all() if not p["metadata"].get("deletionTimestamp")} & set(uids))


def attempts(hami: Hami) -> int:
    """Calls of preempt that the extender has answered."""
    counted = [
        line
        for line in hami.metrics().splitlines()
        if line.startswith("hami_extender_calls_total") and "preempt" in line
    ]
    return int(sum(float(line.rpartition(" ")[2]) for line in counted))


def test_pod_that_eviction_helps_is_helped_and_one_low_pod_pays(hami: Hami, pods: Pods) -> None:
    low = five_nodes(hami, pods, gpu(1, 8000))
    pods.create(pod("important", gpu(1, 8000), priorityClassName="high"))
    pods.bound("important")
    assert alive(pods, low) == 4
    assert shares_of(pods.get("important"))[0]["memory"] == 8000


def test_refused_pod_evicts_nobody_when_no_card_would_ever_hold_it(hami: Hami, pods: Pods) -> None:
    low = five_nodes(hami, pods, gpu(1, 8000, cpu="3"))
    # Short of cpu, so that kube-scheduler looks for victims; and of a kind of card that is nowhere.
    wants = {"nvidia.com/use-gputype": "H100"}
    before = attempts(hami)
    pods.create(pod("important", gpu(1, 8000, cpu="3"), priorityClassName="high", annotations=wants))
    pods.refused("important", "0/5 nodes are available")
    eventually("a preemption tried", lambda: attempts(hami) > before)
    pods.refused("important", "0/5 nodes are available")
    assert alive(pods, low) == 5


def test_memory_that_victims_free_only_in_pieces_evicts_nobody(hami: Hami, pods: Pods) -> None:
    name = "pieces"
    add_node(hami.plane.client, name, hami.family, devices_of(hami.family, name, 2, memory_mib=10000))
    for number in range(2):
        pods.create(pod(f"low{number}", gpu(1, 5000), annotations={"hami.io/gpu-scheduler-policy": "spread"}))
        pods.bound(f"low{number}")
    low = [pods.get(f"low{number}")["metadata"]["uid"] for number in range(2)]
    before = attempts(hami)
    # The node has 20,000 MiB in all, no card more than 10,000.
    pods.create(pod("important", gpu(1, 12000), priorityClassName="high"))
    eventually("a preemption tried", lambda: attempts(hami) > before)
    pods.refused("important", "0/1 nodes are available")
    assert alive(pods, low) == 2


def test_preemption_for_cpu_has_its_say(hami: Hami, pods: Pods) -> None:
    low = five_nodes(hami, pods, gpu(1, 1000, cpu="3"))
    pods.create(pod("important", gpu(1, 1000, cpu="3"), priorityClassName="high"))
    pods.bound("important")
    assert alive(pods, low) == 4


def test_plain_pod_preempts_shared_ones_as_ever(hami: Hami, pods: Pods) -> None:
    low = five_nodes(hami, pods, gpu(1, 1000, cpu="3"))
    pods.create(pod("important", {"cpu": "3"}, priorityClassName="high"))
    pods.bound("important")
    assert alive(pods, low) == 4


def test_pod_of_the_same_priority_waits(hami: Hami, pods: Pods) -> None:
    low = five_nodes(hami, pods, gpu(1, 8000))
    pods.create(pod("equal", gpu(1, 8000)))
    pods.refused("equal", "0/5 nodes are available")
    assert alive(pods, low) == 5


def test_share_of_the_evicted_goes_to_the_one_it_was_evicted_for(hami: Hami, pods: Pods) -> None:
    five_nodes(hami, pods, gpu(1, 8000))
    # A crowd of equals waits for the same room.
    pods.create_all([pod(f"waiting{number}", gpu(1, 8000)) for number in range(3)])
    for number in range(3):
        pods.refused(f"waiting{number}", "0/5 nodes are available")
    pods.create(pod("important", gpu(1, 8000), priorityClassName="high"))
    node = pods.bound("important")
    (card,) = {share["uuid"] for share in shares_of(pods.get("important"))}
    assert card == f"GPU-{node}-0"
