"""HAMi v2.10 as far as a cluster shows it: its node plugin, what its scheduler writes to pods and nodes, and its release.

Written from the wire contract alone: annotations, the kubelet's device plugin API, and the names of the chart's objects.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import yaml

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.models.devices import Device
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp
from hami_core_py.servers.kubelet import deviceplugin_pb2_grpc as dp_grpc
from tests.cluster.pods import COUNT, Pod, Pods
from tests.cluster.seen import CORE_LIMIT, LIMIT, VISIBLE

REGISTER, HANDSHAKE, LOCK = "hami.io/node-nvidia-register", "hami.io/node-handshake", "hami.io/mutex.lock"
ALLOCATED, TO_ALLOCATE = "hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate"
SCHEDULER = "hami-scheduler"

Held = tuple[str, int, int]
"""Device id, MiB and core units."""


def register_of(devices: Sequence[Device]) -> str:
    """A node's devices as its plugin states them; zeroes are left out."""
    records = []
    for device in devices:
        zeroes = {"index": device.index, "numa": device.numa}
        records.append(
            {
                "id": device.id,
                **{key: number for key, number in zeroes.items() if number},
                "count": device.slots,
                "devmem": device.memory_mib,
                "devcore": device.core_units,
                "type": device.model,
                "mode": "hami-core",
                "health": True,
            }
        )
    return json.dumps(records, separators=(",", ":"))


def report(client: Client, node: str, devices: Sequence[Device]) -> None:
    """Write a node's annotations as the plugin and the scheduler leave them."""
    texts = {REGISTER: register_of(devices), HANDSHAKE: f"Requesting_{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"}
    client.patch(join_path("api", "v1", "nodes", node), {"metadata": {"annotations": texts}})


def place(pods: Pods, body: Mapping[str, Any], node: str, held: Sequence[Sequence[Held]]) -> Pod:
    """Create a pod and bind it as filter and bind do. :param held: what each container has, init containers first."""
    name = body["metadata"]["name"]
    made = pods.create({**body, "spec": {**body["spec"], "schedulerName": SCHEDULER}})
    text = "".join("".join(f"{i},NVIDIA,{mib},{cores}:" for i, mib, cores in one) + ";" for one in held)
    now = datetime.now(UTC)
    seconds = str(int(now.timestamp()))
    filtered = {"hami.io/vgpu-node": node, "hami.io/vgpu-time": seconds, ALLOCATED: text, TO_ALLOCATE: text}
    labels = {"hami.io/vgpu-node": node}
    pods.client.patch(pods.path(name), {"metadata": {"annotations": filtered, "labels": labels}})
    lock = {LOCK: f"{now:%Y-%m-%dT%H:%M:%SZ},{pods.namespace},{name}"}
    pods.client.patch(join_path("api", "v1", "nodes", node), {"metadata": {"annotations": lock}})
    binding = {"hami.io/bind-phase": "allocating", "hami.io/bind-time": seconds}
    pods.client.patch(pods.path(name), {"metadata": {"annotations": binding}})
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    metadata = {"name": name, "uid": made["metadata"]["uid"]}
    bound = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    pods.client.create(pods.path(name) + "/binding", bound)
    return pods.get(name)


def served(pods: Pods, name: str, node: str) -> None:
    """Write what the plugin writes when it has served a pod's last container."""
    texts = {TO_ALLOCATE: ";;", "hami.io/bind-phase": "success"}
    pods.client.patch(pods.path(name), {"metadata": {"annotations": texts}})
    pods.client.patch(join_path("api", "v1", "nodes", node), {"metadata": {"annotations": {LOCK: None}}})


def shares_of(pod: Pod) -> list[Held]:
    """What a pod's record of v2.10 says that it holds."""
    text = (pod["metadata"].get("annotations") or {}).get(ALLOCATED, "")
    found = [piece.split(",") for one in text.split(";") for piece in one.split(":") if "," in piece]
    return [(one[0], int(one[2]), int(one[3])) for one in found]


class Plugin(dp_grpc.DevicePluginServicer):  # type: ignore[misc]  # generated code is untyped
    """The node plugin: serves the pod that holds the node's lock, one container after another."""

    def __init__(self, pods: Pods, node: str, devices: Sequence[Device], kubelet_dir: Path) -> None:
        self._pods, self._node, self._devices = pods, node, devices
        self._folder = kubelet_dir / "device-plugins"
        self._ended = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._left: dict[str, list[list[Held]]] = {}

    def start(self) -> None:
        """Serve, register with the kubelet, and report the devices."""
        dp_grpc.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self._folder / 'nvidia-gpu.sock'}")
        self._server.start()
        request = dp.RegisterRequest(version="v1beta1", endpoint="nvidia-gpu.sock", resource_name=COUNT)
        with grpc.insecure_channel(f"unix://{self._folder / 'kubelet.sock'}") as channel:
            dp_grpc.RegistrationStub(channel).Register(request, timeout=5)
        report(self._pods.client, self._node, self._devices)

    def stop(self) -> None:
        """End; its annotations stay."""
        self._ended.set()
        self._server.stop(grace=0.5).wait(5)

    def GetDevicePluginOptions(self, _request: dp.Empty, _context: grpc.ServicerContext) -> dp.DevicePluginOptions:
        """None."""
        return dp.DevicePluginOptions()

    def ListAndWatch(self, _request: dp.Empty, _context: grpc.ServicerContext) -> Iterator[dp.ListAndWatchResponse]:
        """Each device as often as it may be shared."""
        ids = [f"{device.id}-{number}" for device in self._devices for number in range(device.slots)]
        yield dp.ListAndWatchResponse(devices=[dp.Device(ID=one, health="Healthy") for one in ids])
        self._ended.wait()

    def Allocate(self, request: dp.AllocateRequest, _context: grpc.ServicerContext) -> dp.AllocateResponse:
        """The next container's share of the pod that is being bound."""
        (pod,) = [p for p in self._pods.all() if p["metadata"]["annotations"].get("hami.io/bind-phase") == "allocating"]
        name, text = pod["metadata"]["name"], pod["metadata"]["annotations"][TO_ALLOCATE]
        containers = [[piece.split(",") for piece in one.split(":") if "," in piece] for one in text.split(";")]
        answer = dp.AllocateResponse()
        for _ in request.container_requests:
            held = next(one for one in containers if one)
            env = {VISIBLE: ",".join(one[0] for one in held), CORE_LIMIT: held[0][3]}
            env |= {f"{LIMIT[:-1]}{index}": f"{one[2]}m" for index, one in enumerate(held)}
            answer.container_responses.add(envs=env)
            held.clear()
        if any(containers):
            left = "".join("".join(",".join(piece) + ":" for piece in one) + ";" for one in containers)
            self._pods.client.patch(self._pods.path(name), {"metadata": {"annotations": {TO_ALLOCATE: left}}})
        else:
            served(self._pods, name, self._node)
        return answer


