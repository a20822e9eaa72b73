"""Admission: a pod in, the verdict and the pod as it is then out.

One difference holds for every pod with a device: its containers that ask for nothing get the closing variables of the backends
it uses. v2.10 leaves them out, so they are taken off our answer where v2.10's lacks them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jsonpatch

from hami_core_py.decisions.admission import PodWrite, Rules, admit
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.requests import Policies
from tests.vectors.files import Vector
from tests.vectors.runner import NotCoveredError
from tests.vectors.world import ask_for, flags_of, resources_named

Json = dict[str, Any]

ADMITTED_BY_TABLE = frozenset({"NVIDIA", "MLU", "DCU", "Metax-GPU", "GCU", "kunlun", "XPU", "AMD", "Vastai", "Biren"})
"""Families that admission treats by their tables, and the one whose backend is installed."""


def webhook(vector: Vector) -> Json:
    given, ask, flags = vector.input, ask_for(vector), flags_of(vector)
    if given.get("quotas"):
        raise NotCoveredError("quota")
    pod = given["pod"]
    if strangers := sorted(set(resources_named(pod, ask)) - ADMITTED_BY_TABLE):
        raise NotCoveredError(f"admission of {strangers[0]}")
    if _asks_by_amounts_alone(pod, ask):
        raise NotCoveredError("claims by amounts without a count")
    if _closes_by_setting_of_another(vector):
        raise NotCoveredError("variables that another backend overwrites")
    rules = Rules(
        scheduler_name=flags["schedulerName"],
        force_overwrite_default_scheduler=flags["forceOverwriteDefaultScheduler"],
        policies=Policies(node=flags["nodeSchedulerPolicy"], device=(flags["gpuSchedulerPolicy"],)),
    )
    verdict = admit(PodWrite(pod=pod, namespace=given.get("namespace", "")), ask, rules)
    answer: Json = {"allowed": verdict.allowed, "code": verdict.code, "error": verdict.message}
    if verdict.allowed:
        expected = vector.expected.get("pod") or pod
        answer["pod"] = without_empty(_without_closing(verdict.pod, expected, ask))
    return answer


def expected(vector: Vector, answer: Mapping[str, Any]) -> Json:
    """What of v2.10's answer counts: operations may differ, and sentences may, as long as there is one.

    An answer without a pod has the patch that makes it of the one that came.
    """
    counting = {"allowed": answer["allowed"], "code": answer["code"], "error": answer.get("message", "")}
    if answer["allowed"]:
        pod = answer.get("pod") or jsonpatch.apply_patch(vector.input["pod"], answer.get("patch") or [])
        counting["pod"] = without_empty(pod)
    return counting


def _asks_by_amounts_alone(pod: Any, ask: Ask) -> bool:
    """A vendor without a default count whose backend takes such a pod over all the same, and then gives it nothing."""
    family = ask.families.get("AMD")
    if family is None:
        return False
    amounts = {family.resources.memory, family.resources.core}
    spec = (pod.get("spec") if isinstance(pod, Mapping) else None) or {}
    limits = [
        (c.get("resources") or {}).get("limits") or {}
        for key in ("initContainers", "containers")
        for c in spec.get(key) or ()
        if isinstance(c, Mapping)
    ]
    return any(amounts & set(named) and family.resources.count not in named for named in limits)


def _closes_by_setting_of_another(vector: Vector) -> bool:
    return any(model.get("overwriteEnv") for model in vector.config.get("vnpus", {}).get("configs", ()))


def _without_closing(pod: Any, expected: Mapping[str, Any], ask: Ask) -> Any:
    closing = {item for b in ask.backends.loaded for item in b.info.closing_env.items()}
    spec = dict(pod.get("spec") or {})
    for key in ("initContainers", "containers"):
        theirs = list(_variables(expected, key))
        ours = []
        for number, container in enumerate(spec.get(key) or ()):
            known = theirs[number] if number < len(theirs) else set()
            env = [v for v in container.get("env") or () if _pair(v) in known or _pair(v) not in closing]
            ours.append({**container, "env": env})
        if ours:
            spec[key] = ours
    return {**pod, "spec": spec}


def _variables(pod: Mapping[str, Any], key: str) -> Iterator[set[tuple[str, str]]]:
    for container in (pod.get("spec") or {}).get(key) or ():
        yield {_pair(variable) for variable in container.get("env") or ()}


def _pair(variable: Mapping[str, Any]) -> tuple[str, str]:
    return variable["name"], variable.get("value", "")


def without_empty(value: Any) -> Any:
    """The value without objects, lists and ``null`` that hold nothing."""
    if isinstance(value, Mapping):
        kept = {key: without_empty(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in ({}, [], None)}
    return [without_empty(inner) for inner in value] if isinstance(value, list) else value


KINDS = {"webhook": webhook}
EXPECTED = {"webhook": expected}
