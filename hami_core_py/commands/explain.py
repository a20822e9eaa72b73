"""``hami explain``: where a pod fits, and why not elsewhere."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.commands.common import EXIT_BAD_INPUT, EXIT_NO, Loaded, load
from hami_core_py.commands.sources import (
    FILE,
    admission_rules,
    find_pod,
    read_cluster,
    read_objects,
    read_pod,
    say_bad_input,
    snapshot_of,
)
from hami_core_py.decisions.admission import PodWrite, admit
from hami_core_py.decisions.explain import NodeExplanation
from hami_core_py.decisions.pod_shape import misshapen
from hami_core_py.decisions.sentences import sentence
from hami_core_py.errors import BadInputError, HamiError
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Refusal
from hami_core_py.models.families import Family
from hami_core_py.models.views import pod_view
from hami_core_py.services.snapshot import Explanation, JsonObject

SHOWN_NODES = 20
"""Refused nodes that the text for people shows device by device; programs get all."""


@click.command()
@click.argument("pod")
@click.option("--nodes", type=FILE, help="Nodes, as `kubectl get nodes -o json` saves them; then no cluster is needed.")
@click.option("--pods", type=FILE, help="Pods, as `kubectl get pods -A -o json` saves them.")
@click.option("--quotas", type=FILE, help="Resource quotas, as `kubectl get resourcequotas -A -o json` saves them.")
@click.option("--config", type=FILE, help="Device configuration (YAML).")
@click.option("--kubeconfig", type=click.Path(path_type=Path), envvar="KUBECONFIG", help="Cluster to ask.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    pod: str,
    nodes: Path | None,
    pods: Path | None,
    quotas: Path | None,
    config: Path | None,
    kubeconfig: Path | None,
    output: str,
) -> None:
    """Say where POD fits, and why not elsewhere. POD is a manifest file, or namespace/name of a saved pod or of a cluster's.

    Exits 0 when it fits, 1 when it does not, 2 when something was given that cannot be read.
    """
    try:
        loaded = load(config)
        explanation = _explain(loaded, pod, kubeconfig, nodes, pods)
        if quotas is not None:
            read_objects(quotas, "ResourceQuota")
    except (HamiError, ApiError) as problem:
        say_bad_input(problem, output, "hami explain")
        raise SystemExit(EXIT_BAD_INPUT) from problem
    answer = as_json(explanation, loaded.ask.families)
    if quotas is not None:
        # Saying nothing would make a limit look unlimited.
        click.echo(
            "warning: quotas are not counted yet: the answer holds only where no quota is near its limit", err=True
        )
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
    else:
        print_text(Console(soft_wrap=True, markup=False), explanation, loaded.ask.families)
    if not answer["fits"]:
        raise SystemExit(EXIT_NO)


def _explain(loaded: Loaded, name: str, kubeconfig: Path | None, nodes: Path | None, pods: Path | None) -> Explanation:
    is_named = not Path(name).is_file()
    saved = find_pod(name, read_objects(pods, "Pod")) if is_named and pods is not None else None
    needs_cluster = nodes is None or (is_named and saved is None)
    client = Client.from_kubeconfig(kubeconfig, timeout_seconds=30.0) if kubeconfig and needs_cluster else None
    found_pod = saved or read_pod(name, client)
    found_nodes, found_pods = read_cluster(client, nodes, pods)
    snapshot = snapshot_of(found_nodes, found_pods, loaded.ask, loaded.settings)
    return snapshot.explain(pod_view(_admitted(name, found_pod, loaded)))


def _admitted(name: str, pod: JsonObject, loaded: Loaded) -> JsonObject:
    """The pod as the scheduler sees it: a manifest that was never created passes the webhook's decision first.

    :raises BadInputError: the webhook would refuse it.
    """
    if problem := misshapen(pod):
        raise BadInputError(name, "a pod as the API spells it", problem)
    metadata = pod.get("metadata") or {}
    if metadata.get("uid"):
        return pod
    rules = admission_rules(loaded.settings)
    namespace = metadata.get("namespace") or "default"
    verdict = admit(PodWrite(pod=pod, namespace=namespace), loaded.ask, rules)
    if verdict.problem is not None:
        raise verdict.problem
    if not verdict.allowed:
        where = f"pod {namespace}/{metadata.get('name') or metadata.get('generateName') or ''}"
        raise BadInputError(where, "a pod that the webhook admits", verdict.message)
    return verdict.pod


def as_json(explanation: Explanation, families: Mapping[str, Family]) -> dict[str, Any]:
    """The answer for programs; its shape is documented in the reference of commands."""
    placement = explanation.placement
    return {
        "pod": f"{explanation.pod.namespace}/{explanation.pod.name}",
        "fits": any(node.fits for node in explanation.nodes),
        "node": placement.node if placement else None,
        "devices": _devices(placement, families),
        "nodes": [_node(node) for node in explanation.nodes],
        "annotations": dict(explanation.annotations),
    }


def _devices(placement: Placement | None, families: Mapping[str, Family]) -> list[dict[str, Any]]:
    return [
        {
            "container": container.name,
            "backend": families[device.family].backend,
            "id": device.id,
            "memory_mib": share.memory_mib,
            "core_percent": core_percent(share.core_units, device.core_units),
        }
        for container in (placement.containers if placement else ())
        for device, share in container.pairs
    ]


def core_percent(core_units: int, of_units: int) -> int:
    """Part of a device's compute in percent, rounded up; 0 of a device without compute."""
    return -(-100 * core_units // of_units) if of_units else 0


def _node(node: NodeExplanation) -> dict[str, Any]:
    refusals = [
        {"code": r.reason.value, "device": r.device, "message": r.detail or sentence(r.reason)} for r in node.refusals
    ]
    return {"node": node.node, "fits": node.fits, "score": round(node.score, 6), "refusals": refusals}


def print_text(console: Console, explanation: Explanation, families: Mapping[str, Family]) -> None:
    """A short, aligned report that leads with the answer."""
    name = f"{explanation.pod.namespace}/{explanation.pod.name}"
    fitting = [node for node in explanation.nodes if node.fits]
    if placement := explanation.placement:
        console.print(
            Text(f"{name} fits, best on node {placement.node}", style="bold green"),
            Text(f"({len(fitting)} of {len(explanation.nodes)} nodes fit)", style="dim"),
        )
        console.print(_table(_devices(placement, families)))
    elif fitting or not explanation.nodes:
        known = "it asks for no device of an installed backend" if fitting else "there is no node"
        console.print(Text(f"{name}: {known}", style="bold"))
    else:
        console.print(Text(f"{name} fits on none of {len(explanation.nodes)} nodes", style="bold red"))
    others = fitting[1:] if placement else ()
    for node in others[:SHOWN_NODES]:
        console.print(Text(f"  {node.node}  fits, score {node.score:.2f}"))
    refused = [node for node in explanation.nodes if not node.fits]
    for node in refused[:SHOWN_NODES]:
        console.print(Text(f"  {node.node}  refused"))
        for refusal in node.refusals:
            console.print(Text(f"    {refusal_text(refusal)}", style="dim"))
    if len(refused) > SHOWN_NODES:
        console.print(Text(f"  and {len(refused) - SHOWN_NODES} more; -o json shows all", style="dim"))


def refusal_text(refusal: Refusal) -> str:
    """``GPU-0: not-enough-memory: asked 4000 MiB, 3000 of 16384 MiB free``."""
    who = f"{refusal.device}: " if refusal.device else ""
    container = f"container {refusal.container}: " if refusal.container else ""
    return f"{who}{container}{refusal.reason.value}: {refusal.detail or sentence(refusal.reason)}"


def _table(devices: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("  CONTAINER", "BACKEND", "DEVICE"):
        table.add_column(column, no_wrap=True)
    for column in ("MEMORY", "CORES"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in devices:
        memory, cores = f"{row['memory_mib']} MiB", f"{row['core_percent']} %"
        table.add_row(f"  {row['container']}", row["backend"], row["id"], memory, cores)
    return table
