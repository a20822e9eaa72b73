"""A cluster so large that kube-scheduler shows only a sample of its nodes."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.cluster.daemons import eventually
from tests.cluster.fakenodes import add_node, add_nodes, devices_of, remove_nodes
from tests.cluster.hami import Hami
from tests.cluster.pods import Pods, gpu, pod, shares_of

NODES = 1000


@pytest.fixture(scope="module")
def crowd(hami: Hami) -> Iterator[Pods]:
    """Nodes of two cards of 10,000 MiB, and one node whose single card has 20,000: their totals are the same."""
    client = hami.plane.client
    # By default 420 nodes are shown, and a refused pod that is tried twice at once may find the one by luck.
    hami.plane.start_scheduler(hami.scheduler_config(percentage=10))
    add_nodes(client, hami.family, NODES - 1, devices=2)
    add_node(client, "the-one", hami.family, devices_of(hami.family, "the-one", 1, memory_mib=20000, slots=20))
    # Each change of a node wakes a refused pod, which then finds the one by trying often enough.
    eventually(
        "nodes that nobody changes any more", lambda: all(map(is_annotated, client.list("/api/v1/nodes")[0])), every=1
    )
    yield Pods(client)
    Pods(client).clear()
    remove_nodes(client)


def is_annotated(node: Mapping[str, Any]) -> bool:
    """Whether the controller manager has written what it writes to new nodes."""
    return "node.alpha.kubernetes.io/ttl" in (node["metadata"].get("annotations") or {})


def test_pod_that_fits_one_node_of_a_thousand_is_nominated_there(crowd: Pods, hami: Hami) -> None:
    # kube-scheduler adds up 20,000 on every node, so that all look alike to it.
    for number in range(3):
        crowd.create(pod(f"large{number}", gpu(1, 20000)))
        assert crowd.bound(f"large{number}", 60) == "the-one"
        (share,) = shares_of(crowd.get(f"large{number}"))
        assert share["memory"] == 20000
        crowd.delete(f"large{number}")
    assert nominations(hami) > 0


def test_pod_that_fits_no_node_of_a_thousand_is_told_so_in_few_words(crowd: Pods) -> None:
    crowd.create(pod("too-large", gpu(2, 20000)))
    text = crowd.refused("too-large", f"0/{NODES} nodes are available")
    assert len(text) < 2000
    crowd.delete("too-large")


def test_many_pods_find_their_nodes(crowd: Pods) -> None:
    crowd.create_all([pod(f"p{number:03}", gpu(1, 2500, 10)) for number in range(200)])
    eventually("all bound", lambda: all(p["spec"].get("nodeName") for p in crowd.all()), 240, every=0.5)
    used: dict[str, int] = {}
    for each in crowd.all():
        for share in shares_of(each):
            used[share["uuid"]] = used.get(share["uuid"], 0) + share["memory"]
    assert sum(used.values()) == 200 * 2500
    assert max(amount for card, amount in used.items() if "the-one" not in card) <= 10000


def nominations(hami: Hami) -> int:
    """How many the extender has made."""
    return hami.extender.log.read_text().count('"message": "nominated"')
