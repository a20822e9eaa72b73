"""One node as decisions see it: its devices and what closes them to new shares."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import Device, DeviceId, no_facts
from hami_core_py.models.views import NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node's inventory at one moment.

    :ivar devices: of all families; within a family in the order the node reports them.
    :ivar cordoned: ids that get no new shares by the operator's wish.
    :ivar closed: family → why all its devices get no new shares (agent away, unreadable inventory).
    :ivar facts: family → what else the node says.
    """

    name: str
    view: NodeView
    devices: tuple[Device, ...] = ()
    cordoned: frozenset[DeviceId] = frozenset()
    closed: Mapping[str, Reason] = field(default_factory=no_facts)
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=no_facts)

    def of_family(self, family: str) -> tuple[Device, ...]:
        """Devices of one family, in the order the node reports them."""
        return tuple(d for d in self.devices if d.family == family)


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Devices whose usage is not known, because the record of a pod on them cannot be read.

    :ivar whole_node: the record does not even tell the devices: all of the node are blocked.
    """

    devices: frozenset[DeviceId] = frozenset()
    whole_node: bool = False

    def covers(self, device: DeviceId) -> bool:
        """Whether this device is blocked."""
        return self.whole_node or device in self.devices


NOT_BLOCKED = Blocked()
