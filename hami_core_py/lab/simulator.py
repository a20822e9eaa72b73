"""Simulated devices of a node: started and looked at through the simulator's own command, which a backend's package brings."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hami_core_py.lab.processes import LabError

COMMAND = "hami-sim"
START_SECONDS = 300
"""In a source checkout the first start compiles the simulated driver."""


@dataclass(frozen=True)
class ContainerUse:
    """What one container did with its devices. Times are nanoseconds of the devices' clock.

    :ivar busy_ns: how long it kept devices busy. :ivar peak_bytes: most memory that it held on one device.
    """

    busy_ns: int
    clock_ns: int
    peak_bytes: int


class Simulator:
    """The simulated devices of one node.

    :param state: file that holds them. :param config: settings as the command reads them from YAML.
    """

    def __init__(self, state: Path, config: Mapping[str, Any]) -> None:
        self._state, self._config = state, config
        self._command = shutil.which(
            COMMAND, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        )

    def start(self) -> dict[str, str]:
        """Put the devices in place. :returns: variables of processes that use them. :raises LabError: it does not work."""
        if self._command is None:
            raise LabError(
                f"simulated devices: {COMMAND} is not installed; it comes with the backend for trying things out"
            )
        file = self._state.with_suffix(".yaml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(dict(self._config), sort_keys=False))
        variables: dict[str, str] = self._ask("start", str(file))
        return {name: value for name, value in variables.items() if value}

    def use(self, container: str) -> ContainerUse:
        """What a container did so far; all zero when it is not known. :raises LabError: the simulator does not answer."""
        shown = self._ask("show")
        busy = peak = 0
        for one in shown["containers"]:
            if one["container"] == container:
                busy = sum(device["busy_ns"] for device in one["devices"])
                peak = max((device["peak_bytes"] for device in one["devices"]), default=0)
        return ContainerUse(busy, shown["clock_ns"], peak)

    def _ask(self, *words: str) -> Any:
        command = [str(self._command), "--state", str(self._state), "--output", "json", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_SECONDS)
        if done.returncode:
            raise LabError(f"{COMMAND} {words[0]}: {done.stderr.strip() or f'ended with {done.returncode}'}")
        return json.loads(done.stdout)


def container_tag(namespace: str, pod: str, container: str) -> str:
    """The name under which the simulator books what a container uses."""
    return f"{namespace}/{pod}/{container}"


def percent_of_time(before: ContainerUse, after: ContainerUse) -> float:
    """Part of the time between two looks in which a container kept devices busy, in percent."""
    elapsed = after.clock_ns - before.clock_ns
    return 100.0 * (after.busy_ns - before.busy_ns) / elapsed if elapsed > 0 else 0.0


def look_for(
    simulator: Simulator, containers: Mapping[str, str], seconds: float
) -> dict[str, tuple[float, ContainerUse]]:
    """Name → percent of the time, over so many seconds from now, and what was used by then.

    :param containers: name → the simulator's tag.
    """
    before = {name: simulator.use(tag) for name, tag in containers.items()}
    time.sleep(seconds)
    after = {name: simulator.use(tag) for name, tag in containers.items()}
    return {name: (percent_of_time(before[name], after[name]), after[name]) for name in containers}
