"""Fixtures: a control plane with our webhook and extender, and a node with our agent."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.daemons import eventually, keep_logs
from tests.cluster.fakenodes import remove_nodes
from tests.cluster.hami import AgentProcess, Hami
from tests.cluster.node import INSIDE, Node
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import COUNT, Pods

SECONDS = 600
"""Of one test with its fixtures: building excluded, starting included."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Only ``python -m tests.cluster`` has what these tests need."""
    own = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in own:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))
        if not os.environ.get("HAMI_CLUSTER_TESTS"):
            item.add_marker(pytest.mark.skip(reason="needs a cluster: `tox -e cluster`"))


@pytest.fixture(scope="module")
def directory(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder with a short path: unix sockets lie below it."""
    made = Path(tempfile.mkdtemp(prefix="hc", dir="/tmp"))
    yield made
    if kept := os.environ.get("HAMI_CLUSTER_LOGS"):
        keep_logs(made, Path(kept) / request.path.stem)
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def fake_plane(directory: Path) -> Iterator[ControlPlane]:
    """A control plane whose nodes need no kubelet."""
    with ControlPlane(directory / "plane", fake_nodes=True) as plane:
        yield plane


@pytest.fixture(scope="module")
def hami(fake_plane: ControlPlane) -> Iterator[Hami]:
    """Our webhook and extender in it, and a kube-scheduler that asks the extender."""
    yield from _with_hami(fake_plane)


@pytest.fixture
def pods(hami: Hami) -> Iterator[Pods]:
    """The pods of a test on fake nodes; pods and nodes go when it ends."""
    hami.run_again()
    found = Pods(hami.plane.client)
    yield found
    found.clear()
    remove_nodes(hami.plane.client)


@pytest.fixture(scope="module")
def plane(directory: Path) -> Iterator[ControlPlane]:
    """A control plane for real nodes."""
    with ControlPlane(directory / "plane") as plane:
        yield plane


@pytest.fixture(scope="module")
def system(plane: ControlPlane) -> Iterator[Hami]:
    """Our webhook and extender in it."""
    yield from _with_hami(plane)


@pytest.fixture(scope="module")
def node(system: Hami, directory: Path) -> Iterator[Node]:
    """A real node."""
    if not os.environ.get(INSIDE):
        pytest.skip("a node needs root")
    with Node(system.plane, directory / "node") as made:
        yield made


@pytest.fixture(scope="module")
def agent(system: Hami, node: Node) -> Iterator[AgentProcess]:
    """Our agent on that node, with two cards of 10,000 MiB and 32 slots each."""
    card = {"family": "NVIDIA", "model": "NVIDIA L40S", "count": 2, "slots": 32, "memory_mib": 10000}
    system.write_devices({node.name: [{**card, "modes": ["hami-core"]}]})
    made = system.agent(node.name, node.kubelet_dir, node.state_dir, node.cdi_dir)
    made.start()
    try:
        made.wait_ready()
        eventually("devices in the node's status", lambda: node.allocatable(COUNT) == 64, daemon=made.daemon)
        yield made
    finally:
        made.daemon.stop()


def _with_hami(plane: ControlPlane) -> Iterator[Hami]:
    hami = Hami(plane)
    try:
        hami.start()
        plane.start_scheduler(hami.scheduler_config())
        yield hami
    finally:
        hami.stop()
