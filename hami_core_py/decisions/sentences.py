"""One fixed sentence per reason, for kube-scheduler.

It prints every distinct sentence into the pod's condition, so numbers and names stay out: those are in ``hami explain``, the
metrics and the pod's event.
"""

from hami_core_py.models.answers import Reason

SENTENCES: dict[Reason, str] = {
    Reason.UNHEALTHY: "its devices are not healthy",
    Reason.CORDONED: "its devices are cordoned",
    Reason.MODEL: "it has no device of a model that the pod selects",
    Reason.MODE: "it has no device in a mode that the pod asks for",
    Reason.NOT_SELECTED: "it has none of the devices that the pod selects",
    Reason.NO_FREE_SLOT: "its devices have no free slot",
    Reason.NOT_IDLE: "it has no idle device",
    Reason.NOT_ENOUGH_MEMORY: "its devices lack free memory",
    Reason.NOT_ENOUGH_CORES: "its devices lack free compute",
    Reason.CORES_EXHAUSTED: "its devices' compute is given away",
    Reason.EXCLUSIVE: "its devices are in exclusive use",
    Reason.NO_PROFILE: "no profile of its devices is large enough",
    Reason.NOT_ENOUGH_CELLS: "its devices lack room for the profile",
    Reason.NUMA: "no NUMA node of it has enough fitting devices",
    Reason.GROUP: "its fitting devices do not belong together as asked",
    Reason.TOO_FEW_DEVICES: "it has too few fitting devices",
    Reason.NO_COMBINATION: "no combination of its devices serves all containers",
    Reason.COUNT_NOT_ALLOWED: "the asked number of devices cannot be given",
    Reason.QUOTA: "the namespace's quota is used up",
    Reason.BACKEND_RULE: "a rule of the device's backend refuses it",
    Reason.BACKEND_FAILED: "the device's backend failed; see the scheduler's log",
    Reason.UNREADABLE_RECORD: "the record of a pod on its devices cannot be read",
    Reason.UNREADABLE_INVENTORY: "its inventory cannot be read",
    Reason.NO_DEVICES: "it has no such device",
    Reason.UNKNOWN_NODE: "it is not known to HAMi",
    Reason.AGENT_AWAY: "its device plugin is away",
    Reason.ALREADY_BOUND: "the pod is bound already",
    Reason.STALE: "it changed while the decision was made",
    Reason.LOCKED: "another pod is being started there",
}
"""Reason → what kube-scheduler says of a node: ``3 node(s) ...`` is its own part."""


def sentence(reason: Reason) -> str:
    """The fixed sentence of a reason."""
    return SENTENCES[reason]
