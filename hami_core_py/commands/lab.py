"""``hami lab``: the whole system on this machine, without a cluster or a GPU."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from hami_core_py.commands.common import EXIT_NO, fail, load
from hami_core_py.commands.lab_report import Reporter
from hami_core_py.errors import HamiError
from hami_core_py.lab.cluster import LabCluster
from hami_core_py.lab.play import Outcome, Player
from hami_core_py.lab.pod_facts import shares_of, told
from hami_core_py.lab.processes import LabError, until
from hami_core_py.lab.report import pods_table, summary
from hami_core_py.lab.scenario import load_scenario
from hami_core_py.lab.state import LabState, container_env, default_directory
from hami_core_py.lab.steps import Scenario

FOR_PROGRAMS = click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
DIRECTORY = click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=default_directory,
    help="Where the lab that is left running keeps its files; a short path.",
)


@click.group()
def command() -> None:
    """The whole system on this machine, without a cluster or a GPU."""


@command.command()
@click.argument("scenarios", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--keep", is_flag=True, help="Keep the directory with all logs.")
@FOR_PROGRAMS
def run(scenarios: tuple[Path, ...], keep: bool, output: str) -> None:
    """Start a lab, play scenarios, stop. Exits 0 only if all their expectations hold."""
    console = Console(stderr=output == "json", soft_wrap=True, markup=False)
    # Whoever ends this process must not leave a dozen others behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        families = load(None).ask.families
        loaded = [load_scenario(path, families) for path in scenarios]
        results = [_run(scenario, console, keep) for scenario in loaded]
    except HamiError as problem:
        fail(problem)
        return
    if output == "json":
        click.echo(json.dumps(results if len(results) > 1 else results[0], indent=2))
    if not all(result["passed"] for result in results):
        raise SystemExit(EXIT_NO)


@command.command()
@DIRECTORY
@click.option("--scenario", type=click.Path(path_type=Path, exists=True), help="Take the nodes of this scenario.")
def up(directory: Path, scenario: Path | None) -> None:
    """Start a lab and leave it running."""
    state = LabState(directory)
    if state.is_running():
        fail(f"a lab runs already in {directory} (pid {state.pid()}); `hami lab down` ends it")
    if scenario is not None:
        try:
            load_scenario(scenario, load(None).ask.families)
        except HamiError as problem:
            fail(problem)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    arguments = ["--dir", str(directory), *(["--scenario", str(scenario.resolve())] if scenario else [])]
    with (directory / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "hami_core_py.lab.supervisor", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    console = Console(soft_wrap=True, markup=False)
    try:
        _follow(state, process, console)
    except LabError as problem:
        fail(problem, EXIT_NO)
    console.print(f"\nexport KUBECONFIG={state.kubeconfig}", highlight=False)


@command.command()
@DIRECTORY
def down(directory: Path) -> None:
    """End the lab that was left running, and remove its files."""
    state = LabState(directory)
    pid = state.pid()
    if pid is None or not state.is_running():
        click.echo(f"no lab runs in {directory}")
    else:
        os.kill(pid, signal.SIGTERM)
        try:
            until(lambda: not state.is_running(), 60, f"pid {pid} does not end; see {directory}/supervisor.log")
        except LabError as problem:
            fail(problem, EXIT_NO)
        click.echo("the lab has ended")
    shutil.rmtree(directory, ignore_errors=True)


@command.command()
@DIRECTORY
@click.option("--kubeconfig", is_flag=True, help="Print only the path of the kubeconfig.")
@FOR_PROGRAMS
def status(directory: Path, kubeconfig: bool, output: str) -> None:
    """What runs of the lab that was left running. Exits 1 when none does."""
    state = LabState(directory)
    if kubeconfig:
        click.echo(state.kubeconfig)
    elif output == "json":
        click.echo(json.dumps(state.describe(), indent=2))
    else:
        described = state.describe()
        click.echo(f"{'running' if described['running'] else 'not running'}: {directory}")
        for name, pid in described["processes"].items():
            click.echo(f"  {name:<28} {f'pid {pid}' if pid else 'ended'}")
    if not state.is_running():
        raise SystemExit(EXIT_NO)


def _run(scenario: Scenario, console: Console, keep: bool) -> dict[str, Any]:
    began = time.monotonic()
    # Unix sockets live below this directory, and their paths are limited to 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="hami-", dir="/tmp"))
    console.print(Text(str(scenario.path), style="bold"), highlight=False)
    loaded = load(None)
    families = tuple(loaded.ask.families.values())
    lab = LabCluster(directory, scenario.shape, families, lambda line: console.print(f"  {line}", highlight=False))
    try:
        lab.start()
        player = _player(lab, Reporter(console, lab.client, loaded))
        outcomes = player.play(scenario)
        pods = player.pods()
        console.print()
        console.print(pods_table(pods))
    except HamiError:
        keep = True
        raise
    finally:
        lab.stop()
        if keep:
            console.print(f"logs are in {directory}/logs", highlight=False)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    seconds = time.monotonic() - began
    console.print()
    console.print(summary(outcomes, seconds))
    return _result(scenario, outcomes, pods, seconds)


def _player(lab: LabCluster, tell: Callable[[Outcome], None]) -> Player:
    def env_of(pod: Mapping[str, Any], container: str) -> Mapping[str, str]:
        return container_env(lab.node_directory(pod["spec"]["nodeName"]), pod, container)

    return Player(
        client=lab.client,
        act=lab.act,
        env_of=env_of,
        simulator_of=lab.simulators.get,
        scrape=lab.scrape,
        tell=tell,
    )


def _result(
    scenario: Scenario, outcomes: Sequence[Outcome], pods: Sequence[Mapping[str, Any]], seconds: float
) -> dict[str, Any]:
    return {
        "scenario": str(scenario.path),
        "passed": all(outcome.ok for outcome in outcomes),
        "seconds": round(seconds, 1),
        "steps": [
            {
                "where": outcome.where,
                "kind": outcome.kind,
                "text": outcome.text,
                "ok": outcome.ok,
                "problem": outcome.problem,
                "seconds": round(outcome.seconds, 2),
            }
            for outcome in outcomes
        ],
        "pods": [
            {
                "pod": f"{pod['metadata']['namespace']}/{pod['metadata']['name']}",
                "phase": (pod.get("status") or {}).get("phase"),
                "node": pod["spec"].get("nodeName"),
                "shares": list(shares_of(pod)),
                "told": told(pod),
            }
            for pod in pods
        ],
    }


def _follow(state: LabState, process: subprocess.Popen[bytes], console: Console) -> None:
    """Show the supervisor's progress until the lab is ready."""
    shown = 0
    deadline = time.monotonic() + 300
    while True:
        lines = state.progress()
        for line in lines[shown:]:
            console.print(f"  {line}", highlight=False)
        shown = len(lines)
        if state.is_ready():
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise LabError(f"the lab did not start; see {state.directory}/supervisor.log")
        time.sleep(0.1)
