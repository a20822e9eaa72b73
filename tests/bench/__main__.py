"""``python -m tests.bench``: the budgets of filter as a table, with ratios to the budget and to HAMi v2.10 in Go."""

import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
import orjson

from hami_core_py.bench.generate import Size, as_list, generate
from hami_core_py.bench.measure import Load, Result, measure_filter
from hami_core_py.bench.shapes import shapes_of
from hami_core_py.commands.common import load
from tests.bench.vendors import install


@dataclass(frozen=True)
class Row:
    """One line of the table. Budgets and the original's figures are in milliseconds; ``None``: none is set."""

    name: str
    size: Size
    shapes: int
    p50_budget: float
    p99_budget: float | None
    original_p50: float
    original_cpu: float


ROWS = (
    Row("1,000 x 8, 5,000 pods, 300 shapes", Size(1000, 8, 5000), 300, 2.0, 5.0, 140.0, 256.0),
    Row("5,000 x 8, 20,000 pods, 300 shapes", Size(5000, 8, 20000), 300, 5.0, None, 703.0, 1288.0),
    Row("5,000 x 8, 20,000 pods, one shape", Size(5000, 8, 20000), 1, 5.0, None, 703.0, 1288.0),
)
HEADINGS = ("p50 ms", "/budget", "p99 ms", "/budget", "CPU ms", "v2.10/ours", "CPU", "req/s", "RSS MiB", "cold s")


@click.command()
@click.option("--requests", default=600, show_default=True)
@click.option("--runs", default=3, show_default=True, help="The median of each figure is shown.")
@click.option("--pod-events", default=50.0, show_default=True, help="Per second, meanwhile.")
@click.option("--node-changes", default=5.0, show_default=True, help="Per second, meanwhile.")
@click.option("--rows", default=len(ROWS), show_default=True, help="Only the first so many.")
def main(requests: int, runs: int, pod_events: float, node_changes: float, rows: int) -> None:
    """Measure filter over HTTP and print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = load(None).ask.families
        os.environ.update(install(folder / "vendors"))
        sys.path.insert(0, str(folder / "vendors"))
        ask = load(None).ask
        click.echo(f"{len(ask.backends.loaded)} backends, {len(ask.families)} families, {os.cpu_count()} CPUs")
        click.echo(
            f"{requests} requests over one connection; {pod_events:g} pod events and {node_changes:g} node changes per second"
        )
        click.echo(f"\n{'':<36}" + "".join(f"{heading:>11}" for heading in HEADINGS))
        family = next(f for f in own.values() if f.resources.memory and f.resources.core)
        for row in ROWS[:rows]:
            nodes, pods, pod = generate(family, row.size)
            paths = folder / "nodes.json", folder / "pods.json"
            for path, items in zip(paths, (nodes, pods), strict=True):
                path.write_bytes(orjson.dumps(as_list(items)))
            names = [node["metadata"]["name"] for node in nodes]
            shapes = shapes_of(pod, own, row.shapes)
            beside = Load(pod_events=pod_events, node_changes=node_changes)
            results = [
                measure_filter(*paths, shapes, names, requests=requests, load=beside) for _ in range(max(1, runs))
            ]
            click.echo(_line(row, results))


def _line(row: Row, results: list[Result]) -> str:
    def median(field: str) -> float:
        return statistics.median(getattr(result, field) for result in results)

    p50, p99, cpu = median("p50_ms"), median("p99_ms"), median("cpu_ms_per_request")
    cells = (
        f"{p50:.2f}",
        f"{p50 / row.p50_budget:.2f}",
        f"{p99:.2f}",
        f"{p99 / row.p99_budget:.2f}" if row.p99_budget else "-",
        f"{cpu:.2f}",
        f"{row.original_p50 / p50:.0f}x",
        f"{row.original_cpu / cpu:.0f}x" if cpu else "-",
        f"{median('requests_per_s'):.0f}",
        f"{median('rss_mib'):.0f}",
        f"{median('cold_start_s'):.1f}",
    )
    return f"{row.name:<36}" + "".join(f"{cell:>11}" for cell in cells)


if __name__ == "__main__":
    main()
