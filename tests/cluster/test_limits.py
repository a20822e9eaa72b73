"""Limits inside real containers: the scenario of the lab on a real kubelet and containerd, scraped by a real Prometheus."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hami_backend_nvidia import limiter

from hami_core_py.lab.scenario import load_scenario
from hami_core_py.lab.steps import Scenario
from tests.cluster.daemons import eventually
from tests.cluster.node import INSIDE
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods, container, gpu, pod
from tests.cluster.prometheus import Prometheus
from tests.cluster.release_chart import CHART, NODES, Chart
from tests.cluster.simulated import MonitorProcess
from tests.cluster.stage import Stage

EXAMPLES = Path(__file__).parents[2] / "examples"
ALERTS = CHART / "files" / "alerts.yaml"
POINTS = 18.0
"""How far a share of compute may be off where many other programs run; two equal shares would still be further off."""
AGENT = "hami-device-plugin-nvidia"
GRANTED = (f"{AGENT}", "hami-device-plugin", "hami-limit-events")
POWERFUL = {"capabilities": {"add": ["SYS_ADMIN"]}}
MIB = 2**20


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    """The lab's, with wide bounds."""
    found = load_scenario(EXAMPLES / "limits.yaml")
    steps = tuple(
        replace(s, value=s.value.model_copy(update={"tolerance": POINTS})) if s.kind == "measure" else s
        for s in found.steps
    )
    return replace(found, steps=steps)


@pytest.fixture(scope="module")
def stage(scenario: Scenario, directory: Path) -> Iterator[Stage]:
    """A node with a simulated card, and a scheduler that evicts."""
    if not os.environ.get(INSIDE):
        pytest.skip("a node needs root")
    assert limiter.library(), "there is no limiter; run `python hami-core-c/compile.py build/limiter`"
    settings = {**scenario.shape.settings, "monitor": {"intervalSeconds": 2, "evict": True}}
    settings["nvidia"] = {**settings["nvidia"], "priorityFeedback": True}
    shape = scenario.shape.model_copy(update={"settings": settings})
    with ControlPlane(directory / "plane") as plane, Stage(plane, shape, directory).set_up() as made:
        yield made


@pytest.fixture(scope="module")
def prometheus(stage: Stage, directory: Path) -> Iterator[Prometheus]:
    """It scrapes the node's monitor."""
    made = Prometheus(directory, stage.plane.release)
    made.start(stage.monitors["node-a"].port, rules=ALERTS)
    yield made
    made.daemon.stop()


def test_container_is_held_to_its_limits_and_prometheus_knows(
    stage: Stage, scenario: Scenario, prometheus: Prometheus
) -> None:
    Pods(stage.plane.client).clear()
    hungry, large = 'pod="hungry",namespace="default",container="main"', 'pod="large",namespace="default"'
    used, end = f"hami_container_memory_used_bytes{{{hungry}}}", first_deletion(scenario)
    play(stage, replace(scenario, steps=scenario.steps[:end]))
    # Prometheus may begin to scrape seconds after it is ready.
    eventually("what the pod uses has been scraped", lambda: prometheus.values(used) == [4000 * MIB])
    play(stage, replace(scenario, steps=scenario.steps[end:]))
    # Its series have ended with it, and their last values are not shown as if it still ran.
    eventually("no series of the pod that is gone", lambda: not prometheus.values(f"{{{hungry}}}"))
    for name in ("hami_container_memory_used_bytes", "hami_vgpu_memory_used_bytes"):
        assert prometheus.values(f"max_over_time({name}{{{hungry}}}[15m])") == [4000 * MIB]
    assert prometheus.values(f"max_over_time(hami_container_memory_over_limit_bytes{{{hungry}}}[15m])") == [0]
    now = {
        f"hami_container_memory_limit_bytes{{{large}}}": [8000 * MIB],
        f"hami_container_process_count{{{large}}}": [1],
        "up": [1],
    }
    for query, values in now.items():
        # One scrape may come too late on a busy machine, and then there are no values for a moment.
        eventually(f"{query} is {values}", lambda q=query, v=values: prometheus.values(q) == v)  # type: ignore[misc]
    assert prometheus.values("hami_device_foreign_process_count") == []
    reasons = {event["reason"] for event in stage.plane.client.list("/api/v1/events")[0]}
    assert reasons.isdisjoint({"SharedFileRemoved", "LimitNotHeld"})


