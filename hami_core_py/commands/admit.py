"""``hami admit``: what the webhook would do with a pod."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.commands.common import EXIT_BAD_INPUT, EXIT_NO, load
from hami_core_py.commands.sources import FILE, admission_rules, read_pod, say_bad_input
from hami_core_py.decisions.admission import PodWrite, Verdict, admit
from hami_core_py.decisions.bookkeeping import is_bookkeeping
from hami_core_py.errors import BadInputError, HamiError
from hami_core_py.hooks.ask import Ask

UNREADABLE = 400
"""Code of a verdict about something that is no pod."""


@click.command()
@click.argument("pod")
@click.option("--config", type=FILE, help="Device configuration (YAML).")
@click.option("--namespace", default=None, help="Namespace of a manifest that names none.  [default: default]")
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), envvar="KUBECONFIG", help="Cluster to read the pod from."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(pod: str, config: Path | None, namespace: str | None, kubeconfig: Path | None, output: str) -> None:
    """Say what the webhook would do with POD at its creation. POD is a manifest file or namespace/name.

    Exits 0 when the pod is allowed, 1 when it is refused, 2 when something was given that cannot be read.
    """
    try:
        verdict = _admit(pod, config, namespace, kubeconfig)
    except (HamiError, ApiError) as problem:
        say_bad_input(problem, output, "hami admit")
        raise SystemExit(EXIT_BAD_INPUT) from problem
    if output == "json":
        click.echo(json.dumps(as_json(verdict), indent=2))
    else:
        click.echo(as_text(pod, verdict))
    if not verdict.allowed:
        raise SystemExit(EXIT_NO)


def _admit(name: str, config: Path | None, namespace: str | None, kubeconfig: Path | None) -> Verdict:
    loaded = load(config)
    client = Client.from_kubeconfig(kubeconfig) if kubeconfig and not Path(name).is_file() else None
    pod = read_pod(name, client)
    if client is not None:
        pod = as_written(pod, loaded.ask)
    own = metadata.get("namespace") if isinstance(metadata := pod.get("metadata"), Mapping) else None
    write = PodWrite(pod=pod, namespace=namespace or own or "default")
    verdict = admit(write, loaded.ask, admission_rules(loaded.settings))
    if verdict.code == UNREADABLE:
        problem = verdict.message.removeprefix("cannot read the pod: ")
        raise BadInputError(name, "a pod as the API spells it", problem)
    return verdict


def as_written(pod: Mapping[str, Any], ask: Ask) -> dict[str, Any]:
    """A pod of a cluster without what schedulers added since its creation: its node and the records of its devices."""
    metadata = {**(pod.get("metadata") or {})}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {key: text for key, text in annotations.items() if not is_bookkeeping(key, ask)}
    spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
    return {**pod, "metadata": metadata, "spec": spec}


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The answer for programs: allowed, message, warnings, patch operations, and the pod with the patch applied."""
    return {
        "allowed": verdict.allowed,
        "message": verdict.message,
        "warnings": list(verdict.warnings),
        "patch": list(verdict.patch),
        "pod": verdict.pod,
    }


def as_text(name: str, verdict: Verdict) -> str:
    """The answer for people, leading with yes or no."""
    lines = [
        f"{name}: {'allowed' if verdict.allowed else 'refused'}" + (f": {verdict.message}" if verdict.message else "")
    ]
    lines += [f"  warning: {warning}" for warning in verdict.warnings]
    lines += [f"  {op['op']:<7} {op['path']} = {json.dumps(op['value'])}" for op in verdict.patch]
    if verdict.allowed and not verdict.patch:
        lines.append("  nothing is changed")
    return "\n".join(lines)
