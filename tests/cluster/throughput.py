"""``python -m tests.cluster.throughput``: how fast shared pods are scheduled, against plain pods without any of us.

Both run on the same control plane with the same fake nodes, in turns. *Plain*: pods without devices, kube-scheduler's default
configuration, none of our processes. *Shared*: pods that ask for a share, with webhook and extender. Two clocks:

queue     pods wait while the scheduler is held; from letting it go until the last one is bound
arriving  from the first pod's creation, admission included, until the last one is bound

Beside the rates stands what each process spent on the CPU per pod, which says where the time goes. It asserts nothing.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hami_core_py.cluster.client import Client
from tests.cluster.daemons import Daemon, eventually
from tests.cluster.fakenodes import add_nodes
from tests.cluster.hami import WEBHOOKS, Hami
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods, gpu, pod

CLIENTS = 8
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Run:
    """One measured run. :ivar cpu_ms: program → milliseconds of CPU time per pod."""

    pods_per_second: float
    cpu_ms: Mapping[str, float]


class Bench:
    """One control plane with fake nodes.

    :param ignored: resources that kube-scheduler leaves to the extender; ``None``: those that nodes have no total of.
    """

    def __init__(
        self, plane: ControlPlane, hami: Hami, count: int, ignored: set[str] | None, percentage: int | None
    ) -> None:
        self._plane, self._hami, self._count = plane, hami, count
        self._ignored, self._percentage = ignored, percentage
        self._pods = Pods(plane.client)

    def plain(self, clock: str) -> Run:
        """Pods without devices, and nothing of ours."""
        self._plane.start_scheduler({})
        return self._measure(clock, {"cpu": "100m", "memory": "64Mi"}, {})

    def shared(self, clock: str) -> Run:
        """Pods that ask for a share of one device."""
        self._hami.start()
        try:
            self._plane.start_scheduler(self._hami.scheduler_config(ignored=self._ignored, percentage=self._percentage))
            ours = {"extender": self._hami.extender, "webhook": self._hami.webhook}
            return self._measure(clock, gpu(1, 1000, 10, cpu="100m", memory="64Mi"), ours)
        finally:
            self._plane.client.delete(f"{WEBHOOKS}/hami")
            self._hami.stop()

    def _measure(self, clock: str, limits: Mapping[str, str], ours: Mapping[str, Daemon]) -> Run:
        scheduler = self._plane.daemons["kube-scheduler"]
        # A first pod, so that connections are made and both sides have seen all nodes.
        self._create(limits, 1, "first")
        self._wait_bound()
        if clock == "queue":
            scheduler.pause()
            self._create(limits, self._count, "p")
            time.sleep(1)  # The API server hands its last events over.
        spent = _cpu(self._plane.daemons | dict(ours))
        began = time.monotonic()
        if clock == "queue":
            scheduler.resume()
        else:
            self._create(limits, self._count, "p")
        self._wait_bound()
        seconds = time.monotonic() - began
        after = _cpu(self._plane.daemons | dict(ours))
        self._pods.clear()
        cpu = {name: (after[name] - spent[name]) * 1000 / self._count for name in after}
        return Run(pods_per_second=self._count / seconds, cpu_ms=cpu)

    def _create(self, limits: Mapping[str, str], count: int, prefix: str) -> None:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda number: self._pods.create(pod(f"{prefix}-{number:05}", limits)), range(count)))

    def _wait_bound(self) -> None:
        eventually("all pods bound", lambda: not _is_any_unbound(self._plane.client), 600, every=0.1)


def _is_any_unbound(client: Client) -> bool:
    # One pod of those without a node is enough to know; a whole list would cost what is being measured.
    answer = client.get("/api/v1/namespaces/default/pods", {"fieldSelector": "spec.nodeName=", "limit": 1})
    return bool(answer["items"])


def _cpu(daemons: Mapping[str, Daemon]) -> dict[str, float]:
    """Program → CPU seconds it has spent."""
    spent = {}
    for name, daemon in daemons.items():
        fields = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
        spent[name] = (int(fields[11]) + int(fields[12])) / TICKS
    return spent


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--clock", choices=("queue", "arriving"), default="arriving")
    parser.add_argument("--shortlist", type=int, help="placement.shortlist; by default ours")
    parser.add_argument("--percentage", type=int, help="percentageOfNodesToScore; by default kube-scheduler's")
    parser.add_argument("--ignored", choices=("default", "all"), default="default", help="what is left to us alone")
    parser.add_argument("--skip-plain", action="store_true", help="measure shared pods only")
    chosen = parser.parse_args(arguments)
    placement = {} if chosen.shortlist is None else {"placement": {"shortlist": chosen.shortlist}}
    with (
        tempfile.TemporaryDirectory(prefix="hc", dir="/tmp") as directory,
        ControlPlane(Path(directory) / "plane", fake_nodes=True) as plane,
    ):
        hami = Hami(plane, placement)
        began = time.monotonic()
        add_nodes(plane.client, hami.family, chosen.nodes)
        print(f"{chosen.nodes} nodes made in {time.monotonic() - began:.0f} s", flush=True)
        everything = {name for family in hami.families.values() for name in family.resources.names()}
        ignored = everything if chosen.ignored == "all" else None
        bench = Bench(plane, hami, chosen.pods, ignored, chosen.percentage)
        _report(bench, chosen.clock, chosen.runs, chosen.skip_plain)


def _report(bench: Bench, clock: str, runs: int, skip_plain: bool) -> None:
    kinds: dict[str, Callable[[str], Run]] = {"plain": bench.plain, "shared": bench.shared}
    if skip_plain:
        del kinds["plain"]
    found: dict[str, list[Run]] = {kind: [] for kind in kinds}
    for number in range(runs):
        for kind, measure in kinds.items():
            run = measure(clock)
            found[kind].append(run)
            cpu = ", ".join(f"{name} {ms:.1f}" for name, ms in run.cpu_ms.items())
            print(f"run {number + 1} {kind:<7} {run.pods_per_second:6.0f} pods/s; CPU ms a pod: {cpu}", flush=True)
    medians = {kind: statistics.median(run.pods_per_second for run in some) for kind, some in found.items()}
    text = ", ".join(f"{kind} {rate:.0f} pods/s" for kind, rate in medians.items())
    print(
        f"{clock}: median of {runs}: {text}" + ("" if skip_plain else f"; {medians['shared'] / medians['plain']:.0%}")
    )


if __name__ == "__main__":
    main(sys.argv[1:])