def test_container_waits_while_a_more_important_one_computes(stage: Stage) -> None:
    Pods(stage.plane.client).clear()
    play(stage, load_scenario(EXAMPLES / "priority.yaml"))


def test_container_that_takes_the_limiter_away_is_seen_and_evicted(stage: Stage, prometheus: Prometheus) -> None:
    monitor = monitor_with_its_own_rights(stage)
    pods = Pods(stage.plane.client)
    pods.clear()
    pods.create(pod("bystander", gpu(1, 1000)))
    runs = "umount /etc/ld.so.preload && exec hami-sim-client take 2000 1 wait 600"
    escape = container("main", gpu(1, 1000), command=["sh", "-c", runs], securityContext=POWERFUL)
    uid = pods.create(pod("escape", containers=[escape], terminationGracePeriodSeconds=20))["metadata"]["uid"]
    pods.in_phase("escape")
    try:
        eventually("the pod is evicted", lambda: is_ending(pods, "escape", uid))
        eventually("an event of the eviction", lambda: event_of(stage, uid, "EvictedForLimit"))
        sources = [warning["source"] for warning in event_of(stage, uid, "LimitNotHeld")]
        assert sources[:1] == [{"component": "hami-monitor", "host": "node-a"}]
        over = 'max_over_time(hami_container_memory_over_limit_bytes{pod="escape"}[5m]) > 1e9'
        eventually("how far it went is known", lambda: prometheus.values(over))
        alert = 'max_over_time(ALERTS{alertname="HamiLimitNotHeld",namespace="default",pod="escape"}[5m])'
        eventually("the alert is on its way", lambda: prometheus.values(alert))
        assert "deletionTimestamp" not in pods.get("bystander")["metadata"]
    finally:
        monitor.daemon.stop()


def first_deletion(scenario: Scenario) -> int:
    """Position of the first step that deletes a pod."""
    return next(number for number, step in enumerate(scenario.steps) if step.kind == "delete")


def play(stage: Stage, scenario: Scenario) -> None:
    outcomes = stage.player().play(scenario)
    assert "\n".join(f"{one.where}: {one.text}: {one.problem}" for one in outcomes if not one.ok) == ""
    assert len(outcomes) == len(scenario.steps)


def monitor_with_its_own_rights(stage: Stage) -> MonitorProcess:
    """The node's monitor with the chart's account and policy instead of all rights."""
    chart = Chart(stage.plane)
    wanted = [one for one in yaml.safe_load_all(chart.manifests("--set", "settings.monitor.evict=true")) if one]
    found = [one for one in wanted if one["kind"] == "Namespace" or one["metadata"]["name"] in GRANTED]
    kinds = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    found = [one for one in found if one["kind"] in kinds or one["kind"].startswith("Validating")]
    stage.plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(found))
    Pods(stage.plane.client, NODES).create(pod("monitor", nodeName="node-a", serviceAccountName=AGENT))
    account = chart.as_account(NODES, AGENT, "monitor")
    account.close()
    kubeconfig = stage.plane.directory / f"{NODES}-{AGENT}-monitor.kubeconfig"
    stage.monitors["node-a"].daemon.stop()
    made = MonitorProcess(stage.hami, "node-a", stage.nodes["node-a"].state_dir, kubeconfig)
    made.port = stage.monitors["node-a"].port
    made.start(stage.drivers["node-a"])
    return made


def is_ending(pods: Pods, name: str, uid: str) -> bool:
    if pods.is_gone(name):
        return True
    metadata = pods.get(name)["metadata"]
    return metadata["uid"] != uid or "deletionTimestamp" in metadata


def event_of(stage: Stage, uid: str, reason: str) -> list[dict[str, Any]]:
    """Events of a reason about an object."""
    found = stage.plane.client.list("/api/v1/namespaces/default/events")[0]
    return [event for event in found if (event["involvedObject"].get("uid"), event["reason"]) == (uid, reason)]
