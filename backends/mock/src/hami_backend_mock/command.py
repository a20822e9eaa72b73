"""The command ``hami-sim``."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from hami_backend_mock import sim


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--state", type=click.Path(path_type=Path), envvar=sim.STATE, help="File that holds the devices.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of answers.")
@click.pass_context
def main(context: click.Context, state: Path | None, output: str) -> None:
    """Simulated devices: start them, show them, disturb them."""
    context.obj = (state, output)


def _answer(context: click.Context, *words: str, accept: Sequence[int] = (0,)) -> Any:
    state, output = context.obj
    try:
        answer = sim.ask(*words, state=state, accept=accept)
    except sim.SimulatorError as problem:
        raise click.ClickException(str(problem)) from problem
    if output == "json":
        click.echo(json.dumps(answer))
    return answer


@main.command(name="start")
@click.argument("what")
@click.pass_context
def start_command(context: click.Context, what: str) -> None:
    """Put new devices in place: WHAT is a YAML file, or short text as in 4xA100-80G,T4."""
    state, output = context.obj
    if state is None:
        raise click.ClickException(f"no file to hold the devices; give --state or set {sim.STATE}")
    file = Path(what)
    try:
        sim.start(state, yaml.safe_load(file.read_text()) if file.suffix in (".yaml", ".yml") else what)
    except (sim.SimulatorError, OSError, yaml.YAMLError) as problem:
        raise click.ClickException(str(problem)) from problem
    click.echo(
        json.dumps(sim.environment(state)) if output == "json" else exports(sim.environment(state)), nl=output == "json"
    )


def exports(variables: Mapping[str, str]) -> str:
    """Shell commands that put a terminal on the simulated devices."""
    return "".join(f"export {name}={value}\n" for name, value in variables.items() if value)


@main.command()
@click.pass_context
def show(context: click.Context) -> None:
    """Devices, what they do, and who uses them."""
    answer = _answer(context, "show")
    if context.obj[1] == "text":
        click.echo(table(answer))


def table(shown: Mapping[str, Any]) -> str:
    """Devices and processes for people."""
    lines = [
        f"simulated driver {shown['driver_version']} (interface {shown['driver'] // 1000}.{shown['driver'] % 1000 // 10})"
    ]
    for one in shown["devices"]:
        state = "LOST" if one["lost"] else f"{one['percent']:3d} %"
        used, total = one["memory_used_bytes"] // sim.MIB, one["memory_total_bytes"] // sim.MIB
        lines.append(f"{one['index']:3d}  {one['name']:28s} {one['uuid']:41s} {state:6s} {used:7d} of {total} MiB")
    lines.append("")
    for process in shown["processes"]:
        for use in process["devices"]:
            where = f"{use['device']:3d}  pid {process['pid']:<8d}{process['container'] or '-':24s}"
            lines.append(f"{where} {use['bytes'] // sim.MIB:7d} MiB  {process['name']}")
    return "\n".join(lines if shown["processes"] else [*lines, "no process uses a device"])


@main.command()
@click.pass_context
def ps(context: click.Context) -> None:
    """Processes on the devices."""
    answer = _answer(context, "ps")
    if context.obj[1] == "text":
        for process in answer:
            used = sum(use["bytes"] for use in process["devices"]) // sim.MIB
            click.echo(f"{process['pid']:8d}  {process['container'] or '-':24s} {used:7d} MiB  {process['name']}")


@main.command()
@click.pass_context
def judge(context: click.Context) -> None:
    """Containers against their limits; status 1 when one ever went over."""
    answer = _answer(context, "judge", accept=(0, 1))
    over = [one for one in answer if one["violations"]]
    if context.obj[1] == "text":
        for one in answer:
            click.echo(
                f"{one['container'] or '-':24s} {'over ' + str(one['violations']) + ' times' if one['violations'] else 'kept'}"
            )
    if over:
        context.exit(1)


def _passing(name: str, words: str, sentence: str) -> None:
    """A sub-command that is handed on as it is."""

    @main.command(
        name=name,
        help=sentence,
        context_settings={"ignore_unknown_options": True},
        options_metavar="",
        short_help=sentence,
    )
    @click.argument("words", nargs=-1, required=True, metavar=words)
    @click.pass_context
    def handed_on(context: click.Context, words: tuple[str, ...]) -> None:
        _answer(context, name, *words)


_passing(
    "fault",
    "ENTRY CODE [skip=N] [times=N] [delay_ms=N] [container=TAG] | clear",
    "Have an entry point answer with a code.",
)
_passing("xid", "DEVICE NUMBER", "Raise a critical event.")
_passing("lose", "DEVICE", "Let a device fall off its bus.")
_passing("recover", "DEVICE", "Bring a lost device back.")
_passing(
    "limit",
    "CONTAINER DEVICE [memory_mib=N] [slack_mib=N] [cores=N cores_slack=POINTS [window_ms=N]]",
    "Tell the judge what a container may use.",
)
_passing("set", "DEVICE KEY=VALUE ...", "Set a property: temperature, compute_mode, ecc, visible.")
_passing("mig", "DEVICE on|off | create DEVICE PROFILE [START] | destroy UUID", "Cut a device into instances.")
_passing("clock", "[+NANOSECONDS]", "Move a virtual clock.")


@main.command(
    name="certify",
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    options_metavar="[OPTION]...",
    short_help="Try a limiter: one JSON object per case.",
)
@click.argument("words", nargs=-1, metavar="LIBRARY")
def certify(words: tuple[str, ...]) -> None:
    """Try a limiter on simulated devices; `hami certify` tells the same in a table."""
    from hami_backend_mock.certify.command import main as certify_main  # the cases, which nobody else waits for

    certify_main(args=list(words), prog_name=f"{sim.COMMAND} certify")


if __name__ == "__main__":
    main(prog_name=sim.COMMAND)
