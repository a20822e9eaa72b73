"""One node: the real agent, an API server over real HTTP, and the kubelet's side of the protocol over real sockets."""

import base64
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from hami_core_py.cluster.client import Client
from hami_core_py.codecs.records import write_record
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.lab.apiserver import ApiServer, write_kubeconfig
from hami_core_py.models.allocations import Allocation, ContainerPlacement, Grant, HealthChange, Placement
from hami_core_py.models.devices import Device, Share
from hami_core_py.models.families import V210 as Spelling
from hami_core_py.models.families import AnnotatedDevices, Family
from hami_core_py.models.views import pod_view
from hami_core_py.servers.deviceplugin import cdi_names
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp
from hami_core_py.servers.kubelet import deviceplugin_pb2_grpc as dp_grpc
from hami_core_py.servers.pluginserver import PluginServers
from hami_core_py.servers.podresources import PodResourcesClient
from hami_core_py.services.agent.agent import Agent
from hami_core_py.services.agent.options import AgentOptions
from hami_core_py.services.tables import CoreDefaults
from hami_core_py.testing import builders
from hami_core_py.testing.plugins import make_plugin

NODE = "node-a"
COUNT = builders.COUNT
KIND = "hami.io/Acme"
Answer = TypeVar("Answer")
Json = dict[str, Any]


