"""The common rules every device obeys, in their fixed order: the first that fails names the reason."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from hami_core_py.decisions.cutting import cut, profiles_for
from hami_core_py.decisions.nodes import Blocked, NodeState
from hami_core_py.models.answers import Candidate, Reason
from hami_core_py.models.backends import DeviceRule, NodeRule, Rule
from hami_core_py.models.devices import Device, Health, Share, Usage, no_facts
from hami_core_py.models.families import Family
from hami_core_py.models.requests import Cells, CorePercent, DeviceRequest, MemoryMib, MemoryPercent, Selection

TESTED_IN_ORDER = (
    Reason.AGENT_AWAY,
    Reason.UNREADABLE_INVENTORY,
    Reason.UNREADABLE_RECORD,
    Reason.UNHEALTHY,
    Reason.CORDONED,
    Reason.MODEL,
    Reason.MODE,
    Reason.NUMA,
    Reason.NOT_SELECTED,
    Reason.EXCLUSIVE,
    Reason.NO_FREE_SLOT,
    Reason.NOT_IDLE,
    Reason.GROUP,
    Reason.QUOTA,
    Reason.NOT_ENOUGH_MEMORY,
    Reason.NOT_ENOUGH_CORES,
    Reason.CORES_EXHAUSTED,
    Reason.NO_PROFILE,
    Reason.NOT_ENOUGH_CELLS,
    Reason.BACKEND_RULE,
    Reason.BACKEND_FAILED,
)
"""Reasons that strike one device, as the tests come; a device refused late came close to fitting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One container's request of one family, with all that does not depend on the device.

    :ivar rules: own rules of the backend and of policies. :ivar failed: the backend could not be asked.
    :ivar wants_idle: whether the ``mutex`` policy is on. :ivar combines: whether the backend chooses among seats itself.
    :ivar lasts: whether the container runs beside the app containers, as all but ordinary init containers do.
    :ivar remembered: answers of own rules, per distinct combination of what they read.
    """

    request: DeviceRequest
    family: Family
    container: str = ""
    rules: tuple[DeviceRule, ...] = ()
    node_rules: tuple[NodeRule, ...] = ()
    failed: bool = False
    wants_idle: bool = False
    combines: bool = False
    lasts: bool = True
    remembered: dict[Hashable, bool] = field(default_factory=dict, compare=False, hash=False)

    @property
    def key(self) -> Hashable:
        """Equal for questions that every device answers alike."""
        own: tuple[Rule, ...] = (*self.rules, *self.node_rules)
        rules = tuple((r.reason, r.sentence, r.reads, r.key) for r in own)
        return (self.request, self.wants_idle, self.failed, rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A device at one moment of a walk.

    :ivar before: usage before this container. :ivar now: with what this container has picked already.
    :ivar pod_shares: shares this pod has on the device; :ivar pod_elsewhere: whether it has any on another of the family.
    :ivar group_used: slots used in the device's mutex group.
    :ivar links: index of another device of the node → link score.
    """

    device: Device
    before: Usage
    now: Usage
    pod_shares: int = 0
    pod_elsewhere: bool = False
    group_used: int = 0
    links: Mapping[int, int] = field(default_factory=no_facts)


def names_ids(selection: Selection) -> bool:
    """Whether single devices are asked for or refused."""
    return selection.ids is not None or selection.not_ids is not None


def without_rules(question: Question) -> Question:
    """The same question put to the common rules only."""
    return replace(question, rules=(), node_rules=(), failed=False, remembered={})


def closed(state: NodeState, blocked: Blocked, device: Device) -> Reason | None:
    """Why a device gets no new shares from anyone; ``None`` when it is open."""
    if reason := state.closed.get(device.family):
        return reason
    if blocked.covers(device.id):
        return Reason.UNREADABLE_RECORD
    if device.health is not Health.HEALTHY:
        return Reason.UNHEALTHY
    return Reason.CORDONED if device.id in state.cordoned else None


def kind_refused(device: Device, question: Question) -> Reason | None:
    """Why this kind of device does not serve the request: model or mode."""
    if not model_selected(device.model, question.request.selection, device.family):
        return Reason.MODEL
    return None if mode_offered(device.modes, question.request.mode) else Reason.MODE


def fit(question: Question, standing: Standing) -> Share | Reason:
    """The share that an open and selected device of the right kind would give, or the first rule that strikes it."""
    device, placing = standing.device, question.family.placing
    before, now = standing.before, standing.now
    if placing.exclusive and before.slots > 0:
        return Reason.EXCLUSIVE
    if before.slots >= device.slots:
        return Reason.NO_FREE_SLOT
    if question.wants_idle and max(before.slots, standing.group_used) > 0:
        return Reason.NOT_IDLE
    if placing.one_device_per_pod and standing.pod_elsewhere:
        return Reason.GROUP
    share = _amounts(question, device, before, now)
    if isinstance(share, Reason):
        return share
    if now.slots >= device.slots:  # the last ones went to this very container
        return Reason.NO_FREE_SLOT
    return own_rules_refuse(question, standing, share) or share


