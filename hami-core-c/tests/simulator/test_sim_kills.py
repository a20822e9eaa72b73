"""Processes that are killed in the middle of whatever they do leave nothing behind, and nobody waits for them."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "simulator"))

import headers  # noqa: E402


@pytest.fixture
def racer(libraries, tmp_path):
    program = tmp_path / "racer"
    flags = [
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{headers.headers()}",
        f"-L{libraries}",
        f"-Wl,-rpath,{libraries}",
    ]
    subprocess.run(["cc", *flags, HERE / "racer.c", "-lcuda", "-o", program], check=True)
    return program


def test_sums_are_true_after_many_kills(node, racer):
    def start():
        process = subprocess.Popen([racer], env=node.environment(), stdout=subprocess.PIPE, text=True)
        node.running.append(process)
        assert node.line(process) == "racing"
        return process

    chance = random.Random(1)
    racers = [start() for _ in range(4)]
    for _ in range(60):
        time.sleep(chance.random() * 0.01)
        at = chance.randrange(4)
        racers[at].kill()
        racers[at].wait()
        racers[at] = start()
    for one in racers:
        one.kill()
        one.wait()
    shown = node.command("show")
    device = shown["devices"][0]
    assert (device["memory_used_bytes"], device["contexts"], shown["processes"]) == (0, 0, [])
    assert device["memory_peak_bytes"] <= device["memory_total_bytes"]
    assert shown["containers"][0]["devices"][0]["bytes"] == 0
