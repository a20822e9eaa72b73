"""What a scenario concludes from the simulator's answers; the answers come from a program of ours that stands in for it."""

from pathlib import Path

import pytest

from hami_core_py.lab.processes import LabError
from hami_core_py.lab.simulator import ContainerUse, Simulator, percent_of_time


def stand_in(folder: Path, script: str) -> None:
    program = folder / "hami-sim"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Simulator:
    """A simulator whose command, found on the PATH, says that the driver lies in ``driver``."""
    (tmp_path / "driver").mkdir()
    stand_in(tmp_path, f"""echo '{{"LD_LIBRARY_PATH": "{tmp_path}/driver", "STATE": "s", "EMPTY": ""}}'""")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    simulator = Simulator(tmp_path / "node" / "sim", {"cards": [{"profile": "small"}]})
    assert simulator.start() == {"LD_LIBRARY_PATH": f"{tmp_path}/driver", "STATE": "s"}
    return simulator


def test_time_of_all_devices_and_the_fullest_one_count(started: Simulator, tmp_path: Path) -> None:
    devices = '[{"busy_ns": 3, "peak_bytes": 7}, {"busy_ns": 4, "peak_bytes": 9}]'
    stand_in(
        tmp_path / "driver",
        f"""echo '{{"clock_ns": 50, "containers": [{{"container": "a", "devices": {devices}}}]}}'""",
    )
    assert started.use(["a", "b"]) == {"a": ContainerUse(7, 50, 9), "b": ContainerUse(0, 50, 0)}


def test_simulator_that_fails_is_quoted(started: Simulator, tmp_path: Path) -> None:
    stand_in(tmp_path / "driver", "echo no such state >&2; exit 2")
    with pytest.raises(LabError, match="no such state"):
        started.use(["a"])


def test_share_is_the_busy_part_of_the_devices_own_time() -> None:
    assert percent_of_time(ContainerUse(100, 1000, 0), ContainerUse(400, 2000, 0)) == 30.0
    assert percent_of_time(ContainerUse(0, 5, 0), ContainerUse(0, 5, 0)) == 0.0