def eventually(what: str, probe: Callable[[], Answer | None], seconds: float = 60.0) -> Answer:
    """The first truthy answer of a probe."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"never seen: {what}")
        time.sleep(0.01)


@dataclass
class Acme:
    """A backend whose answers a test sets."""

    devices: Sequence[Device] = field(default_factory=lambda: builders.devices(2))
    family: Family = field(
        default_factory=lambda: builders.family(
            v210=Spelling(allocated="hami.io/acme-allocated", to_allocate="hami.io/acme-to-allocate"),
            inventory=AnnotatedDevices(key="hami.io/node-acme-register"),
        )
    )
    name: str = "acme"
    stands_in: bool = False
    discovering: Callable[[], None] = lambda: None
    granting: Callable[[Allocation, Grant], Grant] = lambda _allocation, grant: grant
    changes: list[HealthChange] = field(default_factory=list)
    info: Json = field(default_factory=dict)
    reconciled: list[list[Allocation]] = field(default_factory=list)
    granted: list[Allocation] = field(default_factory=list)

    def plugin(self) -> tuple[str, Any]:
        """As ``load_backends`` takes it."""

        def hami_discover_devices() -> Sequence[Device]:
            self.discovering()
            return tuple(self.devices)

        def hami_check_health() -> Sequence[HealthChange]:
            changes = tuple(self.changes)
            self.changes.clear()
            return changes

        def hami_reconcile_node(active: Sequence[Allocation]) -> None:
            self.reconciled.append(list(active))

        def hami_allocate(allocation: Allocation) -> Grant:
            self.granted.append(allocation)
            env = {
                "ACME_DEVICES": ",".join(device.id for device, _ in allocation.pairs),
                "ACME_MEMORY": ",".join(str(share.memory_mib) for _, share in allocation.pairs),
                "ACME_WHO": f"{allocation.pod_uid}/{allocation.container}",
            }
            limits = "".join(f"{device.id} {share.memory_mib}\n" for device, share in allocation.pairs)
            return self.granting(allocation, Grant(env=env, files={"limits": limits}))

        return make_plugin(
            self.name,
            () if self.stands_in else (self.family,),
            hooks=(hami_discover_devices, hami_check_health, hami_reconcile_node, hami_allocate),
            **{"closing_env": {"ACME_DEVICES": "void"}, "stands_in": self.stands_in, **self.info},
        )


@dataclass
class Registered:
    """A plugin as the kubelet knows it."""

    channel: grpc.Channel
    stub: Any
    options: dp.DevicePluginOptions
    updates: list[dict[str, str]] = field(default_factory=list)
    numa: dict[str, list[int]] = field(default_factory=dict)


class KubeletSide(dp_grpc.RegistrationServicer):  # type: ignore[misc]  # generated code is untyped
    """What a kubelet does to device plugins, one call at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "device-plugins"
        self.plugins: dict[str, Registered] = {}
        self.registrations: list[str] = []
        self.entries: list[Json] = []
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Empty the directory but for the checkpoint and listen, as a kubelet that starts."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in self.directory.iterdir():
            if path.name != "kubelet_internal_checkpoint":
                path.unlink()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        dp_grpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self.directory}/kubelet.sock")
        self._server.start()

    def stop(self) -> None:
        """Vanish: connections end, the socket is gone."""
        if self._server is not None:
            self._server.stop(grace=None).wait()
            self._server = None
        for plugin in self.plugins.values():
            plugin.channel.close()
        self.plugins.clear()
        (self.directory / "kubelet.sock").unlink(missing_ok=True)

    def Register(self, request: dp.RegisterRequest, context: grpc.ServicerContext) -> dp.Empty:
        channel = grpc.insecure_channel(
            f"unix://{self.directory}/{request.endpoint}", [("grpc.use_local_subchannel_pool", 1)]
        )
        stub = dp_grpc.DevicePluginStub(channel)
        options = stub.GetDevicePluginOptions(dp.Empty(), timeout=30, wait_for_ready=True)
        plugin = Registered(channel, stub, options)
        self.plugins[request.resource_name] = plugin
        self.registrations.append(request.resource_name)
        threading.Thread(target=self._follow, args=(plugin,), daemon=True).start()
        return dp.Empty()

    @staticmethod
    def _follow(plugin: Registered) -> None:
        try:
            for answer in plugin.stub.ListAndWatch(dp.Empty()):
                plugin.numa = {device.ID: [node.ID for node in device.topology.nodes] for device in answer.devices}
                plugin.updates.append({device.ID: device.health for device in answer.devices})
        except (grpc.RpcError, ValueError):
            return

    def devices(self, resource: str = COUNT) -> dict[str, str]:
        """The latest device list of a resource."""
        plugin = self.plugins.get(resource)
        return plugin.updates[-1] if plugin and plugin.updates else {}

    def await_devices(self, resource: str = COUNT) -> dict[str, str]:
        """The device list once there is one."""
        return eventually(f"devices of {resource}", lambda: self.devices(resource))

    def allocate(self, *requests: Sequence[str], resource: str = COUNT) -> list[dp.ContainerAllocateResponse]:
        """One Allocate call with a request per list of ids; nothing is written down."""
        request = dp.AllocateRequest()
        for ids in requests:
            request.container_requests.add(devices_ids=ids)
        return list(self.plugins[resource].stub.Allocate(request, timeout=60).container_responses)

    def admit(
        self, uid: str, container: str, ids: Sequence[str], resource: str = COUNT
    ) -> dp.ContainerAllocateResponse:
        """Allocate for a container, and write the answer into the checkpoint."""
        answer = self.allocate(ids, resource=resource)[0]
        with self._lock:
            self.entries.append(
                {
                    "PodUID": uid,
                    "ContainerName": container,
                    "ResourceName": resource,
                    "DeviceIDs": {"0": list(ids)},
                    "AllocResp": base64.b64encode(answer.SerializeToString()).decode(),
                }
            )
            self.write_checkpoint()
        return answer

    def write_checkpoint(self) -> None:
        """Replace the checkpoint file."""
        data = {"PodDeviceEntries": self.entries or None, "RegisteredDevices": {}}
        partial = self.directory / ".checkpoint"
        partial.write_text(json.dumps({"Data": data, "Checksum": 1}))
        partial.replace(self.directory / "kubelet_internal_checkpoint")

    def prestart(self, ids: Sequence[str], resource: str = COUNT) -> None:
        """PreStartContainer for the container with these ids."""
        self.plugins[resource].stub.PreStartContainer(dp.PreStartContainerRequest(devices_ids=ids), timeout=60)

    def refused(self, ids: Sequence[str], resource: str = COUNT) -> tuple[grpc.StatusCode, str]:
        """Code and text of a PreStartContainer that must fail."""
        with pytest.raises(grpc.RpcError) as caught:
            self.prestart(ids, resource)
        return caught.value.code(), caught.value.details()


