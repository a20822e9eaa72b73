"""From HAMi v2.10 to ours in place: pods that run keep running and their shares count, and nothing is given twice."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hami_core_py.models.devices import Device, DeviceId
from tests.cluster import v210
from tests.cluster.daemons import eventually
from tests.cluster.hami import AgentProcess, Hami
from tests.cluster.node import INSIDE, Node
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import COUNT, Pod, Pods, container, gpu, pod, shares_of
from tests.cluster.seen import LIMIT, VISIBLE, agrees, env_of, telling

CARD_MIB = 10000
CARDS = tuple(
    Device(
        id=DeviceId(f"GPU-0000000{index}"),
        family="NVIDIA",
        index=index,
        model="NVIDIA L40S",
        slots=10,
        memory_mib=CARD_MIB,
        modes=("hami-core",),
    )
    for index in range(2)
)
FIRST, SECOND = (str(card.id) for card in CARDS)
HELD = {
    "one": [[(FIRST, 6000, 30)]],
    "pair": [[(FIRST, 1000, 10)], [(SECOND, 2000, 20)]],
    "both-cards": [[(FIRST, 1500, 0), (SECOND, 1500, 0)]],
}
"""Pods of v2.10, and what each container holds: 8500 MiB of the first card, 3500 of the second."""


@pytest.fixture(scope="module")
def node(plane: ControlPlane, directory: Path) -> Iterator[Node]:
    """A node on which nothing of ours has ever run."""
    if not os.environ.get(INSIDE):
        pytest.skip("a node needs root")
    with Node(plane, directory / "node") as made:
        yield made


@pytest.fixture(scope="module")
def pods(node: Node) -> Iterator[Pods]:
    """All pods; they go at the end."""
    found = Pods(node.plane.client)
    yield found
    found.clear()


@pytest.fixture(scope="module")
def before(node: Node, pods: Pods) -> Iterator[v210.Plugin]:
    """The node under v2.10, with pods that run."""
    plugin = v210.Plugin(pods, node.name, CARDS, node.kubelet_dir)
    try:
        plugin.start()
        eventually("the old plugin's devices", lambda: node.allocatable(COUNT) == 20)
        for name, held in HELD.items():
            # A restarted container of "one" runs again with what it was given at first.
            then = "exec sleep 600" if name != "one" else "until [ -e /end ]; do sleep 0.2; done"
            limits = [gpu(len(each), each[0][1], each[0][2]) for each in held]
            containers = [container(f"c{i}", one, command=telling(then)) for i, one in enumerate(limits)]
            v210.place(pods, pod(name, containers=containers), node.name, held)
            pods.in_phase(name)
        yield plugin
    finally:
        plugin.stop()


@pytest.fixture(scope="module")
def after(before: v210.Plugin, node: Node) -> Iterator[AgentProcess]:
    """Ours beside it, then in its place: as while helm replaces the release, both serve the kubelet for a moment."""
    hami = Hami(node.plane)
    devices = [
        {"id": str(c.id), "family": c.family, "model": c.model, "slots": c.slots, "memory_mib": c.memory_mib}
        for c in CARDS
    ]
    hami.write_devices({node.name: [{**one, "modes": ["hami-core"]} for one in devices]})
    agent = hami.agent(node.name, node.kubelet_dir, node.state_dir, node.cdi_dir)
    try:
        hami.start()
        node.plane.start_scheduler(hami.scheduler_config())
        agent.start()
        agent.wait_ready()
        before.stop()
        eventually("our devices", lambda: agent.is_ready() and node.allocatable(COUNT) == 20, daemon=agent.daemon)
        yield agent
    finally:
        agent.daemon.stop()
        hami.stop()


def kept(pods: Pods, body: Mapping[str, Any]) -> Pod:
    """A pod as a controller keeps it, once it runs: one that fails is made anew.

    A kubelet of 1.30 takes the end of the old plugin for that of the new one, and turns pods down until that has registered
    again.
    """
    name = body["metadata"]["name"]

    def probe() -> Pod | None:
        found = None if pods.is_gone(name) else pods.get(name)
        if found is None or found["status"]["phase"] == "Failed":
            pods.delete(name)
            pods.create(body)
            return None
        return found if found["status"]["phase"] == "Running" else None

    found = eventually(f"pod {name} running", probe)
    assert found is not None
    return found


def used(pods: Pods) -> dict[str, int]:
    """MiB of each card that pods hold, by whichever record they carry."""
    found: Counter[str] = Counter()
    for one in pods.all():
        ours = [(share["uuid"], share["memory"]) for share in shares_of(one)]
        for card, mib in ours or [(card, mib) for card, mib, _ in v210.shares_of(one)]:
            found[card] += mib
    return dict(found)


def test_pods_of_v210_run_on(after: AgentProcess, pods: Pods) -> None:
    for name, held in HELD.items():
        found = pods.get(name)
        assert found["status"]["phase"] == "Running"
        assert all(status["restartCount"] == 0 for status in found["status"]["containerStatuses"])
        assert v210.shares_of(found) == [share for one in held for share in one]


def test_their_shares_count_and_nothing_is_given_twice(after: AgentProcess, pods: Pods) -> None:
    for name in ("rest", "little"):
        pods.delete(name)
    # 1500 MiB of the first card and 6500 of the second are left.
    pods.create(pod("too-much", gpu(1, 6501)))
    pods.refused("too-much", "0/1 nodes are available")
    for name, mib, card in (("rest", 6500, SECOND), ("little", 1500, FIRST)):
        body = pod(name, containers=[container("main", gpu(1, mib), command=telling())])
        (share,) = shares_of(kept(pods, body))
        assert share["uuid"] == card
        assert agrees(env_of(pods, name), share)
    assert used(pods) == {FIRST: CARD_MIB, SECOND: CARD_MIB}
    pods.create(pod("one-more", gpu(1, 1)))
    pods.refused("one-more", "0/1 nodes are available")
    for name in ("too-much", "one-more"):
        pods.delete(name)


def test_container_of_v210_that_restarts_keeps_what_it_had(after: AgentProcess, node: Node, pods: Pods) -> None:
    node.plane.kubectl("exec", "one", "--", "touch", "/end")

    def restarts() -> int:
        return int(pods.get("one")["status"]["containerStatuses"][0]["restartCount"])

    eventually("a restart", lambda: restarts() >= 1 and pods.get("one")["status"]["phase"] == "Running")
    env = env_of(pods, "one", "c0")
    assert (env[VISIBLE], env[LIMIT]) == (FIRST, "6000m")


def test_end_of_a_pod_of_v210_frees_its_share(after: AgentProcess, pods: Pods) -> None:
    pods.delete("one")
    pods.create(pod("successor", gpu(1, 6000)))
    (share,) = shares_of(pods.in_phase("successor"))
    assert share["uuid"] == FIRST
