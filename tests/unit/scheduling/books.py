"""Indexes, engine and reservations over one invented vendor, without a cluster."""

from collections.abc import Iterable
from typing import Any

from hami_core_py.decisions.requests import read_pod_request
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Refusal
from hami_core_py.models.devices import Device
from hami_core_py.models.devices import Inventory as FamilyInventory
from hami_core_py.models.requests import PodRequest, Policies
from hami_core_py.models.views import PodView
from hami_core_py.services.engine import Engine
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.reservations import Reservations
from hami_core_py.services.tables import CoreDefaults
from hami_core_py.testing import builders
from hami_core_py.testing.plugins import make_plugin


class Clock:
    """Time that passes only when told to, in seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def ask_of(*plugins: tuple[str, object]) -> Ask:
    """The façade over plugins; over Acme alone when none is given."""
    plugins = plugins or (make_plugin("acme", [builders.family()]),)
    return Ask(load_backends(plugins=plugins, defaults=CoreDefaults()))


def asking(name: str, memory_mib: int, *, cores: int = 10, **fields: Any) -> PodView:
    """A pod that asks for memory and cores of one device."""
    limits = {builders.COUNT: 1, builders.MEMORY: memory_mib, builders.CORE: cores}
    return builders.pod(builders.container(limits=limits), name=name, **fields)


class Books:
    """What one scheduler knows."""

    def __init__(self, ask: Ask | None = None) -> None:
        self.ask = ask or ask_of()
        self.clock = Clock()
        self.inventory, self.ledger = Inventory(), Ledger()
        self.engine = Engine(self.inventory, self.ledger, self.ask)
        self.reservations = Reservations(self.engine, self.clock, assumed_seconds=30.0, volume_seconds=660.0)

    def add_node(self, name: str, devices: Iterable[Device]) -> None:
        """A node of Acme's with these devices."""
        self.inventory.set_node(builders.node(name), {builders.FAMILY: FamilyInventory(devices=tuple(devices))})

    def request(self, pod: PodView) -> PodRequest:
        """What a pod asks."""
        return read_pod_request(pod, self.ask, Policies())

    def assume(self, pod: PodView, node: str, **fields: Any) -> Placement | tuple[Refusal, ...]:
        """Assume a pod on a node."""
        return self.reservations.assume(pod, self.request(pod), node, **fields)

    def begin_binding(self, pod: PodView, node: str) -> Placement | tuple[Refusal, ...]:
        """Take the shares for a Binding."""
        return self.reservations.begin_binding(pod, self.request(pod), node)

    def fits(self, pod: PodView, node: str) -> bool:
        """Whether the pod fits the node now."""
        return isinstance(self.engine.place(self.request(pod), pod, node), Placement)

    def used_mib(self, node: str) -> int:
        """Memory in use on a node, over all devices."""
        return sum(used.memory_mib for used in self.ledger.usage(node).values())
