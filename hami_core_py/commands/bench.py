"""``hami bench``: measure the real servers on made-up clusters."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import orjson

from hami_core_py.bench.generate import Size, as_list, generate
from hami_core_py.bench.measure import BenchError, Load, measure_filter
from hami_core_py.bench.shapes import shapes_of
from hami_core_py.commands import bench_limiter
from hami_core_py.commands.common import EXIT_BAD_INPUT, EXIT_NO, fail, load
from hami_core_py.commands.sources import FILE, read_objects, read_pod, say_bad_input
from hami_core_py.decisions.pod_shape import misshapen
from hami_core_py.decisions.requests import read_pod_request
from hami_core_py.errors import BadInputError, HamiError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.families import Family
from hami_core_py.models.requests import Policies
from hami_core_py.models.views import pod_view


@click.group()
def command() -> None:
    """Measure the real servers on made-up clusters."""


@command.command("generate")
@click.option("--nodes", type=click.IntRange(1), required=True, help="Number of nodes.")
@click.option("--devices", type=click.IntRange(1, 64), default=8, show_default=True, help="Devices per node.")
@click.option("--pods", type=click.IntRange(0), required=True, help="Bound pods, each with a share of one device.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--family", help="Family of the devices; default: the first that an installed backend has.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder of the files.")
def generate_command(nodes: int, devices: int, pods: int, seed: int, family: str | None, out: Path) -> None:
    """Write nodes.json, pods.json and pod.json, as `kubectl get -o json` prints them."""
    try:
        chosen = _family(family)
        made = generate(chosen, Size(nodes, devices, pods, seed))
    except (HamiError, ValueError) as problem:
        fail(str(problem))
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / "nodes.json").write_bytes(orjson.dumps(as_list(made[0])))
    (out / "pods.json").write_bytes(orjson.dumps(as_list(made[1])))
    (out / "pod.json").write_bytes(orjson.dumps(made[2]))
    click.echo(f"{nodes} nodes with {devices} devices of {chosen.name}, {pods} pods: {out}")


@command.command("filter")
@click.option("--nodes", type=FILE, required=True, help="Nodes, as `kubectl get nodes -o json` prints them.")
@click.option("--pods", type=FILE, required=True, help="Pods of the cluster.")
@click.option("--pod", type=FILE, required=True, help="The pod that asks.")
@click.option("--requests", type=click.IntRange(1), default=300, show_default=True)
@click.option(
    "--shapes", type=click.IntRange(1), default=1, show_default=True, help="Different amounts asked for, in turns."
)
@click.option("--pod-events", type=float, default=0.0, help="Pod events per second meanwhile.")
@click.option("--node-changes", type=float, default=0.0, help="Nodes that change per second meanwhile.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def filter_command(
    nodes: Path,
    pods: Path,
    pod: Path,
    requests: int,
    shapes: int,
    pod_events: float,
    node_changes: float,
    output: str,
) -> None:
    """Filters over HTTP, names only, against the scheduler in a process of its own."""
    try:
        names = [str(node["metadata"]["name"]) for node in read_objects(nodes, "Node")]
        if not names:
            raise BadInputError(str(nodes), "at least one node", "none")
        read_objects(pods, "Pod")
        for path in (nodes, pods):
            _refuse_yaml(path)
        ask = load(None).ask
        asked = dict(_readable(pod, ask))
        families = ask.families
        result = measure_filter(
            nodes,
            pods,
            shapes_of(asked, families, shapes),
            names,
            requests=requests,
            load=Load(pod_events=pod_events, node_changes=node_changes),
        )
    except BenchError as problem:
        fail(str(problem), EXIT_NO)
        return
    except HamiError as problem:
        say_bad_input(problem, output, "hami bench filter")
        raise SystemExit(EXIT_BAD_INPUT) from problem
    if output == "json":
        click.echo(json.dumps(result.as_json()))
        return
    for name, value in result.as_json().items():
        click.echo(f"{name:<20} {value:>10}")


def _refuse_yaml(path: Path) -> None:
    """The processes that are measured are given the files as they are. :raises BadInputError: it is no JSON."""
    try:
        orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as problem:
        raise BadInputError(str(path), "JSON, as `kubectl get -o json` prints it", str(problem)) from problem


def _readable(path: Path, ask: Ask) -> Mapping[str, Any]:
    """The pod of a file. :raises BadInputError: every filter of it would end in an error."""
    found = read_pod(str(path), None)
    if problem := misshapen(found):
        raise BadInputError(str(path), "a pod as the API spells it", problem)
    read_pod_request(pod_view(found), ask, Policies())
    return found


def _family(name: str | None) -> Family:
    families = load(None).ask.families
    if name is None:
        # A family that was always shared by memory and cores says most about the engine.
        shared = [f for f in families.values() if f.resources.memory and f.resources.core]
        found = next(iter(shared or families.values()), None)
        if found is None:
            raise BenchError("no installed backend has devices; install one, such as the mock")
        return found
    if name not in families:
        raise BenchError(f"--family: expected one of {', '.join(families) or 'none'}, got {name!r}")
    return families[name]


command.add_command(bench_limiter.command)
