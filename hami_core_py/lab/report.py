"""What a lab run came to, for people: where each pod went and why, and why a refused one fits nowhere."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hami_core_py.lab.play import Outcome
from hami_core_py.lab.pod_facts import shares_of, told

MARKS = {True: Text("ok  ", style="green"), False: Text("FAIL", style="bold red")}


def print_outcome(console: Console, outcome: Outcome) -> None:
    """One line per step, as it happens."""
    if outcome.kind == "say":
        console.print(Text(f"\n{outcome.text}", style="bold"), highlight=False)
        return
    line = Text("  ") + MARKS[outcome.ok] + Text(f"  {outcome.text}")
    line.append(f"  {outcome.seconds:.1f} s", style="dim")
    console.print(line, highlight=False)
    if outcome.problem:
        console.print(Text(f"        {outcome.where}: {outcome.problem}", style="red"), highlight=False)


def pods_table(pods: Sequence[Mapping[str, Any]]) -> Table:
    """Where each pod is, with its shares."""
    table = Table(title="Pods", title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in ("POD", "STATE", "NODE", "SHARES"):
        table.add_column(column, no_wrap=column != "SHARES", overflow="fold")
    for pod in pods:
        metadata, status = pod["metadata"], pod.get("status") or {}
        name = f"{metadata['namespace']}/{metadata['name']}"
        node = pod["spec"].get("nodeName") or "—"
        table.add_row(name, status.get("phase", ""), node, shares_text(pod) or told(pod) or "—")
    return table


def shares_text(pod: Mapping[str, Any]) -> str:
    """``main: 4000 MiB, 30 cores of GPU-a0 (model)``, one a line."""
    return "\n".join(
        f"{share['container']}: {share.get('memory', 0)} MiB, {share.get('cores', 0)} cores of {share['uuid']}"
        for share in shares_of(pod)
    )


def summary(outcomes: Sequence[Outcome], seconds: float) -> Text:
    """The last line."""
    expectations = [o for o in outcomes if o.kind.startswith("expect")]
    failed = [o for o in outcomes if not o.ok]
    held = sum(o.ok for o in expectations)
    text = f"{held} of {len(expectations)} expectations held in {seconds:.0f} s"
    return Text(text, style="bold red" if failed else "bold green")
