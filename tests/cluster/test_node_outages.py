"""Kubelet, containerd and our agent come and go; containers run on, and nobody gets what is another's."""

from collections.abc import Iterator

import pytest

from tests.cluster.daemons import eventually
from tests.cluster.hami import AgentProcess, Hami
from tests.cluster.node import Node
from tests.cluster.pods import CORES, COUNT, MEMORY, Pods, container, gpu, pod, shares_of
from tests.cluster.seen import agrees, env_of, telling


@pytest.fixture
def pods(system: Hami, agent: AgentProcess, node: Node) -> Iterator[Pods]:
    """The pods of a test on the real node; they go when it ends. Everything runs, also after a test that failed."""
    system.run_again()
    node.run_again()
    if agent.daemon.pid is None:
        agent.start()
    agent.wait_ready()
    wait_offered(node)
    found = Pods(node.plane.client)
    yield found
    found.clear()


def wait_offered(node: Node, amount: int = 64) -> None:
    eventually(f"{amount} of {COUNT} offered", lambda: node.allocatable(COUNT) == amount)


def run(pods: Pods, name: str, memory_mib: int, then: str = "exec sleep 600") -> str:
    """Run a pod and check its share; its first container's id."""
    pods.create(pod(name, containers=[container("main", gpu(1, memory_mib), command=telling(then))]))
    pods.in_phase(name)
    check(pods, name, memory_mib)
    return container_id(pods, name)


def check(pods: Pods, name: str, memory_mib: int) -> None:
    (share,) = shares_of(pods.get(name))
    env = env_of(pods, name)
    assert share["memory"] == memory_mib
    assert agrees(env, share), env


def restart_kubelet(node: Node, agent: AgentProcess) -> None:
    before = agent.registrations()
    node.restart_kubelet()
    agent.wait_registered(before)


def container_id(pods: Pods, name: str) -> str:
    (status,) = pods.get(name)["status"]["containerStatuses"]
    return str(status["containerID"])


def test_kubelet_restart_harms_nobody_and_the_agent_registers_again(
    pods: Pods, node: Node, agent: AgentProcess
) -> None:
    before = run(pods, "before", 3000)
    restart_kubelet(node, agent)
    wait_offered(node)
    run(pods, "after", 4000)
    assert container_id(pods, "before") == before
    check(pods, "before", 3000)


def test_totals_stay_through_a_kubelet_restart(pods: Pods, node: Node, agent: AgentProcess) -> None:
    wait_offered(node)
    restart_kubelet(node, agent)
    wait_offered(node)
    for resource, amount in ((MEMORY, 20000), (CORES, 200)):
        eventually(f"{resource} {amount}", lambda r=resource, a=amount: node.allocatable(r) == a)  # type: ignore[misc]


def test_totals_are_there_again_after_somebody_zeroed_them(pods: Pods, node: Node, agent: AgentProcess) -> None:
    path = f"/api/v1/nodes/{node.name}/status"
    node.plane.client.patch(path, {"status": {"capacity": {MEMORY: "0"}, "allocatable": {MEMORY: "0"}}})
    eventually("the total again", lambda: node.allocatable(MEMORY) == 20000)


def test_container_that_restarts_after_a_kubelet_restart_keeps_its_share(
    pods: Pods, node: Node, agent: AgentProcess
) -> None:
    before = run(pods, "p", 2300, "sleep 15; exit 1")
    restart_kubelet(node, agent)
    eventually("another container", lambda: container_id(pods, "p") != before)
    pods.in_phase("p")
    check(pods, "p", 2300)


def test_containerd_restart_harms_nobody(pods: Pods, node: Node, agent: AgentProcess) -> None:
    before = run(pods, "before", 3000)
    node.containerd.daemon.stop()
    node.containerd.start()
    eventually("a Ready node", node.is_ready)
    run(pods, "after", 4000)
    assert container_id(pods, "before") == before


def test_agent_restart_harms_nobody(pods: Pods, node: Node, agent: AgentProcess) -> None:
    before = run(pods, "before", 3000)
    agent.daemon.stop()
    eventually("no devices offered", lambda: node.allocatable(COUNT) == 0)
    agent.start()
    agent.wait_ready()
    wait_offered(node)
    run(pods, "after", 4000)
    assert container_id(pods, "before") == before


