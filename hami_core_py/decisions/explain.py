"""The numbers behind a refusal, rendered only when somebody asks."""

from dataclasses import dataclass

from hami_core_py.decisions.cutting import profiles_for
from hami_core_py.decisions.fit import Question, Standing, asked_core_units, asked_memory_mib
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.requests import Cells


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeExplanation:
    """Why one node fits or does not.

    :ivar score: 0–1, higher is better; 0 when it does not fit.
    :ivar placement: what the pod would get here; ``None`` when it does not fit.
    :ivar refusals: per device the rule that struck it and the numbers behind it, then those of the node as a whole.
    """

    node: str
    fits: bool
    score: float = 0.0
    placement: Placement | None = None
    refusals: tuple[Refusal, ...] = ()


def describe(reason: Reason, question: Question, standing: Standing) -> str:
    """One lower-case phrase with the numbers that led to the refusal."""
    device, used, request = standing.device, standing.before, question.request
    memory_mib = asked_memory_mib(device, request)
    asked_mib = device.memory_mib if memory_mib is None else memory_mib
    free_mib = max(0, device.memory_mib - used.memory_mib)
    asked_cores = asked_core_units(device, question)
    free_cores = max(0, device.core_units - used.core_units)
    sentences = {
        Reason.NUMA: f"not enough devices beside it on NUMA node {device.numa}",
        Reason.MODEL: f"model {device.model!r} is not selected",
        Reason.MODE: f"asked mode {request.mode}, offers {', '.join(device.modes) or 'none'}",
        Reason.NOT_SELECTED: "excluded by the pod's list of device ids",
        Reason.NO_FREE_SLOT: f"{used.slots} of {device.slots} slots in use",
        Reason.EXCLUSIVE: f"asked to be alone, {used.slots} of {device.slots} slots in use",
        Reason.NOT_IDLE: f"policy mutex wants an idle device, {max(used.slots, standing.group_used)} slots in use",
        Reason.GROUP: "the pod already has shares on another device, and this family keeps a pod on one",
        Reason.NOT_ENOUGH_MEMORY: f"asked {asked_mib} MiB, {free_mib} of {device.memory_mib} MiB free",
        Reason.NOT_ENOUGH_CORES: f"asked {asked_cores} core units, {free_cores} of {device.core_units} free",
        Reason.CORES_EXHAUSTED: f"all {device.core_units} core units are in use",
        Reason.UNHEALTHY: "the device is not healthy",
        Reason.CORDONED: "the device is cordoned by the operator",
        Reason.UNREADABLE_RECORD: "a pod's record on this device cannot be read, so its usage is not known",
        Reason.UNREADABLE_INVENTORY: "the node's inventory cannot be read; the device is known from before",
        Reason.AGENT_AWAY: "the node's agent is away",
        Reason.BACKEND_FAILED: f"backend {question.family.backend!r} failed",
    }
    if reason in (Reason.NO_PROFILE, Reason.NOT_ENOUGH_CELLS):
        return _profiles(question, standing)
    own = next((r.sentence for r in question.rules if r.reason is reason), "")
    return sentences.get(reason, own) if reason is not Reason.BACKEND_RULE else own


def _profiles(question: Question, standing: Standing) -> str:
    device, request = standing.device, question.request
    profiles = profiles_for(device, question.family, request)
    offered = ", ".join(p.name or f"{p.memory_mib} MiB" for p in profiles) or "none"
    if isinstance(request.memory, Cells):
        asked = f"{request.memory.value} cells"
    else:
        memory_mib = asked_memory_mib(device, request)
        asked = "the whole device" if memory_mib is None else f"{memory_mib} MiB"
    taken = (standing.now.occupied | device.blocked_cells).bit_count() or standing.now.cells
    return f"asked {asked}, profiles are {offered}, {taken} of {device.cells} cells taken"