def _amounts(question: Question, device: Device, before: Usage, now: Usage) -> Share | Reason:
    request, family = question.request, question.family
    accounts = family.placing.accounts
    profiles = profiles_for(device, family, request)
    needed_mib, core_units = amounts_needed(question, device)
    if "memory" in accounts and before.memory_mib + needed_mib > device.memory_mib:
        return Reason.NOT_ENOUGH_MEMORY
    if "core" in accounts:
        if before.core_units + core_units > device.core_units:
            return Reason.NOT_ENOUGH_CORES
        if family.placing.exclusive_core:
            if device.core_units == 100 == core_units and before.slots > 0:
                return Reason.EXCLUSIVE
            if core_units == 0 < device.core_units <= before.core_units:
                return Reason.CORES_EXHAUSTED
    if profiles:
        return cut(device, family, request, profiles, now, asked_memory_mib(device, request), core_units)
    if isinstance(request.memory, Cells):
        return Reason.NO_PROFILE
    return Share(memory_mib=needed_mib, core_units=core_units, labels=request.labels)


def amounts_needed(question: Question, device: Device) -> tuple[int, int]:
    """MiB and core units that must be free on the device before it comes to cutting."""
    memory_mib = asked_memory_mib(device, question.request)
    if memory_mib is None:
        # The whole of a device that is cut means its largest profile, which cutting looks for.
        is_cut = profiles_for(device, question.family, question.request)
        memory_mib = 0 if is_cut else device.memory_mib
    return memory_mib, asked_core_units(device, question)


def asked_memory_mib(device: Device, request: DeviceRequest) -> int | None:
    """Memory asked of this device in MiB; ``None``: all of it."""
    ask = request.memory
    if isinstance(ask, MemoryMib):
        return ask.value
    if isinstance(ask, MemoryPercent):
        return device.memory_mib * ask.value // 100
    return 0 if isinstance(ask, Cells) else None


def asked_core_units(device: Device, question: Question) -> int:
    """Core units asked of this device."""
    ask, clamp_at = question.request.core, question.family.core.clamp_at
    if isinstance(ask, CorePercent):
        return max(1, device.core_units * ask.value // 100)
    return ask.value if clamp_at is None else min(ask.value, clamp_at)


def model_selected(model: str, selection: Selection, family: str = "") -> bool:
    """Whether the author of the pod wants devices of this model.

    :param family: node plugins may write its name and a dash before the product name; a whole model matches without them.
    """
    wanted, unwanted = selection.models, selection.not_models
    if wanted is not None and not any(_model_matches(model, word, family) for word in wanted):
        return False
    return unwanted is None or not any(_model_matches(model, word, family) for word in unwanted)


def mode_offered(modes: tuple[str, ...], asked: str) -> bool:
    """Whether a device with these modes serves the asked one; several words may be asked, any of them does."""
    return not asked or not modes or any(mode in asked for mode in modes)


def id_selected(device_id: str, selection: Selection) -> bool:
    """Whether the author of the pod wants this very device."""
    if selection.ids is not None and device_id not in selection.ids:
        return False
    return selection.not_ids is None or device_id not in selection.not_ids


def _model_matches(model: str, word: str, family: str) -> bool:
    if word.startswith("="):
        return word[1:] in (model, model.removeprefix(f"{family}-"))
    return bool(word) and word.lower() in model.lower()


def candidate(standing: Standing, share: Share, number: int = 0) -> Candidate:
    """A seat as backends see it: without ids. :param number: of the device among the node's candidates."""
    device, used = standing.device, standing.now
    return Candidate(
        index=device.index,
        share=share,
        numa=device.numa,
        model=device.model,
        groups=device.groups,
        links=standing.links,
        facts=device.facts,
        labels=used.labels,
        slots=device.slots,
        memory_mib=device.memory_mib,
        core_units=device.core_units,
        used_slots=used.slots,
        used_memory_mib=used.memory_mib,
        used_core_units=used.core_units,
        occupied=used.occupied,
        pod_shares=standing.pod_shares,
        device=number,
    )


def own_rules_refuse(question: Question, standing: Standing, share: Share) -> Reason | None:
    """The reason of the first own rule that refuses; a rule that raises refuses everything of its family."""
    if question.failed:
        return Reason.BACKEND_FAILED
    if not question.rules:
        return None
    seat = candidate(standing, share)
    for number, rule in enumerate(question.rules):
        try:
            if _refuses(question, number, rule, seat):
                return rule.reason
        except Exception:  # noqa: BLE001 - a stranger's rule may raise anything; it must only strike its own devices
            return Reason.BACKEND_FAILED
    return None


def _refuses(question: Question, number: int, rule: DeviceRule, seat: Candidate) -> bool:
    try:
        key = (number, *(getattr(seat, name) for name in rule.reads))
        known = question.remembered.get(key)
    except TypeError:  # a field without a hash, such as facts: ask every time
        return bool(rule.refuses(seat))
    if known is None:
        known = question.remembered[key] = bool(rule.refuses(seat))
    return known
