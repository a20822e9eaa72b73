"""How `kubectl get pods` sums up a pod: ready, status, restarts."""

from __future__ import annotations

from hami_core_py.lab.apiserver.durations import human_duration
from hami_core_py.lab.apiserver.meta import seconds_of
from hami_core_py.lab.apiserver.status import Object


def pod_ready(pod: Object, _now: float) -> str:
    """Ready containers of all, sidecars among them."""
    sidecars = _sidecars(pod)
    total = len(pod.get("spec", {}).get("containers") or ()) + len(sidecars)
    statuses = _statuses(pod, "containerStatuses")
    statuses += [one for one in _statuses(pod, "initContainerStatuses") if one.get("name") in sidecars]
    return f"{sum(bool(one.get('ready')) for one in statuses)}/{total}"


def pod_restarts(pod: Object, now: float) -> str:
    """Restarts of all containers, and how long ago the last one was."""
    statuses = _statuses(pod, "containerStatuses")
    statuses += [one for one in _statuses(pod, "initContainerStatuses") if one.get("name") in _sidecars(pod)]
    count = sum(int(one.get("restartCount", 0)) for one in statuses)
    ends = [((one.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for one in statuses]
    times = [seconds_of(end) for end in ends if end]
    return f"{count} ({human_duration(now - max(times))} ago)" if count and times else str(count)


def pod_status(pod: Object, _now: float) -> str:
    """The phase, or what stands in the way: a waiting or failed container, gates, an end in progress."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or "Unknown")
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    reason = _init_reason(pod) or _container_reason(pod, reason)
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return reason


def _init_reason(pod: Object) -> str:
    """What the init containers are at; empty once they are through."""
    total = len(pod.get("spec", {}).get("initContainers") or ())
    sidecars = _sidecars(pod)
    for i, one in enumerate(_statuses(pod, "initContainerStatuses")):
        state = one.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if one.get("name") in sidecars and one.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{i}/{total}"
    return ""


def _container_reason(pod: Object, reason: str) -> str:
    is_running = False
    for one in reversed(_statuses(pod, "containerStatuses")):
        state = one.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
        elif one.get("ready") and state.get("running") is not None:
            is_running = True
    if reason == "Completed" and is_running:
        ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in _conditions(pod))
        return "Running" if ready else "NotReady"
    return reason


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _sidecars(pod: Object) -> set[str]:
    init = pod.get("spec", {}).get("initContainers") or ()
    return {one["name"] for one in init if one.get("restartPolicy") == "Always"}


def _statuses(pod: Object, name: str) -> list[Object]:
    return list((pod.get("status") or {}).get(name) or ())


def _conditions(pod: Object) -> list[Object]:
    return (pod.get("status") or {}).get("conditions") or []
