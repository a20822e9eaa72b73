"""Programs of every shape under the limiter; machines and containers are those of the preload tests."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from preload.conftest import (  # noqa: E402
    CONTEXT_MIB,
    MIB,
    SANITIZE,
    Container,
    Node,
    compile_c,
    judged,
    make_container,
    make_node,
    node,
    pair,
    runtimes,
    tenant,
    tenant_for,
    tools,
)

Run = Callable[..., dict[str, int]]


@pytest.fixture(scope="session")
def zoo(tools: Path) -> Path:
    """The program."""
    target = tools / "zoo"
    sources = [HERE / "zoo.c", HERE.parents[1] / "src" / "driver.h"]
    if not target.exists() or target.stat().st_mtime < max(one.stat().st_mtime for one in sources):
        compile_c([HERE / "zoo.c"], target, "-ldl")
    return target


@pytest.fixture
def run(zoo: Path) -> Run:
    """Run a shape to its end. :returns: what it said."""

    def go(
        container: Container, *words: str, status: int = 0, before: tuple[str, ...] = (), **more: str
    ) -> dict[str, int]:
        done = subprocess.run(
            [*before, str(zoo), *words], env=container.environment(**more), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
        return said(done.stdout)

    return go


def said(text: str) -> dict[str, int]:
    """Lines of a word or two and a number; of two with the same word the later one counts."""
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in text.splitlines()}


def start(
    container: Container, zoo: Path, *words: str, before: tuple[str, ...] = (), **more: str
) -> "subprocess.Popen[str]":
    """Start a shape that stays; it ends with its input."""
    return container.popen([*before, str(zoo), *words], container.environment(**more)).process


def line(process: "subprocess.Popen[str]") -> str:
    """Its next line."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

__all__ = [
    "CONTEXT_MIB",
    "MIB",
    "SANITIZE",
    "Container",
    "Node",
    "Run",
    "compile_c",
    "judged",
    "line",
    "make_container",
    "make_node",
    "needs_root",
    "node",
    "pair",
    "run",
    "runtimes",
    "said",
    "start",
    "tenant",
    "tenant_for",
    "tools",
    "zoo",
]
