"""Nodes with a simulated driver: what their runtime puts into containers, and the monitor that measures them."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from hami_core_py.lab.loopback import answers, free_ports
from hami_core_py.lab.processes import LabError
from tests.cluster import vendor_runtime
from tests.cluster.daemons import Daemon, eventually
from tests.cluster.hami import Hami


def write_runtime(directory: Path, variables: Mapping[str, str]) -> Path:
    """A runtime for containers of one node. :param variables: what the simulator says processes on its devices need."""
    folder = Path(variables["LD_LIBRARY_PATH"])
    settings = {
        "folder": str(folder),
        "shared": str(Path(variables["HAMI_SIM_STATE"]).parent),
        "files": c_library(folder / "hami-sim", folder),
        "variables": dict(variables),
    }
    (directory / "driver.json").write_text(json.dumps(settings))
    runtime = directory / "vendor-runtime"
    words = [sys.executable, "-IS", vendor_runtime.__file__, str(directory / "driver.json")]
    runtime.write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n')
    runtime.chmod(0o755)
    return runtime


def c_library(program: Path, folder: Path) -> list[str]:
    """Files of the C library that a program needs, so that an image without one can run it."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    told = subprocess.run(["ldd", str(program)], env=env, check=True, capture_output=True, text=True).stdout
    paths = (line.split("=>")[-1].split("(")[0].strip() for line in told.splitlines())
    return sorted(path for path in paths if path.startswith("/") and not path.startswith(str(folder)))


class MonitorProcess:
    """``hami monitor`` of one node."""

    def __init__(self, hami: Hami, node: str, state_dir: Path, kubeconfig: Path | None = None) -> None:
        self._hami, self._node, self._state_dir, self._kubeconfig = hami, node, state_dir, kubeconfig
        self.daemon = Daemon(hami.plane.directory / "logs", f"monitor-{node}")
        (self.port,) = free_ports(1)

    def start(self, driver: Mapping[str, str]) -> None:
        """Start it and wait until it is ready. :param driver: variables under which it finds the driver."""
        kubeconfig = self._kubeconfig or self._hami.plane.write_kubeconfig("hami-agent", "hami-agent", "system:masters")
        command = [sys.executable, "-m", "hami_core_py", "monitor", "--config", str(self._hami.config)]
        command += ["--kubeconfig", str(kubeconfig), "--node-name", self._node, "--listen", f"127.0.0.1:{self.port}"]
        self.daemon.start([*command, "--state-dir", str(self._state_dir)], driver)
        eventually("a ready monitor", lambda: answers(f"http://127.0.0.1:{self.port}/readyz"), daemon=self.daemon)

    def scrape(self) -> str:
        """What it shows to Prometheus. :raises LabError: it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError as problem:
            raise LabError(f"the monitor of node {self._node} does not answer: {problem}") from problem
