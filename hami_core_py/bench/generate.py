"""Made-up clusters of any size: nodes with devices of one family, pods that share them, and one pod that asks."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hami_core_py.codecs.native import inventory_key, render_inventory
from hami_core_py.codecs.records import write_record
from hami_core_py.models.allocations import ContainerPlacement, Placement
from hami_core_py.models.devices import Device, DeviceId, Share
from hami_core_py.models.families import Family
from hami_core_py.models.requests import ContainerKind
from hami_core_py.models.views import pod_view

JsonObject = dict[str, Any]

MODELS = (("Model S", 16384), ("Model M", 40960), ("Model L", 81920))
"""Models of the generated devices and their memory in MiB; a node has one of them."""

SLOTS = 10
BOUND_AT_NS = 1_788_084_000 * 10**9


@dataclass(frozen=True, slots=True)
class Size:
    """How large a cluster is. ``devices``: per node. ``pods``: bound pods with a share of one device each."""

    nodes: int
    devices: int
    pods: int
    seed: int = 0


@dataclass(slots=True)
class _Seat:
    node: str
    device: Device
    slots: int
    memory_mib: int
    core_units: int

    def has_room(self, share: Share) -> bool:
        return self.slots > 0 and self.memory_mib >= share.memory_mib and self.core_units >= share.core_units

    def take(self, share: Share) -> None:
        self.slots, self.memory_mib = self.slots - 1, self.memory_mib - share.memory_mib
        self.core_units -= share.core_units


def generate(family: Family, size: Size) -> tuple[list[JsonObject], list[JsonObject], JsonObject]:
    """Nodes, bound pods, and a pod that asks. The same size and seed give the same objects.

    :raises ValueError: so many pods do not fit on these devices.
    """
    chance = random.Random(size.seed)  # noqa: S311 - made-up load, not a secret
    inventory = {f"node-{i:05}": _devices(family, i, size.devices, chance) for i in range(size.nodes)}
    nodes = [_node(name, family, devices) for name, devices in inventory.items()]
    pods = list(_pods(family, inventory, size, chance))
    return nodes, pods, asking_pod(family, "asks", 4000, 30)


def as_list(items: Sequence[JsonObject]) -> JsonObject:
    """Objects as ``kubectl get -o json`` prints them."""
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": list(items)}


def asking_pod(family: Family, name: str, memory_mib: int, core_units: int, count: int = 1) -> JsonObject:
    """A pod that is not bound and asks for shares."""
    return _pod(name, _amounts(family, memory_mib, core_units, count))


def bound_pod(family: Family, name: str, node: str, device: Device, share: Share) -> JsonObject:
    """A running pod with its record."""
    pod = _pod(name, _amounts(family, share.memory_mib, share.core_units, 1))
    placed = ContainerPlacement(name="main", kind=ContainerKind.APP, pairs=((device, share),))
    record = write_record(
        pod_view(pod), Placement(node=node, containers=(placed,)), {family.name: family}, at_ns=BOUND_AT_NS
    )
    pod["metadata"]["annotations"] = record
    pod["spec"]["nodeName"] = node
    pod["status"] = {
        "phase": "Running",
        "conditions": [{"type": t, "status": "True"} for t in ("PodScheduled", "Initialized", "Ready")],
        "containerStatuses": [{"name": "main", "ready": True, "restartCount": 0, "image": "app", "imageID": "app"}],
    }
    return pod


def _devices(family: Family, node: int, count: int, chance: random.Random) -> tuple[Device, ...]:
    model, memory_mib = chance.choice(MODELS)
    return tuple(
        Device(
            id=DeviceId(f"{family.backend}-{node:05}-{i}"),
            family=family.name,
            index=i,
            model=f"{family.name} {model}",
            slots=SLOTS,
            memory_mib=memory_mib,
            numa=i * 2 // count,
        )
        for i in range(count)
    )


def _node(name: str, family: Family, devices: Sequence[Device]) -> JsonObject:
    amounts = {"cpu": "96", "memory": "1048576Mi", "pods": "110", family.resources.count: str(len(devices) * SLOTS)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "a"},
            "annotations": {inventory_key(family.backend): render_inventory(family.backend, devices, "late")},
        },
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
                {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
                {"type": "Ready", "status": "True", "reason": "KubeletReady"},
            ],
            "images": [{"names": [f"registry.example/app-{i}:1"], "sizeBytes": 1_000_000 + i} for i in range(20)],
        },
    }


def _pods(
    family: Family, inventory: dict[str, tuple[Device, ...]], size: Size, chance: random.Random
) -> Iterator[JsonObject]:
    seats = [
        _Seat(node, device, device.slots, device.memory_mib, device.core_units)
        for node, devices in inventory.items()
        for device in devices
    ]
    for number in range(size.pods):
        share = Share(memory_mib=chance.choice((512, 1024, 2048, 4096)), core_units=chance.choice((0, 5, 10, 20)))
        seat = next((s for s in (chance.choice(seats) for _ in range(1000)) if s.has_room(share)), None)
        if seat is None:
            raise ValueError(f"the {len(seats)} devices are full; expected fewer pods")
        seat.take(share)
        yield bound_pod(family, f"pod-{number:06}", seat.node, seat.device, share)


def _amounts(family: Family, memory_mib: int, core_units: int, count: int) -> dict[str, str]:
    resources = family.resources
    amounts = {resources.count: str(count)}
    if resources.memory and family.memory.allowed_units is None:
        per_unit = family.memory.unit_mib * (count if family.memory.per == "container" else 1)
        amounts[resources.memory] = str(max(1, memory_mib // per_unit))
    if resources.core:
        amounts[resources.core] = str(core_units)
    return amounts


def _pod(name: str, amounts: dict[str, str]) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "bench",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {"app": "bench"},
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/app:1",
                    "command": ["run", "--steps", "1000"],
                    "env": [{"name": "MODE", "value": "train"}],
                    "resources": {"limits": {**amounts, "cpu": "4", "memory": "16Gi"}, "requests": dict(amounts)},
                    "volumeMounts": [
                        {
                            "name": "token",
                            "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                            "readOnly": True,
                        }
                    ],
                }
            ],
            "volumes": [
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607}}]}}
            ],
            "schedulerName": "hami-scheduler",
            "serviceAccountName": "default",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            ],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
