"""``hami backends``: who is loaded, which hooks they answer, and who was left out and why."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from hami_core_py.commands.common import EXIT_BAD_INPUT, configure_logging, fail, load
from hami_core_py.commands.definitions import values_file
from hami_core_py.commands.sources import FILE, say_bad_input
from hami_core_py.errors import BadInputError, HamiError
from hami_core_py.hooks.manager import Backends


@click.group(invoke_without_command=True)
@click.option("--config", type=FILE, help="Device configuration (YAML).")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def command(context: click.Context, config: Path | None, output: str) -> None:
    """Show the installed backends. Exits 2 when they cannot be loaded together."""
    configure_logging("critical")  # who was left out and why is part of the answer
    if context.invoked_subcommand is not None:
        return
    try:
        backends = load(config).ask.backends
    except HamiError as problem:
        say_bad_input(problem, output, "hami backends")
        raise SystemExit(EXIT_BAD_INPUT) from problem
    described = describe(backends)
    if output == "json":
        click.echo(json.dumps(described, indent=2))
    else:
        click.echo("\n".join(_lines(described)))


@command.command()
@click.argument("name")
def chart(name: str) -> None:
    """Print backend NAME as a values file of the Helm chart. Exits 2 when it is not installed."""
    try:
        loaded = {backend.info.name: backend for backend in load(None).ask.backends.loaded}
        if name not in loaded:
            raise BadInputError(
                "hami backends chart", "an installed backend", repr(name), f"known: {', '.join(loaded)}"
            )
        click.echo(values_file(loaded[name]), nl=False)
    except HamiError as problem:
        fail(problem)


def describe(backends: Backends) -> dict[str, Any]:
    """Everything for programs, by name: backends and policies that are loaded, and those left out."""
    return {
        "backends": [
            {
                "name": backend.info.name,
                "vendor": backend.info.vendor,
                "distribution": backend.distribution,
                "api": backend.info.api,
                "families": [
                    {"name": family.name, "resources": list(family.resources.names())} for family in backend.families
                ],
                "hooks": list(backend.hooks),
            }
            for backend in backends.loaded
        ],
        "left_out": [{"name": name, "why": why} for name, why in backends.left_out.items()],
    }


def _lines(described: Mapping[str, Any]) -> Iterator[str]:
    """The same for people."""
    if not described["backends"]:
        yield "no backends; install one, such as: pip install hami-backend-<vendor>"
    for backend in described["backends"]:
        yield f"{backend['name']}  ({backend['distribution']}, contract {backend['api']})"
        for family in backend["families"]:
            yield f"    family {family['name']}: {', '.join(family['resources'])}"
        if not backend["families"]:
            yield "    no family of its own"
        yield f"    hooks: {', '.join(hook.removeprefix('hami_') for hook in backend['hooks'])}"
    for one in described["left_out"]:
        yield f"{one['name']}  left out: {one['why']}"
