"""Reading pod objects: the few questions that a kubelet asks about them."""

from __future__ import annotations

from collections.abc import Iterator

from hami_core_py.lab.kubelet.api import Json

TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})


def uid(pod: Json) -> str:
    """The pod's UID."""
    return str(pod["metadata"]["uid"])


def title(pod: Json) -> str:
    """``namespace/name``, for messages."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def path(pod: Json) -> str:
    """The pod's path in the API."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def is_terminal(pod: Json) -> bool:
    """Whether the pod has ended for good."""
    return pod.get("status", {}).get("phase") in TERMINAL_PHASES


def is_deleted(pod: Json) -> bool:
    """Whether somebody asked for the pod to go."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def init_containers(pod: Json) -> list[Json]:
    """Init containers in their order, sidecars among them."""
    return list(pod["spec"].get("initContainers") or ())


def app_containers(pod: Json) -> list[Json]:
    """The pod's ordinary containers."""
    return list(pod["spec"].get("containers") or ())


def containers(pod: Json) -> Iterator[Json]:
    """Init containers, then the others: the order of admission."""
    yield from init_containers(pod)
    yield from app_containers(pod)


def is_sidecar(container: Json) -> bool:
    """Whether an init container stays, instead of running to its end."""
    return container.get("restartPolicy") == "Always"


def limits(container: Json) -> dict[str, str]:
    """The container's limits, in the order of their names."""
    found = (container.get("resources") or {}).get("limits") or {}
    return {name: str(found[name]) for name in sorted(found)}


def requests(container: Json) -> dict[str, str]:
    """The container's requests; a limit stands for a request that is missing."""
    found = (container.get("resources") or {}).get("requests") or {}
    return limits(container) | {name: str(value) for name, value in found.items()}


def restarts(pod: Json, container: Json, exit_code: int, *, is_init: bool) -> bool:
    """Whether a container that ended is started again."""
    if is_init and is_sidecar(container):
        return True
    policy = pod["spec"].get("restartPolicy", "Always")
    if policy == "Never":
        return False
    if policy == "Always" and not is_init:
        return True
    return exit_code != 0


def grace_seconds(pod: Json) -> float:
    """How long the pod's processes may take to end."""
    for value in (pod["metadata"].get("deletionGracePeriodSeconds"), pod["spec"].get("terminationGracePeriodSeconds")):
        if value is not None:
            return float(value)
    return 30.0
