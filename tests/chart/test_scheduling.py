"""How kube-scheduler and the extender are made to meet."""

from typing import Any

import pytest
import yaml

from hami_core_py.commands.common import load
from hami_core_py.decisions.totals import resources_counted
from tests.chart.rendering import NAMESPACE, SETS, container, objects, one, workload


def scheduler_config(*options: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(one(objects(*options), "ConfigMap", "hami-scheduler")["data"]["config.yaml"])
    return found


def extender(*options: str) -> dict[str, Any]:
    [found] = scheduler_config(*options)["extenders"]
    assert isinstance(found, dict)
    return found


def test_all_four_verbs_are_ours_and_names_suffice() -> None:
    found = extender()
    verbs = {key: found[key] for key in found if key.endswith("Verb")}
    assert verbs == {"filterVerb": "filter", "prioritizeVerb": "score", "preemptVerb": "preempt", "bindVerb": "bind"}
    assert found["nodeCacheCapable"] is True
    assert found["httpTimeout"] == "5s"


@pytest.mark.parametrize("name", SETS)
def test_extender_is_never_ignorable(name: str) -> None:
    for item in objects(*SETS[name]):
        if item["kind"] == "ConfigMap" and item["metadata"]["name"] == "hami-scheduler":
            [text] = item["data"].values()
            assert [e["ignorable"] for e in yaml.safe_load(text)["extenders"]] == [False]


def left(*options: str) -> set[str]:
    """What kube-scheduler adds up."""
    return {entry["name"] for entry in extender(*options)["managedResources"] if not entry["ignoredByScheduler"]}


def test_everything_that_our_agents_publish_totals_of_is_left_to_kube_scheduler() -> None:
    assert left() == set(resources_counted(load(None).ask.families["NVIDIA"].resources))


@pytest.mark.parametrize(
    "off", ["settings.nodes.publishTotals", "devicePlugin.enabled", "backends.nvidia.agent.enabled"]
)
def test_count_alone_is_left_where_nobody_publishes_totals(off: str) -> None:
    assert left("--set", f"{off}=false") == {"nvidia.com/gpu"}


def test_what_is_left_to_kube_scheduler_can_be_chosen() -> None:
    assert left("--set", "scheduler.leaveToKubeScheduler={count,memory,core}") == {
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/gpucores",
    }
    assert left("--set-json", "scheduler.leaveToKubeScheduler=[]") == set()


def test_sample_of_nodes_is_small_and_kube_schedulers_own_on_request() -> None:
    key = "scheduler.kubeScheduler.percentageOfNodesToScore"
    assert scheduler_config()["percentageOfNodesToScore"] == 2
    assert scheduler_config("--set", f"{key}=0")["percentageOfNodesToScore"] == 0
    assert "percentageOfNodesToScore" not in scheduler_config("--set", f"{key}=null")


def test_kube_scheduler_may_call_often_enough_to_tell_of_every_pod() -> None:
    assert scheduler_config()["clientConnection"] == {"qps": 100, "burst": 200}
    options = ("--set", "scheduler.kubeScheduler.clientConnection.qps=300")
    assert scheduler_config(*options)["clientConnection"] == {"qps": 300, "burst": 200}


def test_one_step_of_our_score_outweighs_kube_schedulers_own_when_ours_come_first() -> None:
    assert extender()["weight"] * 10 > 1400
    assert extender("--set", "settings.placement.scoresFirst=false")["weight"] == 1


def test_profile_has_the_name_that_the_webhook_writes() -> None:
    options = ("--set", "schedulerName=other")
    assert scheduler_config(*options)["profiles"] == [{"schedulerName": "other"}]
    config = one(objects(*options), "ConfigMap", "hami-device-config", NAMESPACE)["data"]["device-config.yaml"]
    assert yaml.safe_load(config)["webhook"]["schedulerName"] == "other"
    lease = one(objects(*options), "Role", "hami-scheduler-election")["rules"][1]
    assert lease["resourceNames"] == [scheduler_config(*options)["leaderElection"]["resourceName"]] == ["other"]


@pytest.mark.parametrize(
    ("version", "tag"), [("1.31.4", "v1.31.4"), ("v1.31.4+k3s1", "v1.31.4"), ("v1.30.9-gke.1046000", "v1.30.9")]
)
def test_kube_scheduler_follows_the_clusters_version(version: str, tag: str) -> None:
    of = workload(objects(version=version), "hami-scheduler")
    assert container(of, "kube-scheduler")["image"].endswith(f"/kube-scheduler:{tag}")


def test_loopback_is_plain_and_leaves_the_pod_for_nobody() -> None:
    of = workload(objects(), "hami-scheduler")
    assert {"--listen=127.0.0.1:9444", "--plain-http"} <= set(container(of, "extender")["args"])
    assert extender()["urlPrefix"] == "http://127.0.0.1:9444"
    assert of.ports == {"metrics": 9395, "kube-scheduler": 10259}


def test_mtls_shows_certificates_on_both_sides() -> None:
    found = extender(*SETS["mtls"])
    assert found["urlPrefix"] == "https://127.0.0.1:9444"
    tls = found["tlsConfig"]
    of = workload(objects(*SETS["mtls"]), "hami-scheduler")
    mounts = {m["name"]: m["mountPath"] for m in container(of, "kube-scheduler")["volumeMounts"]}
    files = {path.rpartition("/")[0] for key, path in tls.items() if key.endswith("File")}
    assert files == {mounts["extender-client-tls"]}
    certificates = container(workload(objects(*SETS["mtls"]), "hami-certificates"), "certificates")["args"]
    assert f"--server=hami-extender-tls={tls['serverName']},127.0.0.1" in certificates
    arguments = container(of, "extender")["args"]
    assert "--plain-http" not in arguments
    assert [a for a in arguments if a.startswith("--client-ca=")]


def test_existing_kube_scheduler_finds_the_extender_behind_a_service_that_demands_certificates() -> None:
    found = objects(*SETS["existing kube-scheduler"])
    [entry] = yaml.safe_load(one(found, "ConfigMap", "hami-scheduler")["data"]["extenders.yaml"])["extenders"]
    assert entry["urlPrefix"] == f"https://hami-extender.{NAMESPACE}.svc:9444"
    assert set(entry["tlsConfig"]) == {"serverName", "caFile", "certFile", "keyFile"}
    of = workload(found, "hami-scheduler")
    assert [c["name"] for c in of.containers] == ["extender"]
    assert of.owner["spec"]["strategy"]["type"] == "Recreate"
    certificates = container(workload(found, "hami-certificates"), "certificates")["args"]
    assert f"--server=hami-extender-tls=hami-extender.{NAMESPACE}.svc,127.0.0.1" in certificates


def test_schedulers_that_need_a_node_each_can_be_replaced_where_there_are_no_more_nodes() -> None:
    strategy = workload(objects("--set", "scheduler.replicas=2"), "hami-scheduler").owner["spec"]["strategy"]
    assert strategy["rollingUpdate"]["maxUnavailable"] == 1


def test_one_scheduler_by_default_and_two_webhooks() -> None:
    assert workload(objects(), "hami-scheduler").owner["spec"]["replicas"] == 1
    assert workload(objects(), "hami-webhook").owner["spec"]["replicas"] == 2


def test_budget_is_there_only_where_it_lets_somebody_go() -> None:
    budgets = {item["metadata"]["name"] for item in objects() if item["kind"] == "PodDisruptionBudget"}
    assert budgets == {"hami-webhook"}
    more = objects("--set", "scheduler.replicas=2", "--set", "webhook.replicas=1")
    assert {item["metadata"]["name"] for item in more if item["kind"] == "PodDisruptionBudget"} == {"hami-scheduler"}