class World:
    """A node and everything around it."""

    eventually = staticmethod(eventually)
    backend = Acme

    def __init__(self, root: Path) -> None:
        self.root = root
        self.api = ApiServer().start()
        self.kubeconfig = write_kubeconfig(root / "kubeconfig", self.api.url)
        self.client = Client.from_kubeconfig(self.kubeconfig)
        self.client.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hami-system"}}
        self.client.create("/api/v1/namespaces", namespace)
        self.kubelet = KubeletSide(root / "k")
        self.state, self.cdi = root / "s", root / "cdi"
        self.cdi.mkdir()
        self.proc = root / "proc"
        self.backends: list[Acme] = [Acme()]
        self.agent: Agent | None = None
        self.plugins: PluginServers | None = None
        self.fatal: list[str] = []

    @property
    def acme(self) -> Acme:
        return self.backends[0]

    @staticmethod
    def npu(number: int) -> Device:
        """One of the backend's devices."""
        return builders.device(f"npu-{number}")

    @staticmethod
    def share(memory_mib: int = 1024, core_units: int = 10) -> Share:
        """A share; 1024 MiB and 10 core units unless said."""
        return Share(memory_mib=memory_mib, core_units=core_units)

    def start_agent(self, **options: Any) -> Agent:
        """The agent as ``hami device-plugin`` composes it."""
        ask = Ask(load_backends(defaults=CoreDefaults(), plugins=[backend.plugin() for backend in self.backends]))
        given = AgentOptions(
            **{
                "node": NODE,
                "kubelet_dir": self.kubelet.root,
                "state_dir": self.state,
                "cdi_dir": self.cdi,
                "discovery_seconds": 0.2,
                "sweep_seconds": 0.2,
                "proc": self.proc,
                **options,
            }
        )
        client = Client.from_kubeconfig(self.kubeconfig, timeout_seconds=2.0)
        pod_resources = PodResourcesClient(self.kubelet.root / "pod-resources" / "kubelet.sock")
        self.agent = Agent(
            ask,
            client,
            given,
            cdi_names=cdi_names,
            pod_resources=pod_resources,
            on_fatal=lambda problem: self.fatal.append(str(problem)),
        )
        self.agent.start()
        self.plugins = PluginServers(self.agent)
        self.plugins.start()
        return self.agent

    def stop_agent(self) -> None:
        if self.plugins is not None and self.agent is not None:
            self.plugins.stop()
            self.agent.stop()
        self.plugins = self.agent = None

    def start(self, **options: Any) -> None:
        """Kubelet and agent, with the devices known to the kubelet."""
        self.kubelet.start()
        self.start_agent(**options)
        self.kubelet.await_devices()

    def close(self) -> None:
        self.stop_agent()
        self.kubelet.stop()
        self.api.stop()

    def pod(
        self,
        name: str,
        shares: dict[str, list[tuple[Device, Share]]],
        *,
        node: str = NODE,
        record: bool = True,
        at_ns: int = 1_000,
        ordered: bool = False,
        annotations: dict[str, str] | None = None,
    ) -> Json:
        """A pod bound to the node whose record gives its containers these shares."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "nodeName": NODE,
                "containers": [
                    {
                        "name": container,
                        "image": "x",
                        "resources": {"limits": {COUNT: str(len(pairs))}} if pairs else {},
                    }
                    for container, pairs in shares.items()
                ],
            },
        }
        placement = Placement(
            node=node, containers=tuple(ContainerPlacement(name=c, kind=APP, pairs=tuple(p)) for c, p in shares.items())
        )
        families = {self.acme.family.name: self.acme.family}
        written = write_record(
            pod_view(body),
            placement,
            families,
            at_ns=at_ns,
            ordered=frozenset(families) if ordered else frozenset(),
        )
        body["metadata"]["annotations"] = {**(written if record else {}), **(annotations or {})}
        return self.client.create("/api/v1/namespaces/default/pods", body)

    def spec(self, answer: dp.ContainerAllocateResponse) -> Json:
        """The CDI edits of the name in an answer; empty when there is no spec."""
        name = answer.cdi_devices[0].name.partition("=")[2]
        for path in self.cdi.glob(f"hami-*-{name}.json"):
            return dict(json.loads(path.read_text())["devices"][0]["containerEdits"])
        return {}

    def env(self, answer: dp.ContainerAllocateResponse) -> dict[str, str]:
        """The variables that CDI gives a container."""
        return dict(text.split("=", 1) for text in self.spec(answer).get("env", ()))

    def node(self) -> Json:
        return self.client.get(f"/api/v1/nodes/{NODE}")

    def annotations(self) -> dict[str, str]:
        return self.node()["metadata"].get("annotations") or {}

    def events(self, reason: str) -> list[str]:
        found = self.client.list("/api/v1/namespaces/default/events")[0]
        return [event["message"] for event in found if event["reason"] == reason]


APP = builders.ContainerKind.APP


@pytest.fixture
def world() -> Iterator[World]:
    # A short path, since a unix socket's path is.
    root = Path(tempfile.mkdtemp(prefix="ha", dir="/tmp"))
    made = World(root)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)
