"""From what is known of a pod's containers to the status that the API server is told."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from hami_core_py.lab.kubelet.api import Json
from hami_core_py.lab.kubelet.runtime import Instance
from hami_core_py.lab.kubelet.tracking import Tracked

ADDRESS = "127.0.0.1"


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes times."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(text: str) -> float:
    """The inverse of ``timestamp``."""
    return datetime.datetime.fromisoformat(text).timestamp()


def is_initialized(tracked: Sequence[Tracked]) -> bool:
    """Whether all init containers have done their part."""
    inits = [one for one in tracked if one.is_init]
    return all((one.is_running or one.has_ended) if one.is_sidecar else one.has_succeeded for one in inits)


def phase(tracked: Sequence[Tracked], restart_policy: str, *, is_final: bool) -> str:
    """The pod's phase; ``is_final`` when nothing of it will run again."""
    apps = [one for one in tracked if not one.is_init]
    if is_final:
        return "Succeeded" if all(one.has_succeeded for one in apps) else "Failed"
    if any(one.is_init and one.is_done and not one.has_succeeded for one in tracked):
        return "Failed"
    if not is_initialized(tracked) and not any(one.instance for one in apps):
        return "Pending"
    if any(one.instance is None for one in apps):
        return "Pending"
    if any(one.is_running for one in apps) or restart_policy == "Always" or not all(one.is_done for one in apps):
        return "Running"
    if any(one.is_running for one in tracked):
        return "Running"  # sidecars end after the others
    return "Succeeded" if all(one.has_succeeded for one in apps) else "Failed"


def container_status(one: Tracked, *, pod_has_inits: bool) -> Json:
    """A ContainerStatus."""
    state: Json
    last: Json = {}
    if one.is_running:
        assert one.instance is not None
        state = {"running": {"startedAt": timestamp(one.instance.started_at)}}
        last = _terminated(one.previous)
    elif one.waiting_reason or one.instance is None:
        idle = "PodInitializing" if pod_has_inits else "ContainerCreating"
        state = {"waiting": {"reason": one.waiting_reason or idle}}
        if one.waiting_message:
            state["waiting"]["message"] = one.waiting_message
        last = _terminated(one.instance)
    else:
        state, last = _terminated(one.instance), _terminated(one.previous)
    return {
        "name": one.name,
        "image": one.spec.get("image", ""),
        "imageID": "",
        "containerID": f"lab://{one.instance.id}" if one.instance else "",
        "restartCount": one.instance.restart_count if one.instance else 0,
        "ready": one.is_running or (one.is_init and not one.is_sidecar and one.has_succeeded),
        "started": one.is_running,
        "state": state,
        "lastState": last,
    }


def pod_status(
    tracked: Sequence[Tracked],
    *,
    phase: str,
    started_at: str,
    before: Sequence[Json],
    present: Sequence[Json],
    now: str,
) -> Json:
    """A PodStatus; ``before`` are the conditions last told, ``present`` all of the pod, of which others' stay."""
    inits = [one for one in tracked if one.is_init]
    apps = [one for one in tracked if not one.is_init]
    told = {one["type"]: one for one in before}
    merged = {one["type"]: one for one in present}
    for condition in _conditions(tracked, phase):
        known = told.get(condition["type"])
        is_same = known is not None and known.get("status") == condition["status"]
        condition["lastTransitionTime"] = known.get("lastTransitionTime", now) if known and is_same else now
        merged[condition["type"]] = condition
    return {
        "phase": phase,
        "startTime": started_at,
        "hostIP": ADDRESS,
        "hostIPs": [{"ip": ADDRESS}],
        "podIP": ADDRESS,
        "podIPs": [{"ip": ADDRESS}],
        "conditions": list(merged.values()),
        "initContainerStatuses": [container_status(one, pod_has_inits=True) for one in inits],
        "containerStatuses": [container_status(one, pod_has_inits=bool(inits)) for one in apps],
    }


def _conditions(tracked: Sequence[Tracked], phase: str) -> list[Json]:
    unready = [one.name for one in tracked if not one.is_running and (not one.is_init or one.is_sidecar)]
    incomplete = [
        one.name
        for one in tracked
        if one.is_init and not ((one.is_running or one.has_ended) if one.is_sidecar else one.has_succeeded)
    ]
    initialized: Json = {"type": "Initialized", "status": "True"}
    if incomplete:
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        initialized |= {"status": "False", "reason": "ContainersNotInitialized", "message": message}
    ready: Json = {"status": "True"}
    if phase in {"Succeeded", "Failed"}:
        ready = {"status": "False", "reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
    elif unready or incomplete:
        message = f"containers with unready status: [{' '.join(unready)}]"
        ready = {"status": "False", "reason": "ContainersNotReady", "message": message}
    return [
        {"type": "PodReadyToStartContainers", "status": "True"},
        initialized,
        {"type": "Ready"} | ready,
        {"type": "ContainersReady"} | ready,
        {"type": "PodScheduled", "status": "True"},
    ]


def _terminated(instance: Instance | None) -> Json:
    if instance is None or instance.finished_at is None:
        return {}
    reason = "Completed" if instance.exit_code == 0 else "Error"
    if instance.error:
        reason = "StartError" if instance.exit_code == 128 else "ContainerStatusUnknown"
    terminated: Json = {
        "exitCode": instance.exit_code,
        "reason": reason,
        "startedAt": timestamp(instance.started_at),
        "finishedAt": timestamp(instance.finished_at),
        "containerID": f"lab://{instance.id}",
    }
    if instance.signal:
        terminated["signal"] = instance.signal
    if instance.error:
        terminated["message"] = instance.error
    return {"terminated": terminated}