def test_no_pod_is_sent_to_a_node_whose_agent_is_away(pods: Pods, node: Node, agent: AgentProcess) -> None:
    agent.daemon.kill()
    try:
        eventually("no devices offered", lambda: node.allocatable(COUNT) == 0)
        pods.create(pod("p", containers=[container("main", gpu(1, 1100), command=telling())]))
        pods.refused("p", f"Insufficient {COUNT}")
        assert node.allocatable(MEMORY) == 20000
    finally:
        agent.start()
        agent.wait_ready()
    pods.in_phase("p")
    check(pods, "p", 1100)
    wait_offered(node)


def test_container_crashes_while_the_agent_is_away_and_runs_again_when_it_is_back(
    pods: Pods, node: Node, agent: AgentProcess
) -> None:
    before = run(pods, "p", 1900, "sleep 4; exit 1")
    agent.daemon.kill()
    try:
        eventually("a crash", lambda: pods.get("p")["status"]["containerStatuses"][0]["state"].get("waiting"))
    finally:
        agent.start()
        agent.wait_ready()
    eventually("another container", lambda: container_id(pods, "p") != before)
    check(pods, "p", 1900)
    wait_offered(node)


def test_agent_killed_between_bind_and_allocate_loses_nothing(pods: Pods, node: Node, agent: AgentProcess) -> None:
    wait_offered(node)
    node.kubelet.pause()
    try:
        pods.create(pod("unlucky", containers=[container("main", gpu(1, 9000), command=telling())]))
        pods.bound("unlucky")
        agent.daemon.kill()
        agent.start()
    finally:
        node.kubelet.resume()
    agent.wait_ready()
    # Whether the kubelet looks at the pod before the new agent has registered is a race that the kubelet decides.
    last = eventually("an end", lambda: pods.get("unlucky")["status"]["phase"] in ("Running", "Failed"))
    assert last
    if pods.get("unlucky")["status"]["phase"] == "Failed":
        pods.refused("unlucky", "UnexpectedAdmissionError")
        # Its room is free at once: nearly all of both cards can be had.
        wait_offered(node)
        pods.create(pod("replacement", containers=[container("main", gpu(2, 9000), command=telling())]))
        pods.in_phase("replacement")
    else:
        check(pods, "unlucky", 9000)
    wait_offered(node)


def test_agent_killed_between_allocate_and_start_loses_nothing(pods: Pods, node: Node, agent: AgentProcess) -> None:
    wait_offered(node)
    names = [f"p{number}" for number in range(10)]
    pods.create_all(
        [pod(n, containers=[container("main", gpu(1, 500 + i), command=telling())]) for i, n in enumerate(names)]
    )
    checkpoint = node.kubelet_dir / "device-plugins" / "kubelet_internal_checkpoint"
    uids = [pods.get(name)["metadata"]["uid"] for name in names]
    eventually("an Allocate", lambda: any(uid in checkpoint.read_text() for uid in uids), every=0.005)
    agent.daemon.kill()
    agent.start()
    agent.wait_ready()
    for number, name in enumerate(names):
        phase = eventually("an end", lambda n=name: settled(pods, n))  # type: ignore[misc]
        if phase == "Running":
            check(pods, name, 500 + number)
    wait_offered(node)


def settled(pods: Pods, name: str) -> str:
    phase = str(pods.get(name)["status"]["phase"])
    return phase if phase in ("Running", "Failed") else ""


def test_container_restarts_while_the_api_server_is_away(
    pods: Pods, node: Node, agent: AgentProcess, plane: object
) -> None:
    before = run(pods, "p", 2100, "sleep 8; exit 1")
    api_server = node.plane.daemons["kube-apiserver"]
    api_server.pause()
    try:
        eventually(
            "another container",
            lambda: running_ids(node) - {before.rpartition("/")[2]},
            60,
            every=0.5,
        )
    finally:
        api_server.resume()
    eventually("its status", lambda: container_id(pods, "p") != before)
    check(pods, "p", 2100)


def running_ids(node: Node) -> set[str]:
    return set(node.containerd.crictl("ps", "--quiet", "--no-trunc", "--name", "main").split())


def test_extender_restart_changes_nothing_for_the_node(pods: Pods, system: Hami, agent: AgentProcess) -> None:
    run(pods, "before", 9000)
    system.extender.kill()
    system.start_extender()
    pods.create(pod("big", gpu(2, 9000)))
    pods.refused("big", "0/1 nodes are available")