def write_chart(folder: Path) -> Path:
    """A chart that leaves the objects of a v2.10 release, by their documented names, selectors and roles; its folder."""
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(yaml.safe_dump({"apiVersion": "v2", "name": "hami", "version": "2.10.0"}))
    (folder / "templates" / "all.yaml").write_text(yaml.safe_dump_all(list(_objects())))
    return folder


def _objects() -> Iterator[dict[str, Any]]:
    namespace = "{{ .Release.Namespace }}"
    own = {"app.kubernetes.io/name": "hami", "app.kubernetes.io/instance": "hami"}

    def one(kind: str, api: str, name: str, *, spaced: bool = True, **fields: Any) -> dict[str, Any]:
        place = {"namespace": namespace} if spaced else {}
        metadata = {"name": name, "labels": {**own, "app.kubernetes.io/version": "2.10.0"}, **place}
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}

    def bound(name: str, role: str, account: str) -> dict[str, Any]:
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
        subjects = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
        api = "rbac.authorization.k8s.io/v1"
        return one("ClusterRoleBinding", api, name, spaced=False, roleRef=reference, subjects=subjects)

    def workload(kind: str, name: str, containers: Sequence[str], **fields: Any) -> dict[str, Any]:
        labels = {**own, "app.kubernetes.io/component": name}
        pod = {
            "serviceAccountName": name,
            "priorityClassName": "system-node-critical",
            "containers": [{"name": each, "image": f"{each}:v2.10.0"} for each in containers],
        }
        template = {"metadata": {"labels": {**labels, "hami.io/webhook": "ignore"}}, "spec": pod}
        spec = {"selector": {"matchLabels": labels}, "template": template, **fields}
        return one(kind, "apps/v1", name, spec=spec)

    def service(name: str, component: str, ports: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
        listed = [
            {"name": n, "port": port, "targetPort": port, "nodePort": outer} for n, (port, outer) in ports.items()
        ]
        selector = {**own, "app.kubernetes.io/component": component}
        return one("Service", "v1", name, spec={"type": "NodePort", "selector": selector, "ports": listed})

    core = {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch", "patch"]}
    rbac = "rbac.authorization.k8s.io/v1"
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}
    for name in ("hami-scheduler", "hami-device-plugin"):
        yield one("ServiceAccount", "v1", name)
    for name in ("hami-scheduler", "hami-scheduler-device", "hami-device-plugin"):
        yield one("ConfigMap", "v1", name, data={"config.yaml": "{}"})
    for name in ("hami-scheduler", "hami-device-plugin-monitor"):
        yield one("ClusterRole", rbac, name, spaced=False, rules=[core])
    yield bound("hami-scheduler-kube", "system:kube-scheduler", "hami-scheduler")
    yield bound("hami-scheduler-volume", "system:volume-scheduler", "hami-scheduler")
    yield bound("hami-scheduler", "hami-scheduler", "hami-scheduler")
    yield bound("hami-device-plugin", "hami-device-plugin-monitor", "hami-device-plugin")
    yield one("Role", rbac, "hami-scheduler", rules=[leases])
    account = {"kind": "ServiceAccount", "name": "hami-scheduler", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hami-scheduler"}
    yield one("RoleBinding", rbac, "hami-scheduler", roleRef=reference, subjects=[account])
    yield workload("Deployment", "hami-scheduler", ("kube-scheduler", "vgpu-scheduler-extender"), replicas=1)
    yield workload("DaemonSet", "hami-device-plugin", ("device-plugin", "vgpu-monitor"))
    yield service("hami-scheduler", "hami-scheduler", {"http": (443, 31998), "monitor": (31993, 31993)})
    yield service("hami-device-plugin-monitor", "hami-device-plugin", {"monitorport": (31992, 31992)})
    webhook = {
        "name": "vgpu.hami.io",
        "admissionReviewVersions": ["v1beta1", "v1"],
        "clientConfig": {"service": {"name": "hami-scheduler", "namespace": namespace, "path": "/webhook"}},
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    api = "admissionregistration.k8s.io/v1"
    yield one("MutatingWebhookConfiguration", api, "hami-webhook", spaced=False, webhooks=[webhook])
