"""``python -m tests.cluster.throughput``: how fast shared pods are scheduled, against plain pods without any of us.

Both run on the same control plane with the same fake nodes, in turns. *Plain*: pods without devices, kube-scheduler's default
configuration, none of our processes. *Shared*: pods that ask for a share, with webhook, extender, and the configuration of
kube-scheduler that our chart renders. Two clocks:

queue     pods wait while the scheduler is held; from letting it go until the last one is bound
arriving  from the first pod's creation, admission included, until the last one is bound

and beside each the time until every pod has been told, that is until kube-scheduler's event of the last one is stored.

kube-scheduler binds plain pods itself, and by default sends the API server 50 calls a second at most. ``--client default`` leaves
it at that, which is what a cluster has; ``--client raised`` lifts the limit for both, which shows what a pod costs.

Beside the rates stands what each process spent on the CPU per pod and which calls the API server answered per pod, which says
where the time goes. It asserts nothing.
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hami_core_py.cluster.client import Client
from tests.cluster.daemons import Daemon, eventually
from tests.cluster.fakenodes import add_nodes
from tests.cluster.hami import WEBHOOKS, Hami
from tests.cluster.plane import QUERIES_PER_SECOND, ControlPlane
from tests.cluster.pods import Pods, gpu, pod
from tests.cluster.release_chart import Chart

CLIENTS = 8
TICKS = os.sysconf("SC_CLK_TCK")
EVENTS = "/api/v1/namespaces/default/events"
CLIENT_LIMITS: Mapping[str, Mapping[str, int]] = {
    "default": {"qps": 50, "burst": 100},
    "raised": {"qps": QUERIES_PER_SECOND, "burst": 2 * QUERIES_PER_SECOND},
}
"""What ``clientConnection`` says for plain pods; the first is kube-scheduler's own default."""

RARE = 0.02
"""Calls that are made less often per pod than this are left out of the report."""


@dataclass(frozen=True)
class Run:
    """One measured run.

    :ivar told_per_second: the same until every pod's event is stored.
    :ivar cpu_ms: program → milliseconds of CPU time per pod. :ivar calls: verb and resource → calls per pod.
    """

    pods_per_second: float
    told_per_second: float
    cpu_ms: Mapping[str, float]
    calls: Mapping[str, float]


class Bench:
    """One control plane with fake nodes.

    :param count: pods of a run.
    :param plain: KubeSchedulerConfiguration for plain pods, :param shared: for those that ask for a share.
    """

    def __init__(
        self, plane: ControlPlane, hami: Hami, count: int, *, plain: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> None:
        self._plane, self._hami, self._count = plane, hami, count
        self._plain, self._shared = plain, shared
        self._pods = Pods(plane.client)

    def plain(self, clock: str) -> Run:
        """Pods without devices, and nothing of ours."""
        self._plane.start_scheduler(self._plain)
        return self._measure(clock, {"cpu": "100m", "memory": "64Mi"}, {})

    def shared(self, clock: str) -> Run:
        """Pods that ask for a share of one device."""
        self._hami.start()
        try:
            self._plane.start_scheduler(self._shared)
            ours = {"extender": self._hami.extender, "webhook": self._hami.webhook}
            return self._measure(clock, gpu(1, 1000, 10, cpu="100m", memory="64Mi"), ours)
        finally:
            self._plane.client.delete(f"{WEBHOOKS}/hami")
            self._hami.stop()

    def _measure(self, clock: str, limits: Mapping[str, str], ours: Mapping[str, Daemon]) -> Run:
        scheduler = self._plane.daemons["kube-scheduler"]
        daemons = self._plane.daemons | dict(ours)
        # A first pod, so that connections are made and both sides have seen all nodes.
        self._create(limits, 1, "first")
        self._wait_bound()
        self._wait_told(1)
        if clock == "queue":
            scheduler.pause()
            self._create(limits, self._count, "p")
            time.sleep(1)  # The API server hands its last events over.
        calls, spent = _calls(self._plane.client), _cpu(daemons)
        began = time.monotonic()
        if clock == "queue":
            scheduler.resume()
        else:
            self._create(limits, self._count, "p")
        self._wait_bound()
        bound_after = time.monotonic() - began
        self._wait_told(1 + self._count)
        told_after = time.monotonic() - began
        after, calls_after = _cpu(daemons), _calls(self._plane.client)
        self._pods.clear()
        self._plane.client.delete(EVENTS)
        return Run(
            pods_per_second=self._count / bound_after,
            told_per_second=self._count / told_after,
            cpu_ms={name: (after[name] - spent[name]) * 1000 / self._count for name in after},
            calls={name: (number - calls[name]) / self._count for name, number in sorted(calls_after.items())},
        )

    def _create(self, limits: Mapping[str, str], count: int, prefix: str) -> None:
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(lambda number: self._pods.create(pod(f"{prefix}-{number:05}", limits)), range(count)))

    def _wait_bound(self) -> None:
        eventually("all pods bound", lambda: not _is_any_unbound(self._plane.client), 600, every=0.1)

    def _wait_told(self, count: int) -> None:
        eventually("an event for every pod", lambda: _count(self._plane.client, EVENTS) >= count, 600, every=0.1)


