"""The scheduler over the lab's store in one process: no threads, no sockets, time and faults as told."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import orjson

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import Unreachable, error_of
from hami_core_py.cluster.locks import NodeLocks
from hami_core_py.codecs.native import render_inventory
from hami_core_py.codecs.records import read_record
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.lab.apiserver.status import StatusError
from hami_core_py.lab.apiserver.store import Store
from hami_core_py.models.devices import Device
from hami_core_py.models.requests import Policies
from hami_core_py.models.views import node_view, pod_view
from hami_core_py.services.engine import Engine
from hami_core_py.services.intake import NodeIntake, PodIntake, read_pod_news
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.reservations import Reservations
from hami_core_py.services.scheduling import Binder, Scheduling
from hami_core_py.services.scheduling.recent import Recent
from hami_core_py.services.tables import CoreDefaults
from hami_core_py.testing import builders
from hami_core_py.testing.plugins import make_plugin

Json = dict[str, Any]

ENDED = ("Succeeded", "Failed")
MERGE = "application/merge-patch+json"


class StoreClient:
    """The calls that a scheduler makes, on a store.

    :ivar fault: what happens to the next Binding: a status, ``lost-before`` or ``lost-after`` it was stored.
    :ivar blind: whether pods cannot be read.
    """

    timeout_seconds = 1.0

    def __init__(self, store: Store) -> None:
        self.store = store
        self.fault: int | str | None = None
        self.blind = False

    def get(self, path: str) -> Json:
        """A pod or a node."""
        parts = path.strip("/").split("/")
        if parts[-2] == "pods" and self.blind:
            raise error_of(503, b"{}", call=f"GET {path}")
        namespace = parts[3] if parts[2] == "namespaces" else ""
        return self._do(path, lambda: self.store.get(parts[-2], parts[-1], namespace))

    def patch(self, path: str, body: Json) -> Json:
        """A merge patch of a node."""
        return self._do(path, lambda: self.store.patch("nodes", path.split("/")[-1], body, MERGE))

    def create(self, path: str, body: Json, params: Mapping[str, str]) -> Json:
        """A Binding."""
        fault, self.fault = self.fault, None
        if fault == "lost-before":
            raise Unreachable("lost", call=f"POST {path}")
        if isinstance(fault, int):
            raise error_of(fault, b"{}", call=f"POST {path}")
        self._do(path, lambda: self.store.bind(path.split("/")[4], path.split("/")[6], body))
        if fault == "lost-after":
            raise Unreachable("lost", call=f"POST {path}")
        return {}

    def _do(self, path: str, work: Any) -> Any:
        try:
            return work()
        except StatusError as problem:
            raise error_of(problem.code, orjson.dumps(problem.body()), call=path) from problem


class Process:
    """One life of a scheduler: what it knows comes from lists and from events told to it."""

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        ask, client = simulation.ask, cast(Client, simulation.client)
        self.ledger = Ledger()
        inventory = Inventory()
        self.engine = Engine(inventory, self.ledger, ask)
        clock = lambda: simulation.now  # noqa: E731
        self.reservations = Reservations(self.engine, clock)
        nodes = NodeIntake(inventory, ask)
        nodes.sync(node_view(node) for node in simulation.objects("nodes"))
        self.pods = PodIntake(self.ledger, ask, listener=self.reservations)
        recent = Recent(ask, Policies())
        self.binder = Binder(
            client,
            self.reservations,
            recent,
            nodes,
            ask,
            locks=NodeLocks(client, pause=lambda _s: None),
            lock_wait_seconds=0.0,
            clock=clock,
            pause=lambda _s: None,
        )
        self.scheduling = Scheduling(self.engine, self.reservations, self.binder, recent)
        self.relist()

    def relist(self) -> None:
        """Hear of every pod there is."""
        self.pods.list_begins()
        self.pods.sync(read_pod_news(pod) for pod in self.simulation.objects("pods"))

    def hear_of(self, pod: Json) -> None:
        """Hear of one pod as it is now."""
        now = self.simulation.pod(pod["metadata"]["name"])
        if now is None or now["metadata"]["uid"] != pod["metadata"]["uid"]:
            self.pods.remove(pod["metadata"]["uid"])
        else:
            self.pods.update(read_pod_news(now))


class Simulation:
    """One cluster, and the scheduler that lives now."""

    def __init__(self, nodes: Mapping[str, tuple[Device, ...]], *, ordered: frozenset[str] = frozenset()) -> None:
        self.now = 1000.0
        self.ask = Ask(load_backends(plugins=[make_plugin("acme", [builders.family()])], defaults=CoreDefaults()))
        self.store = Store(clock=lambda: self.now, seed=1)
        self.store.seed_defaults()
        self.client = StoreClient(self.store)
        self.devices = {device.id: device for devices in nodes.values() for device in devices}
        self.names = sorted(nodes)
        for name, devices in nodes.items():
            text = render_inventory("acme", devices, "ordered" if name in ordered else "late")
            slots = {builders.COUNT: "100"}
            node = {
                "metadata": {"name": name, "annotations": {"hami.io/node-acme-inventory": text}},
                "status": {
                    "capacity": slots,
                    "allocatable": slots,
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
            self.store.create("nodes", node)
        self.process = Process(self)

    def restart(self) -> None:
        """The scheduler dies and comes back."""
        self.process = Process(self)

    def objects(self, resource: str) -> list[Json]:
        """All objects of a kind."""
        return list(self.store.list(resource).items)

    def pod(self, name: str) -> Json | None:
        """A pod as it is stored; ``None``: it is gone."""
        return next((p for p in self.objects("pods") if p["metadata"]["name"] == name), None)

    def add_pod(self, name: str, memory_mib: int, cores: int, priority_class: str = "") -> Json:
        """Create a pod that asks."""
        amounts = {builders.COUNT: "1", builders.MEMORY: str(memory_mib), builders.CORE: str(cores)}
        spec: Json = {
            "containers": [{"name": "main", "image": "app", "resources": {"limits": amounts, "requests": amounts}}]
        }
        if priority_class:
            spec["priorityClassName"] = priority_class
        return self.store.create("pods", {"metadata": {"name": name}, "spec": spec}, "default")

    def held(self) -> Iterator[tuple[str, int, int]]:
        """Device, memory and cores of every share that a live pod's record states."""
        for pod in self.objects("pods"):
            if (pod.get("status") or {}).get("phase") in ENDED or not pod["spec"].get("nodeName"):
                continue
            record = read_record(pod_view(pod), self.ask.families)
            for share in record.shares if record else ():
                yield share.device, share.share.memory_mib, share.share.core_units

    def release_locks(self) -> None:
        """The node plugins have served whoever held their node."""
        for name in self.names:
            patch = {"metadata": {"annotations": {"hami.io/mutex.lock": None}}}
            self.store.patch("nodes", name, patch, MERGE)
