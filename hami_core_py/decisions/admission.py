"""Admission: one write of a pod → allowed or not, and the patch that makes it ours."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hami_core_py.decisions.bookkeeping import forged_keys
from hami_core_py.decisions.edits import Edits
from hami_core_py.decisions.pod_shape import misshapen
from hami_core_py.decisions.refusals import (
    Denial,
    impossible_amount,
    no_annotation_room,
    node_assigned,
    privileged,
    reserved_variables,
    wrong_count,
)
from hami_core_py.decisions.requests import families_named, read_pod_request
from hami_core_py.decisions.wishes import (
    Wishes,
    gather,
    gather_amounts,
    gather_closing_ephemeral,
    gather_consequences,
    gather_defaults,
    gather_mirrors,
)
from hami_core_py.errors import BackendError, BadInputError, RequestError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.devices import NO_FACTS
from hami_core_py.models.requests import PodRequest, Policies
from hami_core_py.models.views import PodView, pod_view

DEFAULT_SCHEDULER: Final = "default-scheduler"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What an administrator decides about admission.

    :ivar scheduler_name: written into pods that ask for a device; empty: pods keep theirs.
    :ivar force_overwrite_default_scheduler: whether pods of ``default-scheduler`` become ours.
    :ivar min_annotation_room_bytes: annotation room that a pod must leave for its record.
    :ivar policies: of pods that name none.
    :ivar trusted_users: names of users, such as our own service accounts, who may write bookkeeping annotations.
    """

    scheduler_name: str = "hami-scheduler"
    force_overwrite_default_scheduler: bool = True
    min_annotation_room_bytes: int = 16 * 1024
    policies: Policies = Policies()
    trusted_users: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class PodWrite:
    """A pod about to be written.

    :ivar pod: the object as it arrived (decoded JSON); ``before``: as it was, at an update.
    :ivar namespace: of the request; a pod at creation often names none.
    """

    pod: Mapping[str, Any]
    before: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""
    operation: str = "CREATE"
    subresource: str = ""
    user: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to a write.

    :ivar code: as in an HTTP answer. :ivar reason: a word for programs, empty when there is none.
    :ivar patch: operations of RFC 6902. :ivar pod: the object with the patch applied.
    :ivar problem: the bad input that the message tells of, part by part; ``None`` for other refusals.
    """

    allowed: bool
    pod: Mapping[str, Any]
    code: int = 200
    message: str = ""
    reason: str = ""
    warnings: tuple[str, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()
    problem: BadInputError | None = None


def admit(write: PodWrite, ask: Ask, rules: Rules) -> Verdict:
    """Decide about one write. Admitting the answer's pod again changes nothing more."""
    problem = misshapen(write.pod) or (misshapen(write.before) if write.before else None)
    if problem:
        return _deny(write, Denial(f"cannot read the pod: {problem}", 400, ""))
    if not (write.pod.get("spec") or {}).get("containers"):
        return _deny(write, Denial("pod has no containers"))
    pod, is_ours = _view(write.pod, write), _is_ours(write.pod, rules)
    try:
        if write.operation == "UPDATE":
            return _admit_update(write, pod, ask, rules, is_ours=is_ours)
        return _admit_new(write, pod, ask, rules) if is_ours else _leave(write, pod, ask, rules)
    except BackendError as failure:
        return _deny(write, Denial.of_amount(str(failure)))
    except RequestError as bad:
        return replace(_deny(write, Denial.of_amount(str(bad))), problem=bad)


def _admit_new(write: PodWrite, pod: PodView, ask: Ask, rules: Rules) -> Verdict:
    """A new pod that is ours, or becomes ours if it asks for a device."""
    if denial := impossible_amount(pod, ask):
        return _deny(write, denial)
    edits = Edits(write.pod)
    warnings = _apply(edits, write, ask, gather_mirrors, gather_defaults)
    wishes = gather(_view(edits.object, write), ask)
    if wishes.refused:
        return _deny(write, Denial.of_amount(wishes.refused))
    if denial := _forged(write, ask, rules, wishes.annotations()):
        return _deny(write, denial)
    wishes.apply(edits)
    _apply(edits, write, ask, gather_amounts, gather_mirrors)
    now = _view(edits.object, write)
    request = read_pod_request(now, ask, rules.policies)
    if request.families and (denial := _refused(write, pod, request, wishes, ask, rules)):
        return _deny(write, denial)
    gather_consequences(wishes, pod, request, ask)
    if wishes.refused:
        return _deny(write, Denial.of_amount(wishes.refused))
    wishes.apply(edits)
    if request.families:
        if rules.scheduler_name:
            edits.set(("spec", "schedulerName"), rules.scheduler_name)
        if denial := no_annotation_room(edits.object, rules.min_annotation_room_bytes):
            return _deny(write, denial)
    warnings |= wishes.warnings
    return Verdict(allowed=True, pod=edits.object, warnings=tuple(warnings), patch=tuple(edits.operations))


