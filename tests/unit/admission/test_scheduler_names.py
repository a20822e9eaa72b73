"""Which pods become ours, and what is said about the others."""

from dataclasses import replace

import pytest

from tests.unit.admission.acme import RULES, container, create, limits_of, pod

MESSAGE = "pod already has different scheduler assigned"
OURS = replace(RULES, scheduler_name="acme-sched")
POLITE = replace(OURS, force_overwrite_default_scheduler=False)


@pytest.mark.parametrize("name", ["", "default-scheduler", "acme-sched"])
def test_pod_of_the_default_scheduler_or_of_ours_becomes_ours(name: str) -> None:
    verdict = create(pod(container(count=1), schedulerName=name), rules=OURS)
    assert verdict.allowed
    assert verdict.pod["spec"]["schedulerName"] == "acme-sched"
    assert limits_of(verdict)["acme.example/npu-cores"] == "100"


def test_absent_scheduler_name_is_added() -> None:
    raw = pod(container(count=1))
    del raw["spec"]["schedulerName"]
    assert {"op": "add", "path": "/spec/schedulerName", "value": "acme-sched"} in create(raw, rules=OURS).patch


@pytest.mark.parametrize("rules", [OURS, POLITE])
def test_pod_of_a_foreign_scheduler_is_untouched_and_reported(rules: object) -> None:
    verdict = create(pod(container(count=1), schedulerName="volcano"), rules=rules)  # type: ignore[arg-type]
    assert (verdict.allowed, verdict.message, verdict.patch) == (True, MESSAGE, ())
    assert verdict.warnings == (
        "not managed by HAMi: the pod asks for acme.example/npu but its scheduler is 'volcano'; "
        "set spec.schedulerName to 'acme-sched'",
    )


def test_plain_pod_of_a_foreign_scheduler_is_not_warned_about() -> None:
    verdict = create(pod(container(), schedulerName="volcano"), rules=OURS)
    assert (verdict.allowed, verdict.message, verdict.warnings) == (True, MESSAGE, ())


def test_default_scheduler_is_left_alone_where_the_administrator_wants_it() -> None:
    verdict = create(pod(container(count=1)), rules=POLITE)
    assert (verdict.allowed, verdict.message, verdict.patch) == (True, MESSAGE, ())
    assert verdict.warnings


@pytest.mark.parametrize("name", ["", "acme-sched"])
def test_absent_and_own_name_are_ours_in_any_case(name: str) -> None:
    assert create(pod(container(count=1), schedulerName=name), rules=POLITE).patch


def test_our_name_may_be_the_default_scheduler_s() -> None:
    verdict = create(pod(container(count=1)), rules=replace(POLITE, scheduler_name="default-scheduler"))
    assert [op["path"] for op in verdict.patch] == ["/spec/containers/0/resources/limits/acme.example~1npu-cores"]


def test_without_a_name_of_ours_pods_keep_theirs_and_their_node() -> None:
    verdict = create(pod(container(count=1), nodeName="n7"), rules=replace(OURS, scheduler_name=""))
    assert verdict.allowed
    assert verdict.pod["spec"]["schedulerName"] == "default-scheduler"


def test_pod_that_asks_for_nothing_keeps_its_scheduler() -> None:
    verdict = create(pod(container(), nodeName="n7"), rules=OURS)
    assert (verdict.allowed, verdict.patch, verdict.message) == (True, (), "")
