"""The simulated driver as this package offers it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hami_backend_mock import sim


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "devices"


def command(state: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "hami_backend_mock.command", "--state", str(state), *words],
        capture_output=True,
        text=True,
        timeout=200,
    )


def on(state: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | sim.environment(state),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_vendor_s_own_binding_finds_the_devices_of_a_file(state: Path, tmp_path: Path) -> None:
    (tmp_path / "cards.yaml").write_text(
        "host: n1\ncards:\n  - {profile: T4, count: 2}\n  - {profile: H100, name: Big One}\n"
    )
    assert command(state, "start", str(tmp_path / "cards.yaml")).returncode == 0
    program = """
import pynvml as n
n.nvmlInit()
print([n.nvmlDeviceGetName(n.nvmlDeviceGetHandleByIndex(i)) for i in range(n.nvmlDeviceGetCount())])
"""
    assert on(state, program) == "['Tesla T4', 'Tesla T4', 'Big One']"


def test_hosts_have_different_cards(tmp_path: Path) -> None:
    ids = set()
    for host in ("n1", "n2"):
        sim.start(tmp_path / host, {"host": host, "cards": [{"profile": "T4"}]})
        ids.add(sim.ask("show", state=tmp_path / host)["devices"][0]["uuid"])
    assert len(ids) == 2


def test_what_is_wrong_is_said(state: Path) -> None:
    assert "a known profile" in command(state, "start", "A1000").stderr
    with pytest.raises(sim.SimulatorError, match=r"cards\[0\]"):
        sim.start(state, {"cards": [{"count": 2}]})


def test_devices_are_shown_for_people_and_for_programs(state: Path) -> None:
    sim.start(state, "L40S")
    assert "NVIDIA L40S" in command(state, "show").stdout
    assert json.loads(command(state, "-o", "json", "show").stdout)["devices"][0]["sms"] == 142


def test_a_lost_device_is_shown_lost(state: Path) -> None:
    sim.start(state, "L40S")
    assert command(state, "lose", "0").returncode == 0
    assert "LOST" in command(state, "show").stdout
