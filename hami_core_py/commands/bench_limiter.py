"""``hami bench limiter``: the limiter's costs and its error, on a simulated card."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hami_core_py.bench.limiter import CELLS, PROFILES, Cell, costs, environment, held, share, start_seconds
from hami_core_py.commands.common import EXIT_NO, fail
from hami_core_py.errors import HamiError
from hami_core_py.lab.simulator import Simulator, look_for

CONTEXT_MIB = 64
"""Small enough for hundreds of programs on one card."""


@click.command("limiter")
@click.option("--rounds", type=click.IntRange(1), default=7, show_default=True, help="How often each program is asked.")
@click.option("--processes", type=click.IntRange(1), default=300, show_default=True, help="How many start at once.")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), default=10.0, show_default=True, help="Of each share."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(rounds: int, processes: int, seconds: float, output: str) -> None:
    """Measure what the limiter costs, and how exactly it shares a simulated card."""
    try:
        with tempfile.TemporaryDirectory(prefix="hami-bench-") as folder:
            measured = measure(Path(folder), rounds, processes, seconds)
    except HamiError as problem:
        fail(problem, EXIT_NO)
        return
    click.echo(json.dumps(measured, indent=2) if output == "json" else "\n".join(lines(measured)))


def measure(folder: Path, rounds: int, processes: int, seconds: float) -> dict[str, Any]:
    """Everything, for programs. :raises HamiError: it cannot be measured here."""
    cards = {sms: _card(folder / profile, profile) for sms, profile in PROFILES.items()}
    _, env, driver = cards[CELLS[0].sms]
    bare, ours = costs(driver, env, rounds)
    start = {"bare": start_seconds([], env, processes), "ours": start_seconds(held(), env, processes)}

    def error(number: int, cell: Cell) -> dict[str, Any]:
        simulator, env, _ = cards[cell.sms]

        def percents(tags: Sequence[str], over: float) -> list[float]:
            return list(look_for(simulator, {tag: tag for tag in tags}, over).values())

        return share(cell, env, f"cell-{number}", seconds, percents)

    errors = [error(number, cell) for number, cell in enumerate(CELLS)]
    return {
        "bare": {name: round(value, 1) for name, value in bare.items()},
        "ours": {name: round(value, 1) for name, value in ours.items()},
        f"start_{processes}_s": {name: round(value, 3) for name, value in start.items()},
        "share_error": errors,
    }


def _card(state: Path, profile: str) -> tuple[Simulator, dict[str, str], Path]:
    """A simulated card, variables of programs that use it, and its driver's folder."""
    simulator = Simulator(state, {"cards": [{"profile": profile, "context_mib": CONTEXT_MIB}]})
    variables = simulator.start()
    driver = Path(variables["LD_LIBRARY_PATH"])
    return simulator, environment(variables, driver), driver


def lines(measured: dict[str, Any]) -> list[str]:
    """The same for people: what it costs over the bare driver, then the shares."""
    bare, ours = measured["bare"], measured["ours"]
    told = [f"{'call':34} {'bare':>10} {'limiter':>10} {'costs':>10}"]
    for name, value in ours.items():
        before = bare[name]
        told.append(f"{name:34} {before:10.1f} {value:10.1f} {value - before:10.1f}")
    for name, start in measured.items():
        if name.startswith("start_"):
            told.append(f"{name:34} {start['bare']:10.3f} {start['ours']:10.3f} {start['ours'] - start['bare']:10.3f}")
    told += ["", "shares on the simulator's time model, in percent of the card's time"]
    for cell in measured["share_error"]:
        where = f"{cell['processes']} × {cell['kernel_us']} µs on {cell['sms']} SMs, neighbour {cell['neighbour']}"
        told.append(f"{where:48} limit {cell['limit']:3}  got {cell['measured']:6.2f}  allowed ± {cell['allowed']:g}")
    return told
