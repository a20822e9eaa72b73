"""A scheduler beside a real API server on loopback, and an outside client that speaks kube-scheduler's side."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from hami_core_py.cluster.client import Client
from hami_core_py.codecs.native import RECORD, parse_shares, render_inventory
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.kubeconfig import write_kubeconfig
from hami_core_py.models.allocations import RecordedShare
from hami_core_py.models.devices import Device, Usage
from hami_core_py.models.families import SHARED_LOCK, V210, AnnotatedDevices, Family, NodeLock, Resources
from hami_core_py.servers.extender import Extender
from hami_core_py.servers.extender_metrics import SchedulerCollector
from hami_core_py.servers.http import HttpServer, Listen, operations
from hami_core_py.services.scheduling.assembly import Options, Scheduler
from hami_core_py.services.tables import CoreDefaults
from hami_core_py.testing import builders
from hami_core_py.testing.plugins import make_plugin

Json = dict[str, Any]

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
PATIENCE_SECONDS = 60.0


def acme_ask(*plugins: tuple[str, object]) -> Ask:
    """The façade over one invented vendor, and others."""
    plugins = plugins or (make_plugin("acme", [builders.family()]),)
    return Ask(load_backends(plugins=plugins, defaults=CoreDefaults()))


def node_object(name: str, devices: Iterable[Device], *, identity: str = "late", **annotations: str) -> Json:
    """A node whose devices our own agent serves."""
    found = tuple(devices)
    slots = {builders.COUNT: str(sum(device.slots for device in found))}
    text = render_inventory("acme", found, identity)  # type: ignore[arg-type]
    return {
        "metadata": {"name": name, "annotations": {"hami.io/node-acme-inventory": text, **annotations}},
        "status": {
            "capacity": slots,
            "allocatable": slots,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def older_node(name: str, families: Iterable[Family], **annotations: str) -> Json:
    """A node with one device of each family, stated by plugins of the v2.10 kind."""
    found = list(families)
    registers = {
        family.inventory.key: json.dumps(
            [{"id": f"{family.name}-0", "count": 10, "devmem": 16384, "devcore": 100, "type": "Old", "health": True}]
        )
        for family in found
        if isinstance(family.inventory, AnnotatedDevices)
    }
    slots = {family.resources.count: "10" for family in found}
    return {
        "metadata": {"name": name, "annotations": {**registers, **annotations}},
        "status": {"capacity": slots, "allocatable": slots, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def older_family(name: str, lock: NodeLock | None = SHARED_LOCK) -> Family:
    """A family that v2.10 knew, under a plugin of that kind."""
    word = name.lower()
    return builders.family(
        name,
        backend=word,
        resources=Resources(count=f"{word}.example/npu", memory=f"{word}.example/memory", core=f"{word}.example/cores"),
        inventory=AnnotatedDevices(key=f"{word}.example/register"),
        lock=lock,
        v210=V210(allocated=f"{word}.example/allocated", to_allocate=f"{word}.example/to-allocate"),
    )


def pod_object(name: str, *, priority_class: str = "", namespace: str = "default", **limits: object) -> Json:
    """A pod of one container; ``count``, ``memory`` and ``cores`` are what it asks of Acme."""
    names = {"count": builders.COUNT, "memory": builders.MEMORY, "cores": builders.CORE}
    amounts = {names.get(key, key): str(amount) for key, amount in limits.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            **({"priorityClassName": priority_class} if priority_class else {}),
            "containers": [{"name": "main", "image": "app", "resources": {"limits": amounts, "requests": amounts}}],
        },
    }


def eventually(holds: Callable[[], Any], what: str, timeout_seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until something holds. :returns: its true answer."""
    until = time.monotonic() + timeout_seconds
    pause = threading.Event()
    while not (answer := holds()):
        assert time.monotonic() < until, f"never came true: {what}"
        pause.wait(0.01)
    return answer


