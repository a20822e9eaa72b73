"""The command ``hami-sim certify``: one JSON object per case and line, as ``hami certify`` reads them."""

import dataclasses
import json
from pathlib import Path

import click

from hami_backend_mock.certify import suite
from hami_backend_mock.certify.case import Told
from hami_backend_mock.certify.stand import Failed
from hami_backend_mock.sim import SimulatorError

EXIT_FAILED, EXIT_BAD_INPUT = 1, 2


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--case", "names", multiple=True, metavar="NAME", help="Play this case; may be repeated. Default: all.")
@click.option("--told-by", type=click.Choice(["environment", "file"]), help="How limits are told; default: tried out.")
@click.option("--list", "listed", is_flag=True, help="Tell the cases and play none.")
@click.argument("library", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
def main(names: tuple[str, ...], told_by: Told | None, listed: bool, library: Path | None) -> None:
    """Play cases on the simulated driver, with LIBRARY as the limiter. Ends with 1 when one of them fails."""
    unknown = [name for name in names if name not in suite.CASES]
    if unknown:
        _fail(f"--case: expected one of {', '.join(suite.CASES)}, got {unknown[0]!r}")
    chosen = [suite.CASES[name] for name in names] or list(suite.CASES.values())
    if listed:
        for one in chosen:
            click.echo(json.dumps({"case": one.name, "sentence": one.sentence}))
        return
    if library is None:
        _fail("LIBRARY: expected the file of a limiter, got nothing")
        return
    try:
        suite.prepare()
        told = told_by or suite.learn(library.resolve())
    except (Failed, SimulatorError) as problem:
        _fail(f"{library}: {problem}")
        return
    verdicts = suite.play_all(
        library.resolve(), told, chosen, lambda verdict: click.echo(json.dumps(dataclasses.asdict(verdict)))
    )
    if any(verdict.result == "failed" for verdict in verdicts):
        raise SystemExit(EXIT_FAILED)


def _fail(problem: str) -> None:
    click.echo(f"hami-sim certify: {problem}", err=True)
    raise SystemExit(EXIT_BAD_INPUT)
