"""Every check of a cluster finds its mistake, and a healthy cluster has none."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from hami_core_py.decisions.doctor.checks import CHECK_FAILED, Checks, Finding, Severity
from hami_core_py.decisions.doctor.cluster import CLUSTER_CHECKS
from hami_core_py.decisions.doctor.facts import BackendFacts, ClusterFacts, Lease, NodeInventory, Pod, Waiting
from hami_core_py.testing import builders
from tests.unit.doctor import healthy
from tests.unit.doctor.healthy import NOW_NS, SECOND_NS, cluster, config, extender, node, pod, webhook, workload

LATER = NOW_NS - 120 * SECOND_NS


def waits(reason: str, message: str) -> ClusterFacts:
    held = Waiting(container="main", reason=reason, message=message)
    return cluster(pods=(pod(view={"phase": "Pending"}, waiting=(held,), since_ns=LATER),))


def certificate(**fields: Any) -> ClusterFacts:
    (good,) = cluster().certificates
    return cluster(certificates=(replace(good, **fields),))


def extenders(**fields: Any) -> ClusterFacts:
    return cluster(configs=(config(extenders=(extender(**fields),)),))


def without(kind: str, **labels: str) -> ClusterFacts:
    return cluster(namespaces={**cluster().namespaces, kind: labels})


MISTAKES: Mapping[str, Callable[[], ClusterFacts]] = {
    "webhook-missing": lambda: cluster(webhooks=(), certificates=()),
    "webhook-fails-open": lambda: cluster(webhooks=(webhook(failure_policy="Ignore"),)),
    "webhook-unscoped": lambda: cluster(webhooks=(webhook(conditions=()),)),
    "webhook-misses-resource": lambda: cluster(webhooks=(webhook(conditions=("has(object.spec)",)),)),
    "webhook-covers-own-namespace": lambda: cluster(webhooks=(webhook(namespace_selector={}),)),
    "webhook-misses-ephemeral-containers": lambda: cluster(webhooks=(webhook(resources=frozenset({"pods"})),)),
    "webhook-slow": lambda: cluster(webhooks=(webhook(timeout_seconds=30),)),
    "webhook-not-reinvoked": lambda: cluster(webhooks=(webhook(reinvocation="Never"),)),
    "webhook-no-endpoints": lambda: cluster(services=(replace(cluster().services[0], ready=0),)),
    "webhook-certificate-untrusted": lambda: certificate(trusted=False),
    "certificate-expires": lambda: certificate(expires_ns=NOW_NS + 3 * healthy.DAY_NS),
    "records-unprotected": lambda: cluster(policies=healthy.policies(enforced=False)),
    "extender-missing": lambda: cluster(configs=()),
    "extender-ignorable": lambda: extenders(ignorable=True),
    "extender-verb-missing": lambda: extenders(verbs=frozenset({"filter", "prioritize", "bind"})),
    "extender-timeout": lambda: extenders(timeout_seconds=3.0),
    "extender-misses-resource": lambda: extenders(managed={builders.COUNT: False}),
    "extender-hides-count": lambda: extenders(managed=dict.fromkeys(healthy.RESOURCES, True)),
    "extender-wants-nodes": lambda: extenders(names_only=False),
    "scheduler-scans-all-nodes": lambda: cluster(
        configs=(config(percentage=100),),
        nodes=tuple(node(f"n{i}", view=builders.node(f"n{i}"), inventories=()) for i in range(501)),
    ),
    "scheduler-name-unknown": lambda: cluster(scheduler_names=frozenset({"hami"})),
    "scheduler-version": lambda: cluster(version="v1.30.4"),
    "settings-invalid": lambda: cluster(settings_problem="device-config.yaml: placment: expected a known section"),
    "workload-unavailable": lambda: cluster(workloads=tuple(replace(w, ready=0) for w in cluster().workloads)),
    "agent-selects-no-node": lambda: cluster(workloads=tuple(replace(w, wanted=0) for w in cluster().workloads)),
    "agent-missing": lambda: cluster(workloads=cluster().workloads[:2]),
    "namespace-forbids-agent": lambda: without("hami-nodes", **{"pod-security.kubernetes.io/enforce": "baseline"}),
    "namespace-unrestricted": lambda: without("hami-system"),
    "namespace-shared": lambda: cluster(
        workloads=(*cluster().workloads, workload("DaemonSet", "agent", "hami-system", "device-plugin"))
    ),
    "single-webhook": lambda: cluster(workloads=tuple(replace(w, wanted=1, ready=1) for w in cluster().workloads)),
    "kubernetes-too-old": lambda: cluster(version="v1.29.8"),
    "inventory-unreadable": lambda: cluster(
        nodes=(node(inventories=(NodeInventory(backend="acme", problem="expected JSON, got '{'"),)),)
    ),
    "agent-not-registered": lambda: cluster(
        nodes=(node(view=builders.node("n1", capacity={**healthy.TOTALS, builders.COUNT: "0"})),)
    ),
    "inventory-missing": lambda: cluster(nodes=(node(inventories=()),)),
    "agent-lease-stale": lambda: cluster(
        leases=(Lease(name="hami-agent-acme-n1", renewed_ns=NOW_NS - 600 * SECOND_NS, seconds=180),)
    ),
    "agent-lease-missing": lambda: cluster(leases=()),
    "identity-ordered": lambda: cluster(nodes=(node(identity="ordered"),)),
    "totals-missing": lambda: cluster(nodes=(node(view=builders.node("n1", capacity={builders.COUNT: "10"})),)),
    "device-unhealthy": lambda: cluster(
        nodes=(
            node(
                healthy=False,
                view=builders.node("n1", capacity={**dict.fromkeys(healthy.TOTALS, "0"), builders.COUNT: "10"}),
            ),
        )
    ),
    "foreign-scheduler": lambda: cluster(
        nodes=(
            node(
                view=builders.node(
                    "n1",
                    capacity=healthy.TOTALS,
                    annotations={"hami.io/node-handshake-acme": "Requesting_2027-01-15 08:00:00"},
                )
            ),
        )
    ),
    "record-unreadable": lambda: cluster(pods=(pod(record_problem="expected a list of shares, got 'x'"),)),
    "record-missing": lambda: cluster(pods=(pod(has_record=False),)),
    "pod-not-admitted": lambda: cluster(
        pods=(pod(view={"node": "", "phase": "Pending", "scheduler": "default-scheduler"}, has_record=False),)
    ),
    "device-over-committed": lambda: cluster(
        usages=(("n1", builders.device("n1-0"), builders.usage(slots=2, memory_mib=20000)),)
    ),
    "pod-held-at-start": lambda: waits("CreateContainerConfigError", "the card has no room until ml/old has ended"),
    "checkpoint-lost": lambda: waits(
        "CreateContainerConfigError", "no devices found allocated in local cache for pod uid, container main"
    ),
    "cdi-not-applied": lambda: waits("CreateContainerError", "unresolvable CDI devices hami.io/acme=ab12"),
    "pod-rejected-by-kubelet": lambda: cluster(
        pods=(pod(view={"phase": "Failed"}, failed="UnexpectedAdmissionError"),)
    ),
}


def codes(found: tuple[Finding, ...]) -> set[str]:
    return {one.code for one in found}


def test_healthy_cluster_has_no_finding() -> None:
    assert CLUSTER_CHECKS.diagnose(cluster()) == ()


def test_every_check_has_a_mistake_and_a_code_of_its_own() -> None:
    known = [check.code for check in CLUSTER_CHECKS]
    assert len(known) == len(set(known))
    assert set(known) == set(MISTAKES)


@pytest.mark.parametrize("code", MISTAKES)
def test_mistake_is_found(code: str) -> None:
    assert code in codes(CLUSTER_CHECKS.diagnose(MISTAKES[code]()))


ALONE = sorted(
    set(MISTAKES)
    # These come with others: a namespace of both kinds is unrestricted too, and so on.
    - {"webhook-missing", "namespace-shared", "agent-selects-no-node", "extender-missing", "scheduler-version"}
    - {"webhook-covers-own-namespace", "scheduler-name-unknown", "kubernetes-too-old", "workload-unavailable"}
)


@pytest.mark.parametrize("code", ALONE)
def test_mistake_is_called_by_no_other_name(code: str) -> None:
    assert codes(CLUSTER_CHECKS.diagnose(MISTAKES[code]())) == {code}


def test_finding_names_what_it_is_about_what_to_do_and_its_page() -> None:
    (found,) = CLUSTER_CHECKS.diagnose(MISTAKES["extender-verb-missing"]())
    assert found == Finding(
        code="extender-verb-missing",
        severity=Severity.PROBLEM,
        subject="ConfigMap hami-system/hami-scheduler, config.yaml",
        problem="preemptVerb is not set: kube-scheduler evicts pods whose end does not help",
        fix="set filterVerb: filter, prioritizeVerb: score, preemptVerb: preempt and bindVerb: bind",
    )
    assert found.page == "docs/how-to/doctor.md#extender-verb-missing"


def test_problems_come_before_advice() -> None:
    facts = cluster(webhooks=(webhook(timeout_seconds=30, reinvocation="Never", failure_policy="Ignore"),))
    assert [one.severity for one in CLUSTER_CHECKS.diagnose(facts)] == [
        Severity.PROBLEM,
        Severity.ADVICE,
        Severity.ADVICE,
    ]


def test_check_that_fails_stops_no_other() -> None:
    checks: Checks[ClusterFacts] = Checks()
    checks.check("broken", fix="")(lambda facts: [facts.nothing])  # type: ignore[attr-defined]
    found = Checks(checks, CLUSTER_CHECKS).diagnose(MISTAKES["extender-ignorable"]())
    assert [(one.code, one.severity) for one in found] == [
        ("extender-ignorable", Severity.PROBLEM),
        (CHECK_FAILED, Severity.ADVICE),
    ]
    assert found[1].subject == "check broken"


def test_what_could_not_be_looked_at_is_not_called_missing() -> None:
    facts = cluster(
        webhooks=(), certificates=(), services=(), configs=(), policies=(), leases=(), workloads=(), looked=frozenset()
    )
    assert codes(CLUSTER_CHECKS.diagnose(facts)) == set()


@pytest.mark.parametrize(
    ("services", "said"),
    [((), "does not exist"), ((replace(cluster().services[0], ports=frozenset({8443})),), "has no port 443")],
)
def test_webhook_without_its_service_or_port_is_found(services: Any, said: str) -> None:
    (found,) = CLUSTER_CHECKS.diagnose(cluster(services=services))
    assert found.code == "webhook-no-endpoints"
    assert said in found.problem


def test_expired_certificate_is_called_expired() -> None:
    (found,) = CLUSTER_CHECKS.diagnose(certificate(expires_ns=NOW_NS - 1))
    assert found.problem.endswith("has expired")


def test_rule_on_pods_alone_leaves_their_status_open() -> None:
    (found,) = {
        one.subject
        for one in CLUSTER_CHECKS.diagnose(
            cluster(policies=healthy.policies(resources=healthy.GUARDED - {"pods/status"}))
        )
    }
    assert found == "writes of pods/status"


def test_hanging_extender_may_not_hold_up_pods_for_long() -> None:
    (found,) = CLUSTER_CHECKS.diagnose(extenders(timeout_seconds=30.0))
    assert found.code == "extender-timeout"


def test_setting_that_concerns_every_pod_needs_no_conditions() -> None:
    backend = replace(cluster().backends[0], every_pod=True)
    assert CLUSTER_CHECKS.diagnose(cluster(backends=(backend,), webhooks=(webhook(conditions=()),))) == ()


def test_backend_without_an_agent_of_ours_needs_no_daemon_set() -> None:
    backend = BackendFacts(name="other", has_agent=False)
    facts = cluster(backends=(*cluster().backends, backend))
    assert CLUSTER_CHECKS.diagnose(facts) == ()


def test_agent_that_asks_all_backends_serves_each() -> None:
    agent = workload("DaemonSet", "agent", "hami-nodes", "device-plugin")
    assert CLUSTER_CHECKS.diagnose(cluster(workloads=(*cluster().workloads[:2], agent))) == ()


def test_stamp_of_long_ago_tells_of_no_scheduler() -> None:
    stamped = builders.node(
        "n1", capacity=healthy.TOTALS, annotations={"hami.io/node-handshake-acme": "Requesting_2026.12.01 08:00:00"}
    )
    assert CLUSTER_CHECKS.diagnose(cluster(nodes=(node(view=stamped),))) == ()


def test_node_with_an_older_plugin_needs_no_inventory_of_ours() -> None:
    view = builders.node("n1", capacity={builders.COUNT: "10"}, annotations={"hami.io/node-acme-register": "[]"})
    assert CLUSTER_CHECKS.diagnose(cluster(nodes=(node(view=view, inventories=()),))) == ()


def test_container_that_has_just_come_is_not_held() -> None:
    facts = waits("CreateContainerConfigError", "not yet")
    fresh = tuple(replace(one, since_ns=NOW_NS - SECOND_NS) for one in facts.pods)
    assert CLUSTER_CHECKS.diagnose(replace(facts, pods=fresh)) == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_needs_no_record(phase: str) -> None:
    ended: tuple[Pod, ...] = (pod(view={"phase": phase}, has_record=False, record_problem="x"),)
    assert CLUSTER_CHECKS.diagnose(cluster(pods=ended)) == ()
