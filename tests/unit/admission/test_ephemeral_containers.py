"""Containers that come into a running pod see no device."""

from typing import Any

from hami_core_py.decisions.admission import PodWrite, Verdict, admit
from tests.unit.admission.acme import RULES, Json, ask_of, container, env_of, pod


def attach(*new: Json, known: tuple[Json, ...] = (), running: Json | None = None, **spec: Any) -> Verdict:
    train = running or container("train", count=1)
    before = pod(train, ephemeralContainers=list(known), nodeName="n1", **spec)
    after = pod(train, ephemeralContainers=[*known, *new], nodeName="n1", **spec)
    write = PodWrite(
        pod=after, before=before, namespace="default", operation="UPDATE", subresource="ephemeralcontainers"
    )
    return admit(write, ask_of(), RULES)


def test_debug_container_is_closed() -> None:
    verdict = attach(container("debug"), schedulerName="hami-scheduler")
    assert env_of(verdict, 0, "ephemeralContainers") == [("ACME_VISIBLE", "none")]
    assert [op["path"] for op in verdict.patch] == ["/spec/ephemeralContainers/0/env"]


def test_debug_container_that_is_there_already_is_left_as_it_is() -> None:
    verdict = attach(container("more"), known=(container("debug"),))
    assert [op["path"] for op in verdict.patch] == ["/spec/ephemeralContainers/1/env"]


def test_privileged_debug_container_is_refused() -> None:
    assert attach(container("debug", privileged=True)).message == "container debug is privileged"
    assert attach(container("more"), known=(container("debug", privileged=True),)).allowed


def test_pod_without_devices_may_be_debugged_in_any_way() -> None:
    verdict = attach(container("debug", privileged=True), running=container("web"))
    assert (verdict.allowed, verdict.patch) == (True, ())


def test_pod_of_a_foreign_scheduler_is_left_alone() -> None:
    verdict = attach(container("debug"), schedulerName="volcano")
    assert (verdict.allowed, verdict.patch) == (True, ())
