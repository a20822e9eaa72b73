"""The simulated driver: where its libraries are, what a process needs to run on it, and the ``hami-sim`` command.

The devices of a node are one file, named by ``HAMI_SIM_STATE``; processes that share it share the devices.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

LIBRARIES, STATE, CONTAINER = "HAMI_SIM_LIBRARIES", "HAMI_SIM_STATE", "HAMI_SIM_CONTAINER"
COMMAND, CLIENT = "hami-sim", "hami-sim-client"
MIB = 2**20


class SimulatorError(Exception):
    """The simulated driver cannot do what was asked."""


def libraries() -> Path:
    """Folder with ``libcuda.so.1``, ``libnvidia-ml.so.1`` and the command.

    In a source checkout they are compiled when they are missing or older than their sources.
    """
    if told := os.environ.get(LIBRARIES):
        return Path(told)
    bundled = Path(__file__).resolve().parent / "simulator"
    if (bundled / COMMAND).exists():
        return bundled
    root = Path(__file__).resolve().parents[4]
    build = root / "hami-core-c" / "simulator" / "build.py"
    if not build.exists():
        raise SimulatorError(
            f"no simulated driver in {bundled}: this installation was built without it; set {LIBRARIES}"
        )
    folder = root / "build" / "sim"
    done = subprocess.run([sys.executable, str(build), str(folder)], capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise SimulatorError(f"the simulated driver does not compile: {done.stderr.strip()}")
    return folder


def environment(state: Path, container: str = "") -> dict[str, str]:
    """Variables under which a process finds the simulated driver instead of a real one.

    :param container: name under which the simulator books what the process uses.
    """
    return {"LD_LIBRARY_PATH": str(libraries()), STATE: str(state), CONTAINER: container}


def ask(*words: str, state: Path | None = None, lines: str | None = None, accept: Sequence[int] = (0,)) -> Any:
    """Answer of the simulator's command. :raises SimulatorError: with its own words."""
    variables = dict(os.environ) | ({STATE: str(state)} if state else {})
    done = subprocess.run(  # noqa: S603
        [str(libraries() / COMMAND), *words], env=variables, input=lines, capture_output=True, text=True
    )
    if done.returncode not in accept:
        raise SimulatorError(done.stderr.strip() or f"{COMMAND} ended with {done.returncode}")
    return json.loads(done.stdout)


def start(state: Path, config: Mapping[str, Any] | str) -> None:
    """Put new devices in place.

    :param config: short text as in ``4xA100-80G,T4``, or settings with ``cards``, a list of mappings with ``profile``.
    """
    state.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(config, str):
        ask("start", config, state=state)
    else:
        ask("start", "-", state=state, lines="\n".join(config_lines(config)) + "\n")


def config_lines(config: Mapping[str, Any]) -> Iterator[str]:
    """The command's own form of settings. :raises SimulatorError: names what is wrong."""
    cards = config.get("cards", [])
    if not isinstance(cards, list) or not cards:
        raise SimulatorError(
            "cards: expected a list of mappings with a profile each, such as {profile: A100-80G, count: 2}"
        )
    for key, value in config.items():
        if key != "cards":
            yield f"{key}={_word(value)}"
    for index, card in enumerate(cards):
        if not isinstance(card, dict) or "profile" not in card:
            raise SimulatorError(f"cards[{index}]: expected a mapping with a profile, got {card!r}")
        more = (f"{key}={_word(value)}" for key, value in card.items() if key != "profile")
        yield " ".join(("card", str(card["profile"]), *more))


def _word(value: Any) -> str:
    """One word of a line; blanks in names travel as underscores."""
    if isinstance(value, bool):
        return str(int(value))
    return str(value).replace(" ", "_")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--state", type=click.Path(path_type=Path), envvar=STATE, help="File that holds the devices.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Form of answers.")
@click.pass_context
def main(context: click.Context, state: Path | None, output: str) -> None:
    """Simulated devices: start them, show them, disturb them."""
    context.obj = (state, output)


def _answer(context: click.Context, *words: str, accept: Sequence[int] = (0,)) -> Any:
    state, output = context.obj
    try:
        answer = ask(*words, state=state, accept=accept)
    except SimulatorError as problem:
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
        raise click.ClickException(f"no file to hold the devices; give --state or set {STATE}")
    file = Path(what)
    try:
        start(state, yaml.safe_load(file.read_text()) if file.suffix in (".yaml", ".yml") else what)
    except (SimulatorError, OSError, yaml.YAMLError) as problem:
        raise click.ClickException(str(problem)) from problem
    click.echo(json.dumps(environment(state)) if output == "json" else exports(environment(state)), nl=output == "json")


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
        used, total = one["memory_used_bytes"] // MIB, one["memory_total_bytes"] // MIB
        lines.append(f"{one['index']:3d}  {one['name']:28s} {one['uuid']:41s} {state:6s} {used:7d} of {total} MiB")
    lines.append("")
    for process in shown["processes"]:
        for use in process["devices"]:
            where = f"{use['device']:3d}  pid {process['pid']:<8d}{process['container'] or '-':24s}"
            lines.append(f"{where} {use['bytes'] // MIB:7d} MiB  {process['name']}")
    return "\n".join(lines if shown["processes"] else [*lines, "no process uses a device"])


@main.command()
@click.pass_context
def ps(context: click.Context) -> None:
    """Processes on the devices."""
    answer = _answer(context, "ps")
    if context.obj[1] == "text":
        for process in answer:
            used = sum(use["bytes"] for use in process["devices"]) // MIB
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
    from hami_backend_mock.certify.command import main as certify_main

    certify_main(args=list(words), prog_name=f"{COMMAND} certify")


def client() -> None:
    """The command ``hami-sim-client``: become the small program that comes with the driver."""
    program = libraries() / CLIENT
    os.execv(program, [CLIENT, *sys.argv[1:]])  # noqa: S606 - our own program


if __name__ == "__main__":
    main(prog_name=COMMAND)
