"""Whether a decoded object has the shape of a pod in the parts that we read."""

from collections.abc import Mapping
from typing import Any, Final

CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")


def misshapen(pod: Any) -> str | None:
    """The first place that has another shape than the API's, as one sentence; ``None`` when all can be read."""
    if not isinstance(pod, Mapping):
        return f"expected a pod object, got {kind_of(pod)}"
    if pod.get("kind", "Pod") != "Pod":
        return f"kind: expected Pod, got {pod.get('kind')!r}"
    return (
        _object(pod, "metadata", "metadata")
        or _metadata(pod.get("metadata") or {})
        or _object(pod, "spec", "spec")
        or _spec(pod.get("spec") or {})
        or _object(pod, "status", "status")
    )


def _metadata(metadata: Mapping[str, Any]) -> str | None:
    for field in ("name", "generateName", "namespace", "uid"):
        if not isinstance(metadata.get(field), str | None):
            return f"metadata.{field}: expected a text, got {kind_of(metadata[field])}"
    return _texts(metadata, "annotations", "metadata.annotations")


def _spec(spec: Mapping[str, Any]) -> str | None:
    for field in ("schedulerName", "nodeName", "runtimeClassName"):
        if not isinstance(spec.get(field), str | None):
            return f"spec.{field}: expected a text, got {kind_of(spec[field])}"
    priority = spec.get("priority")
    if not isinstance(priority, int | None) or isinstance(priority, bool):
        return f"spec.priority: expected a whole number, got {kind_of(priority)}"
    for field in CONTAINER_LISTS:
        containers = spec.get(field)
        if not isinstance(containers, list | None):
            return f"spec.{field}: expected a list, got {kind_of(containers)}"
        for i, container in enumerate(containers or ()):
            if problem := _container(container, f"spec.{field}[{i}]"):
                return problem
    return None


def _container(container: Any, where: str) -> str | None:
    if not isinstance(container, Mapping):
        return f"{where}: expected an object, got {kind_of(container)}"
    if not isinstance(container.get("name"), str | None):
        return f"{where}.name: expected a text, got {kind_of(container['name'])}"
    problem = _object(container, "securityContext", f"{where}.securityContext") or _object(
        container, "resources", f"{where}.resources"
    )
    if problem:
        return problem
    resources = container.get("resources") or {}
    for field in ("limits", "requests"):
        if problem := _amounts(resources, field, f"{where}.resources.{field}"):
            return problem
    return _env(container.get("env"), f"{where}.env")


def _env(env: Any, where: str) -> str | None:
    if not isinstance(env, list | None):
        return f"{where}: expected a list, got {kind_of(env)}"
    for i, variable in enumerate(env or ()):
        if not isinstance(variable, Mapping) or not isinstance(variable.get("name"), str):
            return f"{where}[{i}]: expected an object with a name, got {kind_of(variable)}"
        if not isinstance(variable.get("value"), str | None):
            return f"{where}[{i}].value: expected a text, got {kind_of(variable['value'])}"
    return None


def _object(parent: Mapping[str, Any], field: str, where: str) -> str | None:
    value = parent.get(field)
    return None if isinstance(value, Mapping | None) else f"{where}: expected an object, got {kind_of(value)}"


def _texts(parent: Mapping[str, Any], field: str, where: str) -> str | None:
    if problem := _object(parent, field, where):
        return problem
    wrong = next((key for key, text in (parent.get(field) or {}).items() if not isinstance(text, str)), None)
    return None if wrong is None else f"{where}: expected texts, got {kind_of(parent[field][wrong])} for {wrong!r}"


def _amounts(parent: Mapping[str, Any], field: str, where: str) -> str | None:
    """Quantities are texts, or numbers as people write them in manifests."""
    if problem := _object(parent, field, where):
        return problem
    for key, amount in (parent.get(field) or {}).items():
        if not isinstance(amount, str | int | float) or isinstance(amount, bool):
            return f"{where}: expected quantities, got {kind_of(amount)} for {key!r}"
    return None


def kind_of(value: Any) -> str:
    """What a decoded value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