class World:
    """One cluster with one scheduler.

    :param timeout_seconds: of the scheduler's calls of the API server.
    """

    def __init__(
        self, folder: Path, api: ApiServer, ask: Ask, options: Options, *, timeout_seconds: float = 5.0
    ) -> None:
        self.api, self.ask, self.options = api, ask, options
        self.kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url)
        self.client = Client.from_kubeconfig(self.kubeconfig)
        self.scheduler: Scheduler
        self._own = Client.from_kubeconfig(self.kubeconfig, timeout_seconds=timeout_seconds)

    def start(self) -> "World":
        """Start the scheduler and wait until it knows the cluster."""
        self.scheduler = Scheduler(self._own, self.ask, self.options)
        registry = CollectorRegistry()
        registry.register(SchedulerCollector(self.scheduler))
        self.extender = Extender(self.scheduler.scheduling, registry, max_body_bytes=1024 * 1024)
        app = FastAPI(openapi_url=None)
        app.include_router(self.extender.router())
        app.include_router(operations(self.scheduler.missing, registry))
        self.server = HttpServer(self.extender.around(app), Listen()).start()
        self.http = httpx.Client(base_url=self.server.url, timeout=30.0)
        self.scheduler.start()
        assert self.scheduler.wait_until_ready(PATIENCE_SECONDS)
        return self

    def stop(self) -> None:
        """Stop everything but the API server."""
        self.http.close()
        self.server.stop()
        self.extender.close()
        self.scheduler.stop()
        self._own.close()
        self.client.close()

    def add_node(self, name: str, devices: Iterable[Device], **fields: Any) -> None:
        """Create a node and wait until the scheduler knows it."""
        self.client.create(NODES, node_object(name, devices, **fields))
        eventually(lambda: self.scheduler.inventory.devices(name), f"node {name} is known")

    def add_pod(self, name: str, **fields: Any) -> Json:
        """Create a pod. :returns: the stored object."""
        return self.client.create(PODS, pod_object(name, **fields))

    def pod(self, name: str) -> Json:
        """A pod as it is stored."""
        return self.client.get(f"{PODS}/{name}")

    def node_of(self, name: str) -> str:
        """Where a pod is bound; empty when it is not."""
        return str(self.pod(name)["spec"].get("nodeName") or "")

    def record(self, name: str) -> tuple[RecordedShare, ...]:
        """The shares that a pod's record states."""
        annotations = self.pod(name)["metadata"].get("annotations") or {}
        return parse_shares(annotations[RECORD], name) if RECORD in annotations else ()

    def filter(self, pod: Json, names: Iterable[str], **fields: Any) -> Json:
        """kube-scheduler's filter, names only."""
        body = {"Pod": pod, "Nodes": None, "NodeNames": list(names), **fields}
        return self.post("filter", body)

    def score(self, pod: Json, names: Iterable[str]) -> dict[str, int]:
        """kube-scheduler's prioritize."""
        answer = self.post("prioritize", {"Pod": pod, "Nodes": None, "NodeNames": list(names)})
        return {entry["Host"]: entry["Score"] for entry in answer}

    def bind(self, pod: Json, node: str) -> str:
        """kube-scheduler's bind. :returns: the error, empty when bound."""
        metadata = pod["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        return str(self.post("bind", body)["Error"])

    def schedule(self, pod: Json, names: Iterable[str]) -> str:
        """One attempt as kube-scheduler makes it. :returns: the node; empty when the pod was not bound."""
        fitting = self.filter(pod, names)["NodeNames"] or []
        if not fitting:
            return ""
        if len(fitting) > 1:
            ranks = self.score(pod, fitting)
            fitting = sorted(fitting, key=lambda name: (-ranks[name], name))
        return "" if self.bind(pod, fitting[0]) else str(fitting[0])

    def post(self, verb: str, body: Any) -> Any:
        """One call of the protocol; the answer must be JSON."""
        return self.http.post(f"/scheduler/{verb}", json=body).json()

    def usage(self, node: str) -> Mapping[str, Usage]:
        """What the ledger counts on a node."""
        return {str(device): used for device, used in self.scheduler.ledger.usage(node).items()}

    def events(self, reason: str) -> list[Json]:
        """Kubernetes events of one reason."""
        return [e for e in self.client.list("/api/v1/events")[0] if e.get("reason") == reason]


def one_device(memory_mib: int = 16384, slots: int = 10, **fields: Any) -> tuple[Device, ...]:
    """A node's only device."""
    return (builders.device("npu-0", memory_mib=memory_mib, slots=slots, **fields),)
