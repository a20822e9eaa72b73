"""Simulated devices of a node: started and looked at through the simulator's own command, which a backend's package brings."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
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
        self._variables: dict[str, str] = {}

    def start(self) -> dict[str, str]:
        """Put the devices in place. :returns: variables of processes that use them. :raises LabError: it does not work."""
        command = find_command()
        file = self._state.with_suffix(".yaml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(dict(self._config), sort_keys=False))
        told = _ask([command, "--state", str(self._state), "--output", "json", "start", str(file)], os.environ)
        self._variables = {name: value for name, value in told.items() if value}
        return dict(self._variables)

    def use(self, containers: Collection[str]) -> dict[str, ContainerUse]:
        """What containers did so far, all zero where one is not known. :raises LabError: the simulator does not answer."""
        # The small program beside the driver, which the command of the package calls as well.
        command = Path(self._variables.get("LD_LIBRARY_PATH", "")) / COMMAND
        shown = _ask([str(command), "show"], {**os.environ, **self._variables})
        devices = {one["container"]: one["devices"] for one in shown["containers"]}
        return {
            name: ContainerUse(
                busy_ns=sum(device["busy_ns"] for device in devices.get(name, ())),
                clock_ns=shown["clock_ns"],
                peak_bytes=max((device["peak_bytes"] for device in devices.get(name, ())), default=0),
            )
            for name in containers
        }


def find_command() -> str:
    """Path of the simulator's command. :raises LabError: it is not installed."""
    beside = str(Path(sys.executable).parent)
    command = shutil.which(COMMAND, path=os.pathsep.join((beside, os.environ.get("PATH", ""))))
    if command is None:
        raise LabError(
            f"simulated devices: {COMMAND} is not installed; it comes with the backend for trying things out"
        )
    return command


def _ask(command: Sequence[str], env: Mapping[str, str]) -> Any:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=START_SECONDS)
    if done.returncode:
        raise LabError(f"{' '.join(command)}: {done.stderr.strip() or f'ended with {done.returncode}'}")
    return json.loads(done.stdout)


def container_tag(namespace: str, pod: str, container: str) -> str:
    """The name under which the simulator books what a container uses."""
    return f"{namespace}/{pod}/{container}"


def percent_of_time(before: ContainerUse, after: ContainerUse) -> float:
    """Part of the time between two looks in which a container kept devices busy, in percent."""
    elapsed = after.clock_ns - before.clock_ns
    return 100.0 * (after.busy_ns - before.busy_ns) / elapsed if elapsed > 0 else 0.0


def look_for(simulator: Simulator, containers: Mapping[str, str], seconds: float) -> dict[str, float]:
    """Name → percent of the devices' time over so many seconds from now.

    :param containers: name → the simulator's tag.
    """
    before = simulator.use(set(containers.values()))
    time.sleep(seconds)
    after = simulator.use(set(containers.values()))
    return {name: percent_of_time(before[tag], after[tag]) for name, tag in containers.items()}
