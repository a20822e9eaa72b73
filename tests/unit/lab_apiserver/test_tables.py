from __future__ import annotations

from typing import Any

import pytest

from hami_core_py.lab.apiserver.durations import human_duration
from hami_core_py.lab.apiserver.resources import find
from hami_core_py.lab.apiserver.tables import table

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z
CREATED = "2027-01-15T07:55:00Z"


def row(resource: str, obj: dict[str, Any]) -> dict[str, Any]:
    """Cells by the name of their column."""
    obj = {**obj, "metadata": {"name": "x", "creationTimestamp": CREATED, **obj.get("metadata", {})}}
    shown = table(find(resource), [obj], NOW)
    return dict(zip([one["name"] for one in shown["columnDefinitions"]], shown["rows"][0]["cells"], strict=True))


def pod_row(status: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main"}], **spec}
    return row("pods", {"metadata": metadata or {}, "spec": spec, "status": status})


def ran(state: dict[str, Any], *, ready: bool = False, restarts: int = 0, **fields: Any) -> dict[str, Any]:
    return {"name": "main", "ready": ready, "restartCount": restarts, "state": state, **fields}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (303, "5m3s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 1200, "3h20m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (2 * 86400 + 3600, "2d1h"),
        (30 * 86400, "30d"),
        (800 * 86400, "2y70d"),
        (-5, "<invalid>"),
    ],
)
def test_ages_are_short(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_a_running_pod_is_summed_up() -> None:
    shown = pod_row({"phase": "Running", "containerStatuses": [ran({"running": {}}, ready=True)]}, nodeName="node-a")
    assert (shown["Ready"], shown["Status"], shown["Restarts"], shown["Age"], shown["Node"]) == (
        "1/1",
        "Running",
        "0",
        "5m",
        "node-a",
    )


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
        (
            {"phase": "Pending", "containerStatuses": [ran({"waiting": {"reason": "ContainerCreating"}})]},
            "ContainerCreating",
        ),
        ({"phase": "Running", "containerStatuses": [ran({"terminated": {"exitCode": 3}})]}, "ExitCode:3"),
        ({"phase": "Failed", "containerStatuses": [ran({"terminated": {"reason": "OOMKilled"}})]}, "OOMKilled"),
        ({"phase": "Succeeded", "containerStatuses": [ran({"terminated": {"reason": "Completed"}})]}, "Completed"),
    ],
)
def test_the_status_names_what_stands_in_the_way(status: dict[str, Any], text: str) -> None:
    assert pod_row(status)["Status"] == text


def test_init_containers_are_counted_until_they_are_through() -> None:
    init = [{"name": "a"}, {"name": "b"}]
    statuses = [{"name": "a", "state": {"terminated": {"exitCode": 0}}}, {"name": "b", "state": {"running": {}}}]
    assert pod_row({"phase": "Pending", "initContainerStatuses": statuses}, initContainers=init)["Status"] == "Init:1/2"
    statuses[1]["state"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
    assert (
        pod_row({"phase": "Pending", "initContainerStatuses": statuses}, initContainers=init)["Status"] == "Init:Error"
    )


def test_a_deleted_pod_is_terminating() -> None:
    shown = pod_row({"phase": "Running"}, {"deletionTimestamp": CREATED})
    assert shown["Status"] == "Terminating"


def test_the_last_restart_is_told_with_its_age() -> None:
    last = {"terminated": {"finishedAt": "2027-01-15T07:59:00Z"}}
    shown = pod_row({"containerStatuses": [ran({"running": {}}, restarts=2, lastState=last)]})
    assert shown["Restarts"] == "2 (60s ago)"


def test_a_node_is_summed_up() -> None:
    node: dict[str, Any] = {
        "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.37.2"},
        },
    }
    shown = row("nodes", node)
    assert (shown["Status"], shown["Roles"], shown["Version"], shown["Internal-IP"]) == (
        "Ready,SchedulingDisabled",
        "worker",
        "v1.37.2",
        "127.0.0.1",
    )


def test_an_event_is_summed_up() -> None:
    event = {
        "involvedObject": {"kind": "Pod", "name": "train"},
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "no room\n",
        "lastTimestamp": "2027-01-15T07:59:30Z",
        "source": {"component": "lab"},
    }
    shown = row("events", event)
    assert (shown["Last Seen"], shown["Object"], shown["Message"], shown["Source"]) == (
        "30s",
        "pod/train",
        "no room",
        "lab",
    )


def test_other_kinds_have_a_name_and_an_age() -> None:
    assert row("serviceaccounts", {}) == {"Name": "x", "Age": "5m"}


def test_rows_carry_as_much_of_the_object_as_asked() -> None:
    obj = {"metadata": {"name": "x", "creationTimestamp": CREATED}, "data": {"a": "1"}}
    rows = {
        include: table(find("configmaps"), [obj], NOW, include=include)["rows"][0]["object"]
        for include in ("None", "Metadata", "Object")
    }
    assert rows["None"] is None
    assert rows["Metadata"]["kind"] == "PartialObjectMetadata"
    assert rows["Object"] == obj
