"""``hami config``: check a configuration file, and show what can be set."""

import json
from pathlib import Path
from typing import Any

import click

from hami_core_py.commands.common import EXIT_BAD_INPUT, load
from hami_core_py.commands.sources import FILE, default_policies, say_bad_input
from hami_core_py.errors import HamiError
from hami_core_py.settings import Settings, load_settings


@click.group()
def command() -> None:
    """Check a configuration file."""


@command.command()
@click.argument("file", type=FILE)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def check(file: Path, output: str) -> None:
    """Read FILE as every process would, with the installed backends.

    Exits 0 when all is well; 2 when a key or value is wrong, and says where and what belongs there. Sections of backends that
    are not installed cannot be checked; they are named.
    """
    try:
        loaded = load(file)
        default_policies(loaded.settings.placement)
        _, sections = load_settings(file)
    except HamiError as problem:
        say_bad_input(problem, output, "hami config check")
        raise SystemExit(EXIT_BAD_INPUT) from problem
    backends = loaded.ask.backends.loaded
    known = {b.info.section or b.info.name for b in backends if b.info.settings is not None}
    unchecked = sorted(set(sections) - known)
    answer: dict[str, Any] = {
        "ok": True,
        "backends": {b.info.name: sorted(r for f in b.families for r in f.resources.names()) for b in backends},
        "unchecked": unchecked,
    }
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
        return
    click.echo(f"{file}: ok")
    for name, resources in answer["backends"].items():
        click.echo(f"  backend {name}: {', '.join(resources) or 'no resources of its own'}")
    for section in unchecked:
        click.echo(f"  section {section}: not checked, its backend is not installed")


@command.command()
def schema() -> None:
    """Print the JSON schema of the configuration file's own sections."""
    click.echo(json.dumps(Settings.model_json_schema(), indent=2))
