"""The devices of all nodes, as their annotations state them: updated per node event, never rebuilt for a request."""

import logging
from collections.abc import Iterable, Mapping
from threading import Lock

from hami_core_py.decisions.nodes import NodeState
from hami_core_py.errors import InventoryError
from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import NO_FACTS, Device, DeviceId
from hami_core_py.models.devices import Inventory as FamilyInventory
from hami_core_py.models.views import NodeView

log = logging.getLogger(__name__)

CORDON = "hami.io/device-cordon"
"""Node annotation in which the operator lists ids of devices that get no new shares."""


class Inventory:
    """Node → devices. One lock; every state handed out is a frozen value."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._nodes: dict[str, NodeState] = {}
        self._changed: set[str] = set()
        self.generation = 0

    def set_node(
        self,
        node: NodeView,
        families: Mapping[str, FamilyInventory | InventoryError],
        *,
        alive: Mapping[str, bool] | None = None,
    ) -> bool:
        """Take over what a node says now.

        :param families: family → its devices on this node, or why they cannot be read: then the old devices stay, without
            new shares. A family that is not named has no devices here.
        :param alive: family → whether its agent serves the node; a family that is not named counts as served.
        :returns: whether anything that matters for placing has changed.
        """
        alive = alive or {}
        with self._lock:
            old = self._nodes.get(node.name)
            new = _state(node, families, alive, old)
            self._nodes[node.name] = new
            if old is not None and _same(old, new):
                return False
            self._touch(node.name)
            return True

    def remove_node(self, name: str) -> None:
        """Forget a node; forgetting an unknown one changes nothing."""
        with self._lock:
            if self._nodes.pop(name, None) is not None:
                self._touch(name)

    def node(self, name: str) -> NodeState | None:
        """One node, ``None`` when it is not known."""
        return self._nodes.get(name)

    def size(self) -> int:
        """How many nodes there are."""
        return len(self._nodes)

    def names(self) -> tuple[str, ...]:
        """Names of all nodes, sorted."""
        with self._lock:
            return tuple(sorted(self._nodes))

    def devices(self, name: str) -> tuple[Device, ...]:
        """Devices of one node, of all families; empty when the node is not known."""
        state = self._nodes.get(name)
        return state.devices if state else ()

    def take_changed(self) -> Iterable[str]:
        """Names of the nodes that changed since the last call; for the one index that follows this one."""
        if not self._changed:
            return ()
        with self._lock:
            changed, self._changed = self._changed, set()
        return changed

    def _touch(self, name: str) -> None:
        self.generation += 1
        self._changed.add(name)


def _state(
    node: NodeView,
    families: Mapping[str, FamilyInventory | InventoryError],
    alive: Mapping[str, bool],
    old: NodeState | None,
) -> NodeState:
    devices: list[Device] = []
    facts: dict[str, Mapping[str, str]] = {}
    closed: dict[str, Reason] = {}
    for name in sorted(families):
        said = families[name]
        if isinstance(said, InventoryError):
            closed[name] = Reason.UNREADABLE_INVENTORY
            devices += old.of_family(name) if old else ()
            facts[name] = old.facts.get(name, NO_FACTS) if old else NO_FACTS
            log.warning("inventory cannot be read", extra={"node": node.name, "family": name, "problem": str(said)})
        else:
            devices += sorted(said.devices, key=lambda d: (d.index, d.id))
            facts[name] = said.facts
        if not alive.get(name, True) and name not in closed:
            closed[name] = Reason.AGENT_AWAY
    return NodeState(
        name=node.name,
        view=node,
        devices=_once_each(node.name, devices),
        cordoned=cordoned(node),
        closed=closed,
        facts=facts,
    )


def cordoned(node: NodeView) -> frozenset[DeviceId]:
    """Ids in the operator's list on this node; empty members are passed over."""
    words = (word.strip() for word in node.annotations.get(CORDON, "").split(","))
    return frozenset(DeviceId(word) for word in words if word)


def _once_each(node: str, devices: Iterable[Device]) -> tuple[Device, ...]:
    """Devices without those whose id came before: one piece of silicon must not be given away twice."""
    first: dict[DeviceId, Device] = {}
    for device in devices:
        if first.setdefault(device.id, device) is not device:
            log.warning(
                "two devices of a node have one id; the first counts", extra={"node": node, "device": device.id}
            )
    return tuple(first.values())


def _same(old: NodeState, new: NodeState) -> bool:
    """Equal but for texts of the node that own rules alone could look at."""
    return (
        old.devices == new.devices
        and old.cordoned == new.cordoned
        and old.closed == new.closed
        and old.facts == new.facts
        and old.view.annotations == new.view.annotations
        and old.view.labels == new.view.labels
    )
