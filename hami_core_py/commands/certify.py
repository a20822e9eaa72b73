"""``hami certify``: try a limiter, anybody's, on simulated devices."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hami_core_py.commands.common import EXIT_BAD_INPUT, EXIT_NO, fail
from hami_core_py.errors import HamiError
from hami_core_py.lab.simulator import find_command


@click.command()
@click.option("--case", "names", multiple=True, metavar="NAME", help="Play this case; may be repeated. Default: all.")
@click.option(
    "--told-by", metavar="environment|file", help="How the limiter is told its limits. Default: what it understands."
)
@click.option("--list", "listed", is_flag=True, help="Tell the cases and play none.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.argument("library", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=False)
def command(names: tuple[str, ...], told_by: str | None, listed: bool, output: str, library: Path | None) -> None:
    """Try LIBRARY, a limiter, on simulated devices: real programs under it, and the simulator as judge.

    Ends with 0 when every case passes, with 1 when one fails, with 2 when nothing could be tried.
    """
    words = [word for name in names for word in ("--case", name)]
    words += ["--told-by", told_by] if told_by else []
    words += ["--list"] if listed else []
    words += [str(library)] if library else []
    told = []
    try:
        for one in answers(words):
            told.append(one)
            if output == "text":
                click.echo("\n".join(lines(one)))
    except HamiError as problem:
        fail(problem, EXIT_BAD_INPUT)
    count = Counter(one.get("result") for one in told)
    if output == "json":
        click.echo(json.dumps(told, indent=2))
    elif not listed:
        click.echo(
            ", ".join(f"{count[result]} {result}" for result in ("passed", "failed", "skipped") if count[result])
        )
    if count["failed"]:
        raise SystemExit(EXIT_NO)


def answers(words: list[str]) -> Iterator[dict[str, Any]]:
    """What came of each case, as soon as it is known. :raises HamiError: nothing could be tried."""
    with subprocess.Popen(  # noqa: S603 - the simulator's own command
        [find_command(), "certify", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        failed = False
        for line in running.stdout:
            one = json.loads(line)
            failed |= one.get("result") == "failed"
            yield one
        problem = running.stderr.read().strip()
    if running.returncode != (EXIT_NO if failed else 0):
        raise HamiError(problem.removeprefix("error: ") or f"the simulator ended with {running.returncode}")


def lines(one: dict[str, Any]) -> Iterator[str]:
    """A case for people."""
    yield f"{one.get('result', ''):8} {one['case']:30} {one['sentence']}"
    if one.get("result") == "failed":
        yield f"{'':39} expected {one['expected']}"
        yield f"{'':39} saw      {one['seen']}"
