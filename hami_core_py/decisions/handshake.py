"""Whether a node under a v2.10 plugin is alive, and whether its inventory must be read again."""

from dataclasses import dataclass
from typing import Final

from hami_core_py.codecs.handshake import is_request, requested_at
from hami_core_py.codecs.quantities import whole_number
from hami_core_py.codecs.times import SECOND_NS
from hami_core_py.errors import BadInputError
from hami_core_py.models.families import AnnotatedDevices, Family, Handshake, Role, WhileCapacity
from hami_core_py.models.views import NodeView

PATIENCE_NS: Final = 60 * SECOND_NS
"""How long a plugin may leave a request unanswered before allocatable devices must vouch for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """What a look at one family of a node tells.

    :ivar alive: whether its devices may serve new shares. :ivar reread: whether its inventory may have changed.
    :ivar asks: whether the scheduler should write a request into the handshake annotation now.
    """

    alive: bool
    reread: bool
    asks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was last seen of one family on a node.

    :ivar allocatable: of its count resource. :ivar register: the register annotation's text; ``None``: it was absent.
    """

    allocatable: int = 0
    register: str | None = None


NEVER_SEEN: Final = Seen()


def look(node: NodeView, family: Family, before: Seen, now_ns: int) -> tuple[Pulse, Seen]:
    """Judge one family of a node by its table. :returns: the verdict, and what to remember for the next look."""
    liveness = family.liveness
    if isinstance(liveness, WhileCapacity):
        return Pulse(alive=allocatable(node, family, liveness.role) > 0, reread=True), before
    if not isinstance(liveness, Handshake):
        return Pulse(alive=True, reread=True), before
    count = allocatable(node, family, "count")
    pulse = pulse_of(node.annotations.get(liveness.key), count, now_ns)
    if not liveness.or_capacity_lost:
        return pulse, before
    key = family.inventory.key if isinstance(family.inventory, AnnotatedDevices) else ""
    return pulse_with_capacity(pulse, before, Seen(allocatable=count, register=node.annotations.get(key)))


def allocatable(node: NodeView, family: Family, role: Role) -> int:
    """How much of a role's resource the node can give; 0 when it names none, or names no whole number."""
    resource = getattr(family.resources, role)
    text = node.allocatable.get(resource) if resource else None
    try:
        return 0 if text is None else whole_number(text, f"node {node.name}: allocatable {resource}")
    except BadInputError:
        return 0


def pulse_of(handshake: str | None, allocatable: int, now_ns: int) -> Pulse:
    """Judge the handshake annotation alone.

    :param handshake: its text, ``None`` when absent. :param allocatable: of the family's count resource now.
    :param now_ns: nanoseconds since the Unix epoch.
    """
    if handshake is None or not is_request(handshake):
        return Pulse(alive=True, reread=True, asks=True)
    asked_ns = requested_at(handshake)
    waits = asked_ns is None or now_ns - asked_ns < PATIENCE_NS
    return Pulse(alive=waits or allocatable > 0, reread=False)


def pulse_with_capacity(pulse: Pulse, before: Seen, now: Seen) -> tuple[Pulse, Seen]:
    """Judge, besides the handshake, whether the node lost its devices or states others.

    :param before: what the last call returned; ``NEVER_SEEN`` at first. :returns: the verdict, and what to remember.
    """
    if now.allocatable == 0 == before.allocatable:
        return pulse, before
    if now.allocatable == 0:
        return Pulse(alive=False, reread=pulse.reread, asks=pulse.asks), now
    if now.allocatable != before.allocatable:
        return Pulse(alive=True, reread=True, asks=pulse.asks), now
    if now.register != before.register:
        return Pulse(alive=pulse.alive, reread=True, asks=pulse.asks), now
    return pulse, before
