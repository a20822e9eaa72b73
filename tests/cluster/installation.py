"""A cluster as people have one: Services are reached, our images are on its node, and of us there is only the chart."""

import contextlib
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from hami_core_py.cluster.client import join_path
from hami_core_py.lab.simulator import Simulator
from images.python import ROOT
from tests.cluster import our_images
from tests.cluster.daemons import Daemon
from tests.cluster.node import Node
from tests.cluster.plane import API_SERVICE, ControlPlane
from tests.cluster.release_chart import CHART, NAMESPACE, NODES
from tests.cluster.simulated import write_runtime

DOCS = ROOT / "docs"
CARDS = {"cards": [{"profile": "A100-40G"}]}
OURS = ((NAMESPACE, "deployment"), (NODES, "daemonset"))
"""Where our pods are, and what makes them."""


class Site:
    """Control plane and one node, which has a simulated card, and a runtime that shows it to containers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.plane = ControlPlane(directory / "plane")
        self.node = Node(self.plane, directory / "node")

    @contextlib.contextmanager
    def set_up(self) -> Iterator["Site"]:
        """All of it runs; all of it ends afterwards."""
        archives = (our_images.ours(app_version()), our_images.kube_scheduler(self.plane.release))
        with contextlib.ExitStack() as ending:
            ending.enter_context(self.plane)
            # Pods find the API server by its Service.
            ending.enter_context(self.leads(API_SERVICE, 443, self.plane.url.partition("//")[2]))
            self.node.directory.mkdir()
            simulator = Simulator(self.node.directory / "sim" / "state", {"host": self.node.name, **CARDS})
            self.node.containerd.runtime = str(write_runtime(self.node.directory, simulator.start()))
            ending.enter_context(self.node)
            for archive in archives:
                self.node.containerd.load_image(archive)
            yield self

    @contextlib.contextmanager
    def leads(self, address: str, port: int, target: str) -> Iterator[None]:
        """A Service's address leads somewhere, as kube-proxy would see to; there is none."""
        proxy = Daemon(self.plane.directory / "logs", f"service-{address}")
        _address("add", address)
        try:
            proxy.start([sys.executable, "-m", "tests.cluster.forward", f"{address}:{port}", target])
            yield
        finally:
            proxy.stop()
            _address("delete", address)

    def type_in(self, script: str) -> str:
        """What a shell prints where kubectl and helm are found and know the cluster; ``pytest -s`` shows the transcript.

        :raises AssertionError: it failed.
        """
        path = os.pathsep.join([*map(str, self.plane.release.folders), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "KUBECONFIG": str(self.plane.kubeconfig)}
        command = ["bash", "-euo", "pipefail", "-c", script]
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}\n{self.account()}"
        print(f"$ {script.rstrip()}\n{done.stdout}")
        return done.stdout

    def roll_out(self) -> None:
        """Wait as the pages say until everything of ours runs."""
        self.type_in("".join(f"kubectl -n {space} rollout status {kind} --timeout=5m\n" for space, kind in OURS))

    def ours(self) -> list[dict[str, Any]]:
        """Our own pods."""
        return [pod for space, _ in OURS for pod in self.plane.client.list(_pods(space))[0]]

    def schedulers(self) -> list[str]:
        """Names of the scheduler pods that are not ending."""
        found = (pod["metadata"] for pod in self.ours())
        return [one["name"] for one in found if "scheduler" in one["name"] and "deletionTimestamp" not in one]

    def leader(self) -> str:
        """The pod whose kube-scheduler holds the Lease; empty: nobody does."""
        path = join_path("apis", "coordination.k8s.io", "v1", "namespaces", NAMESPACE, "leases", "hami-scheduler")
        return str(self.plane.client.get(path)["spec"].get("holderIdentity") or "").partition("_")[0]

    def pid_of(self, container: str, pod: str = "") -> int:
        """A container's first process. :param pod: whose container; empty: any pod's."""
        crictl = self.node.containerd.crictl
        of_pod = ("--label", f"io.kubernetes.pod.name={pod}") if pod else ()
        listed = crictl("ps", "--name", f"^{container}$", *of_pod, "--quiet").split()
        return int(json.loads(crictl("inspect", listed[0]))["info"]["pid"])

    def process_of(self, container: str) -> Mapping[str, str]:
        """``/proc/PID/status`` of a container's first process, by field."""
        lines = Path(f"/proc/{self.pid_of(container)}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    def account(self) -> str:
        """What is said of our pods: for a test that fails."""
        kubectl = self.plane.tool
        told = [kubectl("kubectl", "get", "pods", "-A", "-o", "wide").stdout]
        for pod in self.ours():
            space, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            told.append(kubectl("kubectl", "-n", space, "describe", "pod", name).stdout[-1500:])
            told.append(kubectl("kubectl", "-n", space, "logs", name, "--all-containers", "--tail=20").stdout[-3000:])
        return "\n".join(told)


def app_version() -> str:
    """The tag of the images that the chart asks for."""
    return str(yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"])


def commands(page: str) -> list[str]:
    """The blocks of a page that a reader types in."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        textwrap.dedent(block) for _, block in re.findall(r"^( *)```bash\n(.*?)^\1```", text, re.MULTILINE | re.DOTALL)
    ]


def seconds_to_ready(pod: Mapping[str, Any]) -> float:
    """From a pod's creation until it was Ready; both are known to the second."""
    ready = next(one for one in pod["status"]["conditions"] if one["type"] == "Ready")
    began, ended = (
        datetime.fromisoformat(text) for text in (pod["metadata"]["creationTimestamp"], ready["lastTransitionTime"])
    )
    return (ended - began).total_seconds()


def _pods(space: str) -> str:
    return join_path("api", "v1", "namespaces", space, "pods")


def _address(verb: str, address: str) -> None:
    subprocess.run(["ip", "address", verb, f"{address}/32", "dev", "lo"], capture_output=True, check=False)