def shared_config(plane: ControlPlane, hami: Hami, percentage: int | None, left: str | None) -> dict[str, Any]:
    """The KubeSchedulerConfiguration of our chart, with its addresses changed for ours.

    :param percentage: percentageOfNodesToScore instead of the chart's.
    :param left: roles of resources that kube-scheduler adds up too, separated by commas, instead of the chart's.
    """
    flags = [] if left is None else ["--set", f"scheduler.leaveToKubeScheduler={{{left}}}"]
    manifests = yaml.safe_load_all(Chart(plane).manifests(*flags))
    text = next(m["data"]["config.yaml"] for m in manifests if m and "config.yaml" in (m.get("data") or {}))
    config: dict[str, Any] = yaml.safe_load(text)
    config["leaderElection"] = {"leaderElect": False}
    [extender] = config["extenders"]
    extender["urlPrefix"] = hami.extender_url
    if "clientConnection" not in config:
        config["clientConnection"] = dict(CLIENT_LIMITS["default"])
    return config if percentage is None else {**config, "percentageOfNodesToScore": percentage}


def _count(client: Client, path: str) -> int:
    """How many objects a collection has, without reading them."""
    answer = client.get(path, {"limit": 1})
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)


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


def _calls(client: Client) -> Counter[str]:
    """Verb and resource → calls that the API server has answered, lists by the waiting clock aside."""
    found: Counter[str] = Counter()
    for line in client.text("/metrics").splitlines():
        if line.startswith("apiserver_request_total{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            if labels["verb"] not in ("LIST", "WATCH"):
                name = "/".join(filter(None, (labels["resource"], labels["subresource"])))
                found[f"{labels['verb']} {name}"] += int(float(line.rpartition(" ")[2]))
    return found


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--clock", choices=("queue", "arriving"), default="arriving")
    parser.add_argument("--client", choices=tuple(CLIENT_LIMITS), default="default", help="calls a second")
    parser.add_argument("--shortlist", type=int, help="placement.shortlist; by default ours")
    parser.add_argument("--percentage", type=int, help="percentageOfNodesToScore; by default the chart's")
    parser.add_argument("--left", help="scheduler.leaveToKubeScheduler, such as count,memory; by default the chart's")
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
        shared = shared_config(plane, hami, chosen.percentage, chosen.left)
        limits = CLIENT_LIMITS[chosen.client]
        if chosen.client == "raised":
            shared["clientConnection"] = limits
        bench = Bench(plane, hami, chosen.pods, plain={"clientConnection": limits}, shared=shared)
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
            rates = f"{run.pods_per_second:4.0f} pods/s, told {run.told_per_second:4.0f}/s"
            cpu = ", ".join(f"{name} {ms:.1f}" for name, ms in run.cpu_ms.items())
            print(f"run {number + 1} {kind:<7} {rates}; CPU ms a pod: {cpu}", flush=True)
    for kind, some in found.items():
        calls = {name: statistics.median(run.calls.get(name, 0.0) for run in some) for name in some[0].calls}
        text = ", ".join(f"{name} {number:.2f}" for name, number in calls.items() if number >= RARE)
        print(f"{kind}: calls a pod: {text}")
        total = statistics.median(sum(run.cpu_ms.values()) for run in some)
        print(
            f"{kind}: median of {runs}: {_median(some, 'pods'):.0f} pods/s, told {_median(some, 'told'):.0f}/s; {total:.1f} ms"
        )
    if not skip_plain:
        pods, told = (_median(found["shared"], what) / _median(found["plain"], what) for what in ("pods", "told"))
        print(f"{clock}: shared pods at {pods:.0%} of plain ones' rate, {told:.0%} when told counts")


def _median(runs: list[Run], what: str) -> float:
    return statistics.median(run.pods_per_second if what == "pods" else run.told_per_second for run in runs)


if __name__ == "__main__":
    main(sys.argv[1:])
