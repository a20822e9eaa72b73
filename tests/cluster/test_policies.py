"""The chart's admission policies against forged writes: records come from us, inventories from a node's own agent."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import AlreadyExists, ApiError
from hami_core_py.codecs.native import RECORD, inventory_key
from hami_core_py.codecs.records import CORE_KEYS
from tests.cluster.daemons import eventually
from tests.cluster.fakenodes import add_node
from tests.cluster.hami import Hami
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods, pod
from tests.cluster.release_chart import NAMESPACE, NODES, Chart

FORGED = {RECORD: '[{"container":"main","type":"NVIDIA","uuid":"GPU-0","memory":1,"cores":1,"slots":1}]'}
RECORD_KEYS = (
    *sorted(CORE_KEYS),
    "hami.io/vgpu-devices-allocated",
    "hami.io/vgpu-devices-to-allocate",
    "hami.io/vgpu-mig-allocations",
    # Of a backend that is not enabled: it would be believed once it is.
    "hami.io/acme-devices-allocated",
)
INVENTORY = inventory_key("nvidia")
NODE_KEYS = (INVENTORY, "hami.io/node-nvidia-register", "hami.io/node-handshake", "hami.io/mutex.lock")
AGENT = "hami-device-plugin-nvidia"
TOTALS = {"status": {"capacity": {"nvidia.com/gpumem": "1000"}, "allocatable": {"nvidia.com/gpumem": "1000"}}}


@pytest.fixture(scope="module")
def chart(fake_plane: ControlPlane) -> Chart:
    """The chart, installed; its pods have no node to run on, but its policies hold. It goes with its cluster."""
    found = Chart(fake_plane)
    # Forged pods would be refused by the webhook first. Mutual TLS, so that there is a process that keeps certificates.
    found.install("--set", "webhook.enabled=false,scheduler.extender.transport=mtls")
    pods = Pods(fake_plane.client)
    eventually("the policies in force", lambda: _is_refused(lambda: pods.create(forged("trial"))))
    return found


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
def agents(chart: Chart, nodes: tuple[str, str]) -> list[Client]:
    """The agents of both nodes, each with a token as its kubelet would ask for it: bound to its pod."""
    for node in nodes:
        body = pod(f"agent-{node}", nodeName=node, serviceAccountName=AGENT)
        chart.plane.client.create(join_path("api", "v1", "namespaces", NODES, "pods"), body)
    return [chart.as_account(NODES, AGENT, f"agent-{node}") for node in nodes]


@pytest.fixture(scope="module")
def agent(agents: list[Client]) -> Client:
    """The first node's agent."""
    return agents[0]


@pytest.fixture(scope="module")
def scheduler(chart: Chart) -> Client:
    """The scheduler's own rights."""
    return chart.as_account(NAMESPACE, "hami-scheduler")


def forged(name: str) -> dict[str, Any]:
    return pod(name, annotations=FORGED)


