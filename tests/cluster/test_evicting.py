"""Eviction of pods whose limits do not hold: monitor, scheduler and tenant, each with its own rights at a real API server."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import ApiError, Forbidden, NotFound
from hami_core_py.cluster.events import Events, is_kept_from_others
from hami_core_py.codecs.native import RECORD, render_shares
from hami_core_py.commands.common import load
from hami_core_py.models.allocations import RecordedShare, Share
from hami_core_py.models.devices import DeviceId
from hami_core_py.models.samples import Sample
from hami_core_py.services.scheduling.assembly import Options, Scheduler
from hami_core_py.services.warnings import COMPONENT, REASON, Warnings
from tests.cluster.daemons import eventually
from tests.cluster.fakenodes import add_node, devices_of
from tests.cluster.hami import Hami
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods, pod
from tests.cluster.release_chart import NAMESPACE, NODES, Chart

AGENT = "hami-device-plugin-nvidia"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


class Scene:
    """The chart's accounts and policies, two nodes, and a scheduler of ours that evicts."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.chart, hami = plane, Chart(plane), Hami(plane)
        self.chart.clear()
        # Before the policies, which would not have us say what devices a node has.
        self.family = hami.family
        self.nodes = [add_node(plane.client, n, self.family, devices_of(self.family, n, 1)) for n in ("own", "other")]
        self.chart.install(
            "--set", "webhook.enabled=false,scheduler.extender.transport=mtls,settings.monitor.evict=true"
        )
        self.agents = [self._agent(node) for node in self.nodes]
        self.account = self.chart.as_account(NAMESPACE, "hami-scheduler")
        eventually("the policy in force", lambda: is_kept_from_others(plane.client, COMPONENT, REASON))
        self.scheduler = Scheduler(self.account, load(hami.config).ask, Options(evict=True)).start()
        assert self.scheduler.wait_until_ready(30)

    def _agent(self, node: str) -> Client:
        body = pod(f"agent-{node}", nodeName=node, serviceAccountName=AGENT)
        self.plane.client.create(join_path("api", "v1", "namespaces", NODES, "pods"), body)
        return self.chart.as_account(NODES, AGENT, f"agent-{node}")

    def run(self, pods: Pods, name: str) -> str:
        """A pod that holds a share on the first node, as if its kubelet had started it; its UID."""
        uid = str(pods.create(pod(name, schedulerName="nobody", labels={"app": name}))["metadata"]["uid"])
        held = RecordedShare(
            container="main",
            family=self.family.name,
            device=DeviceId(f"GPU-{self.nodes[0]}-0"),
            share=Share(memory_mib=1000, core_units=10, slots=1),
        )
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": name,
                "annotations": {RECORD: render_shares([held]), "hami.io/bind-node": self.nodes[0]},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.nodes[0]},
        }
        self.account.create(f"{pods.path(name)}/binding", binding)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": None}
        pods.client.patch(f"{pods.path(name)}/status", {"status": {"phase": "Running", "conditions": [ready]}})
        eventually("the record is read", lambda: self.scheduler.ledger.holding(uid))
        return uid

    def warn(self, agent: int, name: str, uid: str) -> int:
        """Have the monitor of a node warn about a pod; how many of its events were refused."""
        events = Events(self.agents[agent], COMPONENT, host=self.nodes[agent])
        warnings = Warnings(events)
        labels = {"namespace": "default", "pod": name}
        wrong = Sample(name="x_bytes", value=1.0, help="x", labels=labels, warning="holds more than its limit")
        warnings.tell("nvidia", [wrong], {("default", name): uid})
        warnings.stop()
        return events.dropped


@pytest.fixture(scope="module")
def scene(fake_plane: ControlPlane) -> Iterator[Scene]:
    """See ``Scene``."""
    made = Scene(fake_plane)
    yield made
    made.scheduler.stop()
    made.chart.uninstall()


@pytest.fixture
def pods(scene: Scene) -> Iterator[Pods]:
    """A tenant's pods; they go when the test ends."""
    found = Pods(scene.plane.client)
    yield found
    with suppress(NotFound):
        found.client.delete(f"{BUDGETS}/keep")
    found.clear()


def event(name: str, uid: str, node: str) -> dict[str, Any]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "forged-", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name, "uid": uid},
        "type": "Warning",
        "reason": REASON,
        "message": "of a tenant",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": COMPONENT, "host": node},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }


