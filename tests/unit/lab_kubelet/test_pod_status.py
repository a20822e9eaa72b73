"""Phases, container states and back-off."""

from __future__ import annotations

from typing import Any

import pytest

from hami_core_py.lab.kubelet.runtime import Instance
from hami_core_py.lab.kubelet.status import container_status, phase, pod_status, seconds, timestamp
from hami_core_py.lab.kubelet.tracking import Tracked

RUNNING = Instance("i", 0, 100.0)


def ended(code: int, *, restarts: int = 0) -> Instance:
    return Instance(f"e{code}", restarts, 100.0, finished_at=101.0, exit_code=code)


def one(instance: Instance | None = None, *, is_init: bool = False, is_due: bool = False, **spec: Any) -> Tracked:
    return Tracked({"name": "main"} | spec, is_init=is_init, instance=instance, is_due=is_due)


def sidecar(instance: Instance | None) -> Tracked:
    return one(instance, is_init=True, is_due=True, name="side", restartPolicy="Always")


@pytest.mark.parametrize(
    ("tracked", "policy", "expected"),
    [
        ([one(None, is_due=True)], "Always", "Pending"),
        ([one(RUNNING)], "Always", "Running"),
        ([one(RUNNING), one(None, is_due=True)], "Always", "Pending"),
        ([one(ended(1), is_due=True)], "Always", "Running"),
        ([one(ended(1), is_due=True)], "OnFailure", "Running"),
        ([one(ended(0)), one(RUNNING)], "Never", "Running"),
        ([one(ended(0)), one(ended(0))], "Never", "Succeeded"),
        ([one(ended(0)), one(ended(2))], "Never", "Failed"),
        ([one(RUNNING, is_init=True), one(None, is_due=True)], "Always", "Pending"),
        ([one(ended(3), is_init=True), one(None, is_due=True)], "Never", "Failed"),
        ([one(ended(3), is_init=True, is_due=True), one(None, is_due=True)], "Always", "Pending"),
        ([sidecar(None), one(None, is_due=True)], "Always", "Pending"),
        ([sidecar(RUNNING), one(RUNNING)], "Always", "Running"),
        ([sidecar(RUNNING), one(ended(0))], "Never", "Running"),
        ([sidecar(ended(143)), one(ended(0))], "Never", "Succeeded"),
    ],
)
def test_phase_follows_the_containers(tracked: list[Tracked], policy: str, expected: str) -> None:
    assert phase(tracked, policy, is_final=False) == expected


@pytest.mark.parametrize(("instance", "expected"), [(None, "Failed"), (ended(143), "Failed"), (ended(0), "Succeeded")])
def test_deleted_pod_has_a_final_phase(instance: Instance | None, expected: str) -> None:
    assert phase([one(instance)], "Always", is_final=True) == expected


def test_container_that_never_ran_waits_for_what_comes_first() -> None:
    assert container_status(one(), pod_has_inits=True)["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert container_status(one(), pod_has_inits=False)["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_waiting_container_shows_its_reason_and_its_last_end() -> None:
    crashed = one(ended(5, restarts=2), is_due=True)
    crashed.waiting_reason, crashed.waiting_message = "CrashLoopBackOff", "back-off 1s"
    shown = container_status(crashed, pod_has_inits=False)
    assert shown["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 1s"}}
    assert shown["lastState"]["terminated"]["exitCode"] == 5
    assert (shown["ready"], shown["started"], shown["restartCount"]) == (False, False, 2)


def test_condition_keeps_its_time_until_it_changes() -> None:
    def conditions(tracked: Tracked, before: list[dict[str, Any]], now: str) -> list[dict[str, Any]]:
        told = pod_status([tracked], phase="Running", started_at="s", before=before, present=(), now=now)
        return list(told["conditions"])

    first = conditions(one(RUNNING), [], "t1")
    again = conditions(one(RUNNING), first, "t2")
    later = conditions(one(ended(1), is_due=True), again, "t3")
    times = [{each["type"]: each["lastTransitionTime"] for each in told} for told in (first, again, later)]
    assert [each["Ready"] for each in times] == ["t1", "t1", "t3"]
    assert [each["Initialized"] for each in times] == ["t1", "t1", "t1"]


def test_conditions_of_others_stay() -> None:
    gate = {"type": "example.com/gate", "status": "True"}
    told = pod_status([one(RUNNING)], phase="Running", started_at="s", before=(), present=(gate,), now="t")
    assert gate in told["conditions"]


def test_times_survive_writing_and_reading() -> None:
    assert seconds(timestamp(1_700_000_000.0)) == 1_700_000_000.0


def test_back_off_starts_at_nothing_and_doubles_to_its_limit() -> None:
    tracked = one()
    delays = []
    for number in range(6):
        tracked.instance = Instance(f"run-{number}", number, 100.0, finished_at=101.0, exit_code=1)
        delays.append(tracked.delay_after_end(10.0, 60.0))
    assert delays == [0.0, 10.0, 20.0, 40.0, 60.0, 60.0]


def test_back_off_starts_over_after_a_long_run() -> None:
    tracked = one()
    for number in range(3):
        tracked.instance = Instance(f"run-{number}", number, 100.0, finished_at=101.0, exit_code=1)
        tracked.delay_after_end(10.0, 60.0)
    tracked.instance = Instance("long", 3, 100.0, finished_at=500.0, exit_code=1)
    assert tracked.delay_after_end(10.0, 60.0) == 0.0
