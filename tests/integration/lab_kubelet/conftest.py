"""A cluster of one lab kubelet: a device plugin over real gRPC, an API server over real HTTP."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, TypeVar

import grpc
import pytest

from hami_core_py.cluster.errors import ApiError
from hami_core_py.lab.apiserver import ApiServer, logs_below
from hami_core_py.lab.kubelet import Kubelet, KubeletOptions, log_path
from hami_core_py.lab.kubelet.api import connect
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp
from hami_core_py.servers.kubelet import deviceplugin_pb2_grpc as dp_grpc
from hami_core_py.servers.kubelet import podresources_pb2 as pr
from hami_core_py.servers.kubelet import podresources_pb2_grpc as pr_grpc

RESOURCE = "acme.example/npu"
NODE = "node-a"
PODS = "/api/v1/namespaces/default/pods"
Json = dict[str, Any]
Answer = TypeVar("Answer")


def eventually(what: str, probe: Callable[[], Answer | None], seconds: float = 60.0) -> Answer:
    """The first truthy answer of a probe."""
    deadline = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"never seen: {what}")
        time.sleep(0.02)


class Plugin(dp_grpc.DevicePluginServicer):  # type: ignore[misc]  # generated code is untyped
    """A device plugin that writes down each call."""

    def __init__(self, root: Path, resource: str = RESOURCE, count: int = 4) -> None:
        self.root, self.resource = root, resource
        self.endpoint = resource.replace("/", "-") + ".sock"
        self.devices = {f"npu-{number}": "Healthy" for number in range(count)}
        self.numa: dict[str, int] = {}
        self.calls: list[tuple[str, Any]] = []
        self.pre_start_required = True
        self.allocate_error = self.prestart_error = ""
        self.answer: Callable[[list[str]], dp.ContainerAllocateResponse] = lambda ids: dp.ContainerAllocateResponse(
            envs={"NPU_IDS": ",".join(sorted(ids))}
        )
        self.on_prestart: Callable[[list[str]], None] = lambda ids: None
        self.changed = threading.Condition()
        self.generation = 0
        self.server: grpc.Server | None = None
        self.is_stopping = False

    def start(self) -> None:
        path = self.root / "device-plugins" / self.endpoint
        path.unlink(missing_ok=True)
        self.is_stopping = False
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        dp_grpc.add_DevicePluginServicer_to_server(self, self.server)
        self.server.add_insecure_port(f"unix://{path}")
        self.server.start()
        self.register()

    def register(self, **changes: str) -> None:
        request: Json = {"version": "v1beta1", "endpoint": self.endpoint, "resource_name": self.resource} | changes
        with grpc.insecure_channel(f"unix://{self.root}/device-plugins/kubelet.sock") as channel:
            dp_grpc.RegistrationStub(channel).Register(dp.RegisterRequest(**request), timeout=30)

    def stop(self) -> None:
        if self.server is not None:
            with self.changed:
                self.is_stopping = True
                self.changed.notify_all()
            self.server.stop(grace=None).wait()
            self.server = None

    def set_health(self, device: str, health: str) -> None:
        with self.changed:
            self.devices[device] = health
            self.generation += 1
            self.changed.notify_all()

    def named(self, call: str) -> list[Any]:
        return [detail for name, detail in self.calls if name == call]

    def GetDevicePluginOptions(self, request: dp.Empty, context: grpc.ServicerContext) -> dp.DevicePluginOptions:
        return dp.DevicePluginOptions(
            pre_start_required=self.pre_start_required, get_preferred_allocation_available=True
        )

    def ListAndWatch(self, request: dp.Empty, context: grpc.ServicerContext) -> Iterator[dp.ListAndWatchResponse]:
        while not self.is_stopping and context.is_active():
            with self.changed:
                seen = self.generation
                answer = dp.ListAndWatchResponse()
                for name, health in self.devices.items():
                    device = answer.devices.add(ID=name, health=health)
                    if name in self.numa:
                        device.topology.nodes.add(ID=self.numa[name])
            yield answer
            with self.changed:
                while self.generation == seen and not self.is_stopping and context.is_active():
                    self.changed.wait(0.2)

    def GetPreferredAllocation(
        self, request: dp.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> dp.PreferredAllocationResponse:
        answer = dp.PreferredAllocationResponse()
        for one in request.container_requests:
            available, must = sorted(one.available_deviceIDs), sorted(one.must_include_deviceIDs)
            self.calls.append(("GetPreferredAllocation", (available, must, one.allocation_size)))
            answer.container_responses.add(deviceIDs=available[: one.allocation_size])
        return answer

    def Allocate(self, request: dp.AllocateRequest, context: grpc.ServicerContext) -> dp.AllocateResponse:
        if self.allocate_error:
            context.abort(grpc.StatusCode.INTERNAL, self.allocate_error)
        answer = dp.AllocateResponse()
        for one in request.container_requests:
            self.calls.append(("Allocate", sorted(one.devices_ids)))
            answer.container_responses.append(self.answer(list(one.devices_ids)))
        return answer

    def PreStartContainer(
        self, request: dp.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> dp.PreStartContainerResponse:
        self.calls.append(("PreStartContainer", sorted(request.devices_ids)))
        if self.prestart_error:
            context.abort(grpc.StatusCode.INTERNAL, self.prestart_error)
        self.on_prestart(list(request.devices_ids))
        return dp.PreStartContainerResponse()


class Lab:
    """One node, its API server and its device plugins."""

    resource = RESOURCE
    eventually = staticmethod(eventually)

    @staticmethod
    def container(name: str = "main", command: list[str] | None = None, *, devices: int = 0, **more: Any) -> Json:
        """A container that sleeps, or runs a command."""
        spec: Json = {"name": name, "image": "hami.io/lab/any", "command": command or ["sleep", "infinity"]}
        if devices:
            spec["resources"] = {"limits": {RESOURCE: str(devices)}, "requests": {RESOURCE: str(devices)}}
        return spec | more

    def __init__(self, server: ApiServer, root: Path) -> None:
        self.server, self.url, self.root = server, server.url, root
        self.api = connect(self.url, "tests")
        self.kubelet: Kubelet | None = None
        self.plugins: list[Plugin] = []

    def begin_kubelet(self, **settings: Any) -> Kubelet:
        settings = {"retry_seconds": 0.2, "first_retry_seconds": 0.05, "backoff_seconds": 0.1} | settings
        self.kubelet = Kubelet(KubeletOptions(node=NODE, api_url=self.url, root=self.root, **settings))
        self.kubelet.start()
        return self.kubelet

    def start_kubelet(self, **settings: Any) -> Kubelet:
        kubelet = self.begin_kubelet(**settings)
        assert kubelet.wait_ready(10)
        return kubelet

    def stop_kubelet(self, *, leave_containers: bool = False) -> None:
        if self.kubelet is not None:
            self.kubelet.stop(leave_containers=leave_containers)
            self.kubelet = None

    def start_plugin(self, plugin: Plugin | None = None, **settings: Any) -> Plugin:
        plugin = plugin or Plugin(self.root, **settings)
        self.plugins.append(plugin)
        plugin.start()
        wanted = str(sum(health == "Healthy" for health in plugin.devices.values()))
        eventually("devices", lambda: self.allocatable(plugin.resource) == wanted)
        return plugin

    def close(self) -> None:
        self.stop_kubelet()
        for plugin in self.plugins:
            plugin.stop()
        self.api.close()

    def node(self) -> Json:
        return self.api.get(f"/api/v1/nodes/{NODE}")

    def allocatable(self, resource: str = RESOURCE) -> str | None:
        answer: str | None = self.node()["status"]["allocatable"].get(resource)
        return answer

    def capacity(self, resource: str = RESOURCE) -> str | None:
        answer: str | None = self.node()["status"]["capacity"].get(resource)
        return answer

    def create(self, name: str, *containers: Json, inits: list[Json] | None = None, **spec: Any) -> Json:
        body = {"containers": list(containers) or [self.container()], "nodeName": NODE} | spec
        if inits:
            body["initContainers"] = inits
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": body}
        return self.api.create(PODS, pod)

    def find(self, path: str) -> Json | None:
        """The object at a path; None when there is none."""
        try:
            return self.api.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def pod(self, name: str) -> Json | None:
        return self.find(f"{PODS}/{name}")

    def delete(self, name: str, grace: int | None = None) -> None:
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        self.api.delete(f"{PODS}/{name}", options)

    def phase(self, name: str) -> str:
        return str((self.pod(name) or {}).get("status", {}).get("phase", ""))

    def await_phase(self, name: str, phase: str) -> Json:
        def probe() -> Json | None:
            pod = self.pod(name)
            return pod if pod and pod.get("status", {}).get("phase") == phase else None

        try:
            return eventually(f"{name} is {phase}", probe)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {json.dumps((self.pod(name) or {}).get('status'))}") from error

    def state(self, name: str, container_name: str = "main") -> Json:
        status = (self.pod(name) or {}).get("status", {})
        for one in (status.get("containerStatuses") or []) + (status.get("initContainerStatuses") or []):
            if one["name"] == container_name:
                return dict(one)
        return {}

    def await_waiting(self, name: str, reason: str, container_name: str = "main") -> str:
        def probe() -> Json | None:
            waiting = self.state(name, container_name).get("state", {}).get("waiting") or {}
            return waiting if waiting.get("reason") == reason else None

        waiting = eventually(f"{name} waits with {reason}", probe)
        return str(waiting.get("message", ""))

    def received(self, pod: Json, container_name: str = "main") -> Json:
        path = self.root / "pods" / pod["metadata"]["uid"] / "containers" / container_name / "config.json"
        return dict(json.loads(path.read_text()))

    def output(self, pod: Json, container_name: str = "main", run: int = 0) -> str:
        metadata = pod["metadata"]
        path = log_path(self.root / "logs", "default", metadata["name"], metadata["uid"], container_name, run)
        return path.read_text() if path.exists() else ""

    def process(self, pod: Json, container_name: str = "main") -> Json:
        """What is written down of a container's process; a container may say something a moment before."""
        return eventually(f"a process of {container_name}", lambda: self.process_or_none(pod, container_name))

    def process_or_none(self, pod: Json, container_name: str = "main") -> Json | None:
        path = self.root / "pods" / pod["metadata"]["uid"] / "containers" / container_name / "state.json"
        try:
            return dict(json.loads(path.read_text()))
        except FileNotFoundError:
            return None

    def pid(self, pod: Json, container_name: str = "main") -> int:
        return int(self.process(pod, container_name)["pid"])

    def pid_or_none(self, pod: Json, container_name: str = "main") -> int | None:
        found = self.process_or_none(pod, container_name)
        return int(found["pid"]) if found else None

    def checkpoint(self) -> Json:
        return dict(json.loads((self.root / "device-plugins" / "kubelet_internal_checkpoint").read_text()))

    def entries(self) -> list[Json]:
        return list(self.checkpoint()["Data"]["PodDeviceEntries"] or ())

    @staticmethod
    def answer(entry: Json) -> dp.ContainerAllocateResponse:
        """What the plugin answered, as the checkpoint keeps it."""
        return dp.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))

    def new_plugin(self, **settings: Any) -> Plugin:
        """A plugin that is not started yet."""
        return Plugin(self.root, **settings)

    def write_cdi(self, name: str, spec: Json) -> None:
        path = self.root / "cdi" / f"{name}.json"
        path.with_suffix(".tmp").write_text(json.dumps(spec))
        path.with_suffix(".tmp").replace(path)

    def pod_resources(self, name: str | None = None) -> Any:
        with grpc.insecure_channel(f"unix://{self.root}/pod-resources/kubelet.sock") as channel:
            stub = pr_grpc.PodResourcesListerStub(channel)
            if name is None:
                return stub.List(pr.ListPodResourcesRequest(), timeout=30).pod_resources
            return stub.Get(pr.GetPodResourcesRequest(pod_name=name, pod_namespace="default"), timeout=30).pod_resources


@pytest.fixture
def root() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="hk", dir="/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def lab(root: Path) -> Iterator[Lab]:
    """A node whose kubelet runs, beside an API server."""
    with ApiServer(logs=logs_below(root / "logs")) as server:
        lab = Lab(server, root)
        lab.start_kubelet()
        yield lab
        lab.close()


@pytest.fixture
def plugin(lab: Lab) -> Plugin:
    """A plugin with four devices, on the node."""
    return lab.start_plugin()
