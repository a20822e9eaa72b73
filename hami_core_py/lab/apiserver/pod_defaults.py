"""What the API server fills in when a pod leaves it out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hami_core_py.lab.apiserver.quantities import canonical
from hami_core_py.lab.apiserver.status import Object, bad_request

CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_VOLUME_MODES = ("secret", "configMap", "downwardAPI", "projected")
_UNSCHEDULABLE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def containers_of(spec: Object) -> Iterator[tuple[str, Object]]:
    """Every container of a pod, with its field path."""
    for name in CONTAINER_LISTS:
        for i, container in enumerate(spec.get(name) or ()):
            yield f"spec.{name}[{i}]", container


def default_pod_spec(spec: Object) -> None:
    """Defaults of decoding, filled in before admission and once more after webhooks have changed the pod.

    Requests follow limits here, and quantities take their canonical form: `4000` is `4k` from now on.

    :raises StatusError: 400 for something that is no quantity.
    """
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    for path, container in containers_of(spec):
        if not isinstance(container, dict):
            raise bad_request(f"{path}: expected an object, got {container!r}")
        _default_container(container, path)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    if isinstance(overhead := spec.get("overhead"), dict):
        spec["overhead"] = canonical_quantities(overhead, "spec.overhead")


def admit_pod_spec(spec: Object) -> None:
    """What the server's own admission adds: service account and the tolerations that let a node be away for a while.

    The volume with the service account's token is left out: containers of the lab are local processes.
    """
    account = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    tolerations = spec.setdefault("tolerations", [])
    for key in _UNSCHEDULABLE_TAINTS:
        if not any(_tolerates_no_execute(one, key) for one in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def canonical_quantities(found: Object, path: str) -> Object:
    """Resource amounts in canonical form; numbers become text. :raises StatusError: 400 for what is no quantity."""
    result = {}
    for name, value in found.items():
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise bad_request(f"{path}[{name}]: expected a quantity, got {value!r}")
        try:
            result[name] = canonical(str(value))
        except ValueError as error:
            raise bad_request(f"unable to parse quantity's suffix: {path}[{name}] is {value!r}: {error}") from error
    return result


def _default_container(container: Object, path: str) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
    resources = container.get("resources") or {}
    if not isinstance(resources, dict):
        raise bad_request(f"{path}.resources: expected an object, got {resources!r}")
    container["resources"] = resources
    for name in ("limits", "requests"):
        if isinstance(resources.get(name), dict):
            resources[name] = canonical_quantities(resources[name], f"{path}.resources.{name}")
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        if isinstance(reference := (variable.get("valueFrom") or {}).get("fieldRef"), dict):
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if isinstance(probe := container.get(name), dict):
            for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1)):
                probe.setdefault(key, value)
            probe.setdefault("failureThreshold", 3)


def _default_volume(volume: Object) -> None:
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for name in _VOLUME_MODES:
        if isinstance(source := volume.get(name), dict):
            source.setdefault("defaultMode", 420)
    if isinstance(path := volume.get("hostPath"), dict):
        path.setdefault("type", "")


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition("@")
    if tag[1]:
        return "IfNotPresent"
    name = tag[0].partition(":")[2]
    return "Always" if name in ("", "latest") else "IfNotPresent"


def _tolerates_no_execute(toleration: Any, key: str) -> bool:
    return toleration.get("key") in (key, None, "") and toleration.get("effect") in ("NoExecute", None, "")
