"""The paths that programs take all the time make no system call: the kernel kills who makes one."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import MIB, SANITIZE, Container, Node


def sealed(container: Container, tools: Path, call: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(tools / "sim" / "hami-sim-bench")],
        env=container.environment(),
        input=f"sealed {call}\n",
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(
    SANITIZE == "thread", reason="it knows no barrier but its own, so that latches are used, which may wait"
)
@pytest.mark.parametrize("cores", [0, 99])  # 99: counted and paid, and never waiting
@pytest.mark.parametrize("call", ["launch", "alloc", "info", "lookup"])
def test_no_system_call_on_a_path_that_is_taken_all_the_time(
    node: Node, make_container: Callable[..., Container], tools: Path, call: str, cores: int
) -> None:
    one = make_container(node)
    one.limits(f"{node.uuids()[0]} memory={4000 * MIB} cores={cores} context={408 * MIB}")
    done = sealed(one, tools, call)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert int.from_bytes(one.region.read_bytes()[2008896:2008900], "little") == 1  # it was under the limiter


def test_a_system_call_would_be_noticed(tenant: Container, tools: Path) -> None:
    assert sealed(tenant, tools, "getpid").returncode == -signal.SIGSYS
