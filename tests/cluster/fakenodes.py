"""Nodes without a kubelet, with devices as an agent would have reported them. Their pods stay Pending once bound."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import AlreadyExists
from hami_core_py.codecs.native import inventory_key, render_inventory
from hami_core_py.decisions.totals import node_totals
from hami_core_py.models.devices import Device, DeviceId
from hami_core_py.models.families import Family

NODES = "/api/v1/nodes"
THREADS = 8


def devices_of(family: Family, node: str, count: int, *, memory_mib: int = 10000, slots: int = 10) -> list[Device]:
    """Some devices of a node, all alike."""
    return [
        Device(
            id=DeviceId(f"GPU-{node}-{index}"),
            family=family.name,
            index=index,
            model=f"{family.name} simulated",
            slots=slots,
            memory_mib=memory_mib,
            modes=("hami-core",),
        )
        for index in range(count)
    ]


def add_node(
    client: Client,
    name: str,
    family: Family,
    devices: Sequence[Device] = (),
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    capacity: Mapping[str, str] | None = None,
    totals: bool = True,
) -> str:
    """Create a node that is Ready; its name. :param totals: whether memory and cores are published as well as the count."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", **(capacity or {})}
    if devices:
        amounts[family.resources.count] = str(sum(device.slots for device in devices))
    if devices and totals:
        amounts |= {key: str(amount) for key, amount in node_totals(devices, {family.name: family}).items()}
    ready = {"type": "Ready", "status": "True", "reason": "Fake", "message": "", "lastTransitionTime": None}
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
    }
    if devices:
        text = render_inventory(family.backend, devices, "late")
        metadata["annotations"] = {inventory_key(family.backend): text}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": list(taints)},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }
    try:
        client.create(NODES, node)
    except AlreadyExists:  # An earlier attempt of the test has left it.
        client.delete(join_path("api", "v1", "nodes", name))
        client.create(NODES, node)
    return name


def add_nodes(client: Client, family: Family, count: int, *, devices: int = 8, prefix: str = "fake") -> list[str]:
    """Create many nodes, all alike; their names."""

    def create(number: int) -> str:
        name = f"{prefix}-{number:05}"
        return add_node(client, name, family, devices_of(family, name, devices))

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(create, range(count)))


def remove_nodes(client: Client) -> None:
    """Delete all nodes."""
    names = [node["metadata"]["name"] for node in client.list(NODES)[0]]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda name: client.delete(join_path("api", "v1", "nodes", name)), names))
