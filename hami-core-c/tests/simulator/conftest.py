"""The simulated driver is built once; every test has a device state of its own, and runs its clients as processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
SIMULATOR = HERE.parents[1] / "simulator"
ROOT = HERE.parents[2]


@pytest.fixture(scope="session")
def libraries() -> Path:
    """Folder with the libraries and the command."""
    folder = Path(os.environ.get("HAMI_SIM_LIBRARIES") or ROOT / "build" / "sim")
    if "HAMI_SIM_LIBRARIES" not in os.environ:
        subprocess.run([sys.executable, SIMULATOR / "build.py", folder], check=True)
    return folder


class Node:
    """One node's devices: starts programs on them and asks the simulator about them."""

    def __init__(self, libraries: Path, state: Path) -> None:
        self.libraries, self.state = libraries, state
        self.running: list[subprocess.Popen[str]] = []

    def environment(self, **more: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HAMI_SIM", "CUDA_"))}
        return (
            kept
            | {"HAMI_SIM_STATE": str(self.state), "HAMI_SIM_LIBRARIES": str(self.libraries), "PYTHONPATH": str(HERE)}
            | more
        )

    def command(self, *words: str, ok: bool = True) -> Any:
        done = subprocess.run(
            [self.libraries / "hami-sim", *words], env=self.environment(), capture_output=True, text=True, timeout=30
        )
        assert not ok or done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout else done.returncode

    def start(self, program: str, **environment: str) -> "subprocess.Popen[str]":
        """A program that goes on; its lines are read with :meth:`line`."""
        process = subprocess.Popen(
            [sys.executable, "-c", "from client import *\nd = Driver()\n" + program],
            env=self.environment(**environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def run(self, program: str, **environment: str) -> str:
        """Output of a program that ends by itself."""
        process = self.start(program, **environment)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return output.strip()

    def ask(self, program: str, **environment: str) -> Any:
        """The value that a program prints with ``print(json.dumps(...))`` or any literal that JSON can read."""
        return json.loads(self.run("import json\n" + program, **environment))

    @staticmethod
    def line(process: "subprocess.Popen[str]") -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    @staticmethod
    def go_on(process: "subprocess.Popen[str]") -> None:
        """Let a program pass its ``input()``."""
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    def used(self, device: int = 0) -> int:
        """Bytes in use on a device, by the simulator's own count."""
        return int(self.command("show")["devices"][device]["memory_used_bytes"])

    def container(self, tag: str) -> dict[str, Any]:
        found = [one for one in self.command("show")["containers"] if one["container"] == tag]
        return dict(found[0]) if found else {}

    def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


@pytest.fixture
def bare(libraries: Path, tmp_path: Path) -> Iterator[Node]:
    """A node without a state yet."""
    node = Node(libraries, tmp_path / "state")
    yield node
    node.end()


@pytest.fixture
def node(bare: Node) -> Node:
    """A node with one A100 of 40 GB."""
    bare.command("start", "A100-40G")
    return bare