def _apply(edits: Edits, write: PodWrite, ask: Ask, *steps: Callable[[PodView, Ask], Wishes]) -> dict[str, None]:
    """Make what the tables want, step by step, each seeing what the one before it changed. :returns: their warnings."""
    warnings: dict[str, None] = {}
    for step in steps:
        wanted = step(_view(edits.object, write), ask)
        wanted.apply(edits)
        warnings |= wanted.warnings
    return warnings


def _refused(
    write: PodWrite, pod: PodView, request: PodRequest, wishes: Wishes, ask: Ask, rules: Rules
) -> Denial | None:
    """Why a pod that asks for a device may not come in."""
    return (
        privileged(write.pod)
        or (node_assigned(pod) if rules.scheduler_name else None)
        or wrong_count(pod, request, ask)
        or reserved_variables(write.pod, request, wishes, ask)
    )


def _admit_update(write: PodWrite, pod: PodView, ask: Ask, rules: Rules, *, is_ours: bool) -> Verdict:
    """An existing pod: its record stays as it is, and containers that come later see no device."""
    if denial := _forged(write, ask, rules, NO_FACTS):
        return _deny(write, denial)
    if write.subresource != "ephemeralcontainers" or not is_ours:
        return Verdict(allowed=True, pod=write.pod)
    request = read_pod_request(pod, ask, rules.policies)
    if not request.families:
        return Verdict(allowed=True, pod=write.pod)
    known = {c.get("name") for c in (write.before.get("spec") or {}).get("ephemeralContainers") or ()}
    containers = write.pod["spec"].get("ephemeralContainers") or ()
    new = [i for i, container in enumerate(containers) if container.get("name") not in known]
    if denial := privileged({"spec": {"containers": [containers[i] for i in new]}}):
        return _deny(write, denial)
    wishes, edits = Wishes(), Edits(write.pod)
    gather_closing_ephemeral(wishes, new, request, ask)
    wishes.apply(edits, "ephemeralContainers")
    return Verdict(allowed=True, pod=edits.object, patch=tuple(edits.operations))


def _leave(write: PodWrite, pod: PodView, ask: Ask, rules: Rules) -> Verdict:
    """A pod of another scheduler: not ours to change, but nobody else may write our records either."""
    if denial := _forged(write, ask, rules, NO_FACTS):
        return _deny(write, denial)
    named = [family.resources.count for container in pod.containers for family in families_named(container, ask)]
    warnings: tuple[str, ...] = ()
    if named:
        ours = rules.scheduler_name or DEFAULT_SCHEDULER
        warnings = (
            f"not managed by HAMi: the pod asks for {named[0]} but its scheduler is {pod.scheduler!r}; "
            f"set spec.schedulerName to {ours!r}",
        )
    message = "pod already has different scheduler assigned"
    return Verdict(allowed=True, pod=write.pod, message=message, warnings=warnings)


def _is_ours(pod: Mapping[str, Any], rules: Rules) -> bool:
    """Whether the pod's scheduler is ours, or one that we take pods over from."""
    name = (pod.get("spec") or {}).get("schedulerName") or ""
    if not name or name == rules.scheduler_name:
        return True
    return name == DEFAULT_SCHEDULER and rules.force_overwrite_default_scheduler


def _forged(write: PodWrite, ask: Ask, rules: Rules, granted: Mapping[str, str]) -> Denial | None:
    if write.user in rules.trusted_users:
        return None
    keys = forged_keys(_annotations(write.pod), _annotations(write.before), ask, granted)
    if not keys:
        return None
    what = "annotation" if len(keys) == 1 else "annotations"
    return Denial(
        f"{what} {', '.join(keys)}: only HAMi itself writes, changes or removes allocation records; leave out"
    )


def _annotations(pod: Mapping[str, Any]) -> Mapping[str, str]:
    return (pod.get("metadata") or {}).get("annotations") or {}


def _view(pod: Mapping[str, Any], write: PodWrite) -> PodView:
    metadata = pod.get("metadata") or {}
    return pod_view({**pod, "metadata": {**metadata, "namespace": write.namespace or metadata.get("namespace")}})


def _deny(write: PodWrite, denial: Denial) -> Verdict:
    return Verdict(allowed=False, pod=write.pod, code=denial.code, message=denial.message, reason=denial.reason)
