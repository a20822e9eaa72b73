"""``hami status``: nodes, devices and who holds which share, from a cluster or from files."""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.commands.common import EXIT_BAD_INPUT, load
from hami_core_py.commands.sources import FILE, read_cluster, say_bad_input, snapshot_of
from hami_core_py.errors import HamiError
from hami_core_py.models.devices import Health
from hami_core_py.services.snapshot import Snapshot


@click.command()
@click.option("--nodes", type=FILE, help="Nodes, as `kubectl get nodes -o json` saves them; then no cluster is needed.")
@click.option("--pods", type=FILE, help="Pods, as `kubectl get pods -A -o json` saves them.")
@click.option("--config", type=FILE, help="Device configuration (YAML).")
@click.option("--kubeconfig", type=click.Path(path_type=Path), envvar="KUBECONFIG", help="Cluster to ask.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(nodes: Path | None, pods: Path | None, config: Path | None, kubeconfig: Path | None, output: str) -> None:
    """Show nodes, devices and shares. Exits 2 when something was given that cannot be read."""
    try:
        loaded = load(config)
        client = Client.from_kubeconfig(kubeconfig, timeout_seconds=30.0) if kubeconfig and nodes is None else None
        found_nodes, found_pods = read_cluster(client, nodes, pods)
        snapshot = snapshot_of(found_nodes, found_pods, loaded.ask, loaded.settings)
    except (HamiError, ApiError) as problem:
        say_bad_input(problem, output, "hami status")
        raise SystemExit(EXIT_BAD_INPUT) from problem
    described = describe(snapshot, [node["metadata"]["name"] for node in found_nodes])
    if output == "json":
        click.echo(json.dumps(described, indent=2))
    else:
        _print(Console(soft_wrap=True, markup=False), described)


def describe(snapshot: Snapshot, nodes: list[str]) -> dict[str, Any]:
    """Everything for programs: nodes by name with their devices, and pods with their shares."""
    devices: dict[str, list[dict[str, Any]]] = {name: [] for name in sorted(nodes)}
    for node, device, usage in snapshot.devices():
        devices.setdefault(node, []).append(
            {
                "id": device.id,
                "family": device.family,
                "model": device.model,
                "index": device.index,
                "healthy": device.health is Health.HEALTHY,
                "slots": {"used": usage.slots, "total": device.slots},
                "memory_mib": {"used": usage.memory_mib, "total": device.memory_mib},
                "core_units": {"used": usage.core_units, "total": device.core_units},
            }
        )
    pods = [
        {
            "pod": f"{holding.namespace}/{holding.name}",
            "node": holding.node,
            "shares": [
                {
                    "container": recorded.container,
                    "device": recorded.device,
                    "memory_mib": recorded.share.memory_mib,
                    "core_units": recorded.share.core_units,
                }
                for recorded in holding.shares
            ],
        }
        for holding in snapshot.holdings()
    ]
    return {"nodes": [{"node": name, "devices": found} for name, found in devices.items()], "pods": pods}


def _print(console: Console, described: dict[str, Any]) -> None:
    devices = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("NODE", "DEVICE", "MODEL"):
        devices.add_column(column, no_wrap=True)
    for column in ("SLOTS", "MEMORY MiB", "CORES"):
        devices.add_column(column, no_wrap=True, justify="right")
    devices.add_column("")
    for node in described["nodes"]:
        for device in node["devices"]:
            amounts = (_of(device[key]) for key in ("slots", "memory_mib", "core_units"))
            health = "" if device["healthy"] else "not healthy"
            devices.add_row(node["node"], device["id"], device["model"], *amounts, health)
        if not node["devices"]:
            devices.add_row(node["node"], "—", "", "", "", "", "")
    console.print(devices)
    if not described["pods"]:
        return
    shares = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("POD", "CONTAINER", "NODE", "DEVICE"):
        shares.add_column(column, no_wrap=True)
    for column in ("MEMORY MiB", "CORES"):
        shares.add_column(column, no_wrap=True, justify="right")
    for pod in described["pods"]:
        for share in pod["shares"]:
            memory, cores = str(share["memory_mib"]), str(share["core_units"])
            shares.add_row(pod["pod"], share["container"], pod["node"], share["device"], memory, cores)
    console.print()
    console.print(shares)


def _of(amount: dict[str, int]) -> str:
    return f"{amount['used']}/{amount['total']}"
