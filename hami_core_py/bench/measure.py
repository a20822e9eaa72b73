"""One measurement: the real scheduler in a process of its own, and a client that posts filters over one kept connection."""

import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from hami_core_py.errors import HamiError

JsonObject = dict[str, Any]

START_LIMIT_SECONDS = 120.0
WARM_UP = 20
"""Requests that are sent before measuring begins."""


class BenchError(HamiError):
    """The measurement could not be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What happens beside the requests. Rates are per second."""

    pod_events: float = 0.0
    node_changes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured. ``cold_start_s``: from the process' start to its first decision."""

    p50_ms: float
    p99_ms: float
    cpu_ms_per_request: float
    requests_per_s: float
    rss_mib: float
    cold_start_s: float

    def as_json(self) -> JsonObject:
        """Fields by name, rounded to what means something."""
        return {name: round(getattr(self, name), 3) for name in self.__slots__}


def measure_filter(
    nodes: Path, pods: Path, shapes: Sequence[JsonObject], names: Sequence[str], *, requests: int, load: Load
) -> Result:
    """Post filters with names only.

    :param shapes: pods that ask, taken in turns; each request is a pod of its own.
    :raises BenchError: a process did not start, or an answer was an error.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        api = _process(stack, [
            "hami_core_py.bench.objects", "--nodes", str(nodes), "--pods", str(pods),
            "--pod-events", str(load.pod_events), "--node-changes", str(load.node_changes),
        ])  # fmt: skip
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_bytes(orjson.dumps(_kubeconfig(_first_line(api))))
        began = time.perf_counter()
        server = _process(stack, [
            "hami_core_py", "scheduler", "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0", "--plain-http",
            "--log-level", "warning",
        ])  # fmt: skip
        client = _Poster(_first_line(server))
        stack.callback(client.close)
        bodies = [_body(shapes[i % len(shapes)], names, i) for i in range(requests + WARM_UP)]
        _first_decision(client, bodies[0])
        cold_start = time.perf_counter() - began
        for body in bodies[:WARM_UP]:
            client.post(body)
        return _run(client, bodies[WARM_UP:], server.pid, cold_start)


def _run(client: "_Poster", bodies: Sequence[bytes], pid: int, cold_start: float) -> Result:
    cpu_before, began = _cpu_seconds(pid), time.perf_counter()
    spent = []
    for body in bodies:
        sent = time.perf_counter()
        answer = client.post(body)
        spent.append(time.perf_counter() - sent)
        # An error always has text; a decision's is empty.
        if b'"Error":""' not in answer:
            raise BenchError(f"filter answered {answer[:300]!r}")
    elapsed = time.perf_counter() - began
    cpu = _cpu_seconds(pid) - cpu_before
    ordered = sorted(spent)
    return Result(
        p50_ms=ordered[len(ordered) // 2] * 1e3,
        p99_ms=ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] * 1e3,
        cpu_ms_per_request=cpu / len(bodies) * 1e3,
        requests_per_s=len(bodies) / elapsed,
        rss_mib=_rss_mib(pid),
        cold_start_s=cold_start,
    )


class _Poster:
    """Posts bodies over one kept connection, as kube-scheduler does."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)

    def post(self, body: bytes) -> bytes:
        self._connection.request("POST", "/filter", body, {"content-type": "application/json"})
        return self._connection.getresponse().read()

    def close(self) -> None:
        self._connection.close()


def _first_decision(client: _Poster, body: bytes) -> None:
    until = time.monotonic() + START_LIMIT_SECONDS
    while b'"Error":""' not in (answer := client.post(body)):
        if time.monotonic() > until:
            raise BenchError(f"no decision after {START_LIMIT_SECONDS:g} s: {answer[:300]!r}")
        time.sleep(0.01)


def _process(stack: ExitStack, arguments: list[str]) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE)  # noqa: S603
    stack.callback(_end, process)
    return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _first_line(process: "subprocess.Popen[bytes]") -> str:
    line = process.stdout.readline().decode().strip() if process.stdout else ""
    if not line.startswith("http"):
        raise BenchError(f"{' '.join(map(str, process.args[2:4]))} did not start; see its messages above")  # type: ignore[index]
    return line


def _body(pod: JsonObject, names: Sequence[str], number: int) -> bytes:
    metadata = {
        **pod["metadata"],
        "name": f"asks-{number}",
        "uid": f"uid-asks-{number}",
        "resourceVersion": str(number + 1),
    }
    return orjson.dumps({"Pod": {**pod, "metadata": metadata}, "Nodes": None, "NodeNames": list(names)})


def _kubeconfig(url: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {}}],
    }


def _cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, in user and kernel."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