def is_ending(pods: Pods, name: str) -> bool:
    return pods.is_gone(name) or "deletionTimestamp" in pods.get(name)["metadata"]


def refused(words: str) -> Any:
    return pytest.raises(ApiError, match=words)


def test_pod_is_evicted_on_the_word_of_its_nodes_monitor_and_of_no_other(scene: Scene, pods: Pods) -> None:
    before = scene.scheduler.evictor.outcomes["evicted"] if scene.scheduler.evictor else 0
    bystander, greedy = scene.run(pods, "bystander"), scene.run(pods, "greedy")
    # A node that was taken over can say so of its own pods alone.
    assert scene.warn(1, "bystander", bystander) == 0
    assert scene.warn(0, "greedy", greedy) == 0
    eventually("the pod ends", lambda: is_ending(pods, "greedy"))
    assert not is_ending(pods, "bystander")
    eventually(
        "it is counted", lambda: scene.scheduler.evictor and scene.scheduler.evictor.outcomes["evicted"] > before
    )
    assert scene.scheduler.evictor is not None
    assert scene.scheduler.evictor.outcomes["evicted"] == before + 1


def test_disruption_budget_is_respected(scene: Scene, pods: Pods) -> None:
    uid = scene.run(pods, "greedy")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "greedy"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "keep"}, "spec": spec}
    pods.client.create(BUDGETS, budget)
    eventually("the budget counted", lambda: pods.client.get(f"{BUDGETS}/keep").get("status", {}).get("currentHealthy"))
    assert scene.scheduler.evictor is not None
    before = scene.scheduler.evictor.outcomes["held_back"]
    assert scene.warn(0, "greedy", uid) == 0
    eventually("held back", lambda: scene.scheduler.evictor and scene.scheduler.evictor.outcomes["held_back"] > before)
    assert not is_ending(pods, "greedy")
    pods.client.delete(f"{BUDGETS}/keep")
    eventually("the pod ends", lambda: is_ending(pods, "greedy"))


def test_nobody_but_a_nodes_own_agent_writes_such_an_event(scene: Scene, pods: Pods) -> None:
    uid = scene.run(pods, "p")
    own = scene.nodes[0]
    path = "/api/v1/namespaces/default/events"
    newer = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "forged-", "namespace": "default"},
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": uid},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z"),
        "type": "Warning",
        "action": "x",
        "reason": REASON,
        "reportingController": COMPONENT,
        "reportingInstance": COMPONENT,
    }
    kubelet = Client.from_kubeconfig(scene.plane.write_kubeconfig("kubelet-own", f"system:node:{own}", "system:nodes"))
    for writer in (scene.plane.client, scene.account, kubelet, scene.agents[1]):
        with refused("written by node agents of HAMi alone"):
            writer.create(path, event("p", uid, own))
    with refused("written by node agents of HAMi alone"):
        scene.plane.client.create("/apis/events.k8s.io/v1/namespaces/default/events", newer)
    # A harmless event that is made one later, and one that was, are no way around.
    harmless = pods.client.create(path, event("p", uid, own) | {"reason": "Harmless"})["metadata"]["name"]
    with refused("written by node agents of HAMi alone"):
        pods.client.patch(f"{path}/{harmless}", {"reason": REASON})
    assert scene.warn(1, "p", uid) == 0
    real = next(e for e in pods.client.list(path)[0] if e["reason"] == REASON and e["involvedObject"]["uid"] == uid)
    with refused("written by node agents of HAMi alone"):
        pods.client.patch(f"{path}/{real['metadata']['name']}", {"source": {"host": own}})
    with refused("written by node agents of HAMi alone"):
        scene.agents[0].patch(f"{path}/{real['metadata']['name']}", {"source": {"host": own}})
    assert not is_ending(pods, "p")


def test_monitor_has_no_right_to_evict_or_delete(scene: Scene, pods: Pods) -> None:
    uid = scene.run(pods, "p")
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    with pytest.raises(Forbidden):
        scene.agents[0].create(f"{pods.path('p')}/eviction", eviction)
    with pytest.raises(Forbidden):
        scene.agents[0].delete(pods.path("p"))
    assert not is_ending(pods, "p")
