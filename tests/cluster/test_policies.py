"""The chart's admission policies against forged writes: records come from us, inventories from a node's own agent."""

from collections.abc import Iterator
from typing import Any

import pytest

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import ApiError
from hami_core_py.codecs.native import RECORD, inventory_key
from tests.cluster.daemons import eventually
from tests.cluster.fakenodes import add_node
from tests.cluster.hami import Hami
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods, pod
from tests.cluster.release_chart import NAMESPACE, NODES, Chart

FORGED = {RECORD: '[{"container":"main","type":"NVIDIA","uuid":"GPU-0","memory":1,"cores":1,"slots":1}]'}
INVENTORY = inventory_key("nvidia")
AGENT = "hami-device-plugin-nvidia"


@pytest.fixture(scope="module")
def chart(fake_plane: ControlPlane) -> Iterator[Chart]:
    """The chart, installed; its pods have no node to run on, but its policies hold."""
    found = Chart(fake_plane)
    # Forged pods would be refused by the webhook first. Mutual TLS, so that there is a process that keeps certificates.
    found.install("--set", "webhook.enabled=false,scheduler.extender.transport=mtls")
    pods = Pods(fake_plane.client)
    eventually("the policies in force", lambda: _is_refused(lambda: pods.create(forged("trial"))))
    yield found
    found.uninstall()


@pytest.fixture(scope="module")
def nodes(fake_plane: ControlPlane) -> tuple[str, str]:
    """Two nodes."""
    family = Hami(fake_plane).family
    return add_node(fake_plane.client, "own", family), add_node(fake_plane.client, "other", family)


@pytest.fixture
def pods(chart: Chart) -> Iterator[Pods]:
    """A tenant's pods; they go when the test ends."""
    found = Pods(chart.plane.client)
    yield found
    found.clear()


@pytest.fixture(scope="module")
def agent(chart: Chart, nodes: tuple[str, str]) -> Client:
    """An agent's own rights, on the first node."""
    body = pod("agent", nodeName=nodes[0], serviceAccountName=AGENT)
    chart.plane.client.create(join_path("api", "v1", "namespaces", NODES, "pods"), body)
    return chart.as_account(NODES, AGENT, "agent")


@pytest.fixture(scope="module")
def scheduler(chart: Chart) -> Client:
    """The scheduler's own rights."""
    return chart.as_account(NAMESPACE, "hami-scheduler")


def forged(name: str) -> dict[str, Any]:
    return pod(name, annotations=FORGED)


def _is_refused(write: Any) -> bool:
    try:
        write()
    except ApiError as problem:
        return "are written by HAMi alone" in str(problem)
    return False


def refused(words: str) -> Any:
    return pytest.raises(ApiError, match=words)


def test_pod_cannot_be_created_with_a_record(pods: Pods) -> None:
    with refused("written by HAMi alone"):
        pods.create(forged("p"))


@pytest.mark.parametrize("below", ["", "/status"])
def test_record_cannot_be_written_to_a_pod_or_its_status(pods: Pods, below: str) -> None:
    pods.create(pod("p"))
    with refused("written by HAMi alone"):
        pods.client.patch(pods.path("p") + below, {"metadata": {"annotations": FORGED}})
    assert RECORD not in (pods.get("p")["metadata"].get("annotations") or {})


def test_record_cannot_come_with_a_binding(pods: Pods, nodes: tuple[str, str]) -> None:
    pods.create(pod("p", schedulerName="nobody"))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "annotations": FORGED},
        "target": {"apiVersion": "v1", "kind": "Node", "name": nodes[0]},
    }
    with refused("written by HAMi alone"):
        pods.client.create(pods.path("p") + "/binding", body)
    with refused("written by HAMi alone"):
        pods.client.create(join_path("api", "v1", "namespaces", "default", "bindings"), body)


def test_scheduler_binds_with_a_record_and_nobody_removes_it(
    pods: Pods, nodes: tuple[str, str], scheduler: Client
) -> None:
    made = pods.create(pod("p", schedulerName="nobody"))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "uid": made["metadata"]["uid"], "annotations": FORGED},
        "target": {"apiVersion": "v1", "kind": "Node", "name": nodes[0]},
    }
    scheduler.create(pods.path("p") + "/binding", body)
    assert RECORD in pods.get("p")["metadata"]["annotations"]
    with refused("written by HAMi alone"):
        pods.client.patch(pods.path("p"), {"metadata": {"annotations": {RECORD: None}}})
    # Everything else about it stays as free as ever.
    pods.client.patch(pods.path("p"), {"metadata": {"annotations": {"team": "a"}, "labels": {"team": "a"}}})
    pods.client.patch(pods.path("p") + "/status", {"status": {"message": "fine"}})


def test_inventory_cannot_be_written_by_a_stranger(chart: Chart, nodes: tuple[str, str]) -> None:
    path = join_path("api", "v1", "nodes", nodes[0])
    for below in ("", "/status"):
        with refused("its own HAMi agent alone"):
            chart.plane.client.patch(path + below, {"metadata": {"annotations": {INVENTORY: "{}"}}})
    chart.plane.client.patch(path, {"metadata": {"annotations": {"team": "a"}}})


def test_agent_writes_its_own_node_and_no_other(agent: Client, nodes: tuple[str, str]) -> None:
    body = {"metadata": {"annotations": {INVENTORY: "{}"}}}
    agent.patch(join_path("api", "v1", "nodes", nodes[0]), body)
    with refused("its own HAMi agent alone|its own node"):
        agent.patch(join_path("api", "v1", "nodes", nodes[1]), body)


def test_agent_publishes_totals_and_changes_nothing_else_of_its_node(agent: Client, nodes: tuple[str, str]) -> None:
    path = join_path("api", "v1", "nodes", nodes[0])
    totals = {"nvidia.com/gpumem": "1000"}
    agent.patch(f"{path}/status", {"status": {"capacity": totals, "allocatable": totals}})
    with refused("nothing else of it"):
        agent.patch(path, {"metadata": {"labels": {"team": "a"}}})
    with refused("nothing else of it"):
        agent.patch(path, {"spec": {"unschedulable": True}})


def test_kubelet_cannot_forge_a_record_of_its_pod(pods: Pods, chart: Chart, nodes: tuple[str, str]) -> None:
    pods.create(pod("p", nodeName=nodes[0]))
    kubeconfig = chart.plane.write_kubeconfig("kubelet-own", f"system:node:{nodes[0]}", "system:nodes")
    kubelet = Client.from_kubeconfig(kubeconfig)
    kubelet.patch(pods.path("p") + "/status", {"status": {"phase": "Running"}})
    with refused("written by HAMi alone"):
        kubelet.patch(pods.path("p") + "/status", {"metadata": {"annotations": FORGED}})


def test_each_account_can_do_what_it_needs_and_no_more(chart: Chart, agent: Client, scheduler: Client) -> None:
    certificates = chart.as_account(NAMESPACE, "hami-certificates")
    scheduler.list("/api/v1/nodes")
    scheduler.list("/api/v1/pods")
    agent.list("/api/v1/pods")
    forbidden = [
        (agent, "/api/v1/secrets"),
        (scheduler, "/api/v1/secrets"),
        (certificates, "/api/v1/secrets"),
        (certificates, "/api/v1/pods"),
        (certificates, "/api/v1/nodes"),
        (agent, "/apis/apps/v1/deployments"),
    ]
    for client, path in forbidden:
        with refused("forbidden"):
            client.list(path)
    for client in (agent, certificates):
        with refused("forbidden"):
            client.create("/api/v1/namespaces/default/pods", pod("p"))