def binding(name: str, node: str, annotations: Mapping[str, str], **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": dict(annotations), **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def annotated(annotations: Mapping[str, str | None]) -> dict[str, Any]:
    return {"metadata": {"annotations": dict(annotations)}}


def _is_refused(write: Any) -> bool:
    try:
        write()
    except ApiError as problem:
        return "are written by HAMi alone" in str(problem)
    return False


def refused(words: str) -> Any:
    return pytest.raises(ApiError, match=words)


@pytest.mark.parametrize("key", RECORD_KEYS)
def test_key_of_a_record_is_written_by_nobody_else(pods: Pods, nodes: tuple[str, str], key: str) -> None:
    forgery = {key: "x"}
    with refused("written by HAMi alone"):
        pods.create(pod("forged", annotations=forgery))
    pods.create(pod("p", schedulerName="nobody"))
    for below in ("", "/status"):
        with refused("written by HAMi alone"):
            pods.client.patch(pods.path("p") + below, annotated(forgery))
    for path in (pods.path("p") + "/binding", join_path("api", "v1", "namespaces", "default", "bindings")):
        with refused("written by HAMi alone"):
            pods.client.create(path, binding("p", nodes[0], forgery))
    found = pods.get("p")
    assert key not in (found["metadata"].get("annotations") or {})
    assert "nodeName" not in found["spec"]


@pytest.mark.parametrize("below", ["ephemeralcontainers", "resize"])
def test_other_subresources_carry_no_record(pods: Pods, nodes: tuple[str, str], below: str) -> None:
    pods.create(pod("p", nodeName=nodes[0]))
    # Whether the API server drops the annotation or the policy refuses it is a matter of its version.
    with suppress(ApiError):
        pods.client.patch(f"{pods.path('p')}/{below}", annotated(FORGED))
    assert RECORD not in (pods.get("p")["metadata"].get("annotations") or {})


def test_controllers_pod_cannot_bring_a_record(chart: Chart, pods: Pods) -> None:
    path = join_path("apis", "batch", "v1", "namespaces", "default", "jobs")
    spec = {**pod("x")["spec"], "restartPolicy": "Never"}
    job = {"template": {"metadata": {"annotations": FORGED}, "spec": spec}}
    made = chart.plane.client.create(
        path, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": job}
    )
    events = join_path("api", "v1", "namespaces", "default", "events")
    about = {"fieldSelector": f"involvedObject.uid={made['metadata']['uid']}"}

    def told() -> bool:
        return any("written by HAMi alone" in event["message"] for event in chart.plane.client.list(events, about)[0])

    try:
        eventually("the controller told", told)
        assert pods.all() == []
    finally:
        chart.plane.client.delete(f"{path}/j", {"propagationPolicy": "Background"})


def test_scheduler_binds_with_a_record_and_nobody_changes_removes_or_replays_it(
    pods: Pods, nodes: tuple[str, str], scheduler: Client
) -> None:
    made = pods.create(pod("p", schedulerName="nobody"))
    body = binding("p", nodes[0], FORGED, uid=made["metadata"]["uid"])
    scheduler.create(pods.path("p") + "/binding", body)
    record = pods.get("p")["metadata"]["annotations"]
    assert RECORD in record
    for text in (None, record[RECORD].replace('"memory":1', '"memory":2')):
        with refused("written by HAMi alone"):
            pods.client.patch(pods.path("p"), annotated({RECORD: text}))
    with refused("written by HAMi alone"):
        pods.create(pod("copy", annotations=record))
    # Everything else about it stays as free as ever.
    pods.client.patch(pods.path("p"), {"metadata": {"annotations": {"team": "a"}, "labels": {"team": "a"}}})
    pods.client.patch(pods.path("p") + "/status", {"status": {"message": "fine"}})


@pytest.mark.parametrize("key", NODE_KEYS)
def test_what_a_node_has_is_not_written_by_a_stranger(chart: Chart, nodes: tuple[str, str], key: str) -> None:
    path = join_path("api", "v1", "nodes", nodes[0])
    kubeconfig = chart.plane.write_kubeconfig("kubelet-own", f"system:node:{nodes[0]}", "system:nodes")
    for stranger in (chart.plane.client, Client.from_kubeconfig(kubeconfig)):
        for below in ("", "/status"):
            with refused("its own HAMi agent alone"):
                stranger.patch(path + below, annotated({key: "{}"}))
        stranger.patch(path, annotated({"team": "a"}))
    with refused("its own HAMi agent alone"):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "invented", "annotations": {key: "{}"}}}
        chart.plane.client.create("/api/v1/nodes", body)


def test_each_agent_writes_its_own_node_and_not_the_others(agents: list[Client], nodes: tuple[str, str]) -> None:
    for agent, own, other in zip(agents, nodes, reversed(nodes), strict=True):
        mine, others = (join_path("api", "v1", "nodes", node) for node in (own, other))
        agent.patch(mine, annotated({INVENTORY: "{}"}))
        agent.patch(f"{mine}/status", TOTALS)
        for write in (annotated({INVENTORY: "[]"}), annotated({"team": "a"})):
            with refused("its own HAMi agent alone|its own node"):
                agent.patch(others, write)
        for write in (TOTALS, annotated({INVENTORY: "[]"})):
            with refused("its own HAMi agent alone|its own node"):
                agent.patch(f"{others}/status", write)


def test_agents_token_that_no_pod_holds_writes_no_node(chart: Chart, nodes: tuple[str, str]) -> None:
    loose = chart.as_account(NODES, AGENT)
    path = join_path("api", "v1", "nodes", nodes[0])
    with refused("its own HAMi agent alone|its own node"):
        loose.patch(path, annotated({INVENTORY: "{}"}))
    with refused("its own node"):
        loose.patch(f"{path}/status", TOTALS)


def test_agent_changes_records_of_its_own_nodes_pods_alone(
    agents: list[Client], pods: Pods, nodes: tuple[str, str]
) -> None:
    pods.create(pod("p", nodeName=nodes[0]))
    phase = annotated({"hami.io/bind-phase": "success"})
    agents[0].patch(pods.path("p"), phase)
    with refused("written by HAMi alone|its own node's pods"):
        agents[1].patch(pods.path("p"), annotated({"hami.io/bind-phase": "failed"}))
    with refused("nothing else of them"):
        agents[0].patch(pods.path("p"), {"metadata": {"labels": {"team": "a"}}})


def test_agent_renews_its_own_lease_alone(agents: list[Client], nodes: tuple[str, str]) -> None:
    path = join_path("apis", "coordination.k8s.io", "v1", "namespaces", NODES, "leases")

    def lease(node: str) -> dict[str, Any]:
        name = f"hami-agent-nvidia-{node}"
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}}

    for agent, own, other in zip(agents, nodes, reversed(nodes), strict=True):
        with refused("its own node's Lease"):
            agent.create(path, lease(other))
        with suppress(AlreadyExists):
            agent.create(path, lease(own))


def test_agent_publishes_totals_and_changes_nothing_else_of_its_node(agent: Client, nodes: tuple[str, str]) -> None:
    path = join_path("api", "v1", "nodes", nodes[0])
    agent.patch(f"{path}/status", TOTALS)
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
