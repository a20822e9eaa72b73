"""The lab's kube-scheduler beside an API server that does not always answer."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_core_py.cluster.client import Client
from hami_core_py.lab.apiserver import ApiServer, write_kubeconfig
from hami_core_py.lab.apiserver.faults import Fault
from hami_core_py.lab.kubescheduler.extender import Extender, ExtenderConfig
from hami_core_py.lab.kubescheduler.loop import SchedulerLoop

PODS = "/api/v1/namespaces/default/pods"
PATIENCE_SECONDS = 60.0


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as made:
        yield made


@pytest.fixture
def client(api: ApiServer, tmp_path: Path) -> Iterator[Client]:
    """One that knows a node."""
    made = Client.from_kubeconfig(write_kubeconfig(tmp_path / "kubeconfig", api.url))
    status = {"allocatable": {"cpu": "8", "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}
    made.create("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": status})
    yield made
    made.close()


def test_failure_that_cannot_be_told_either_ends_nothing(api: ApiServer, client: Client) -> None:
    api.faults.add(Fault(verbs=("create",), resource="pods", subresource="binding", status=503, times=1))
    silent = Fault(verbs=("patch",), resource="pods", subresource="status", status=503, times=1)
    api.faults.add(silent)
    loop = SchedulerLoop(client, Extender(ExtenderConfig(url="http://127.0.0.1:9", managed=frozenset())), ["mine"])
    loop.start()
    try:
        spec = {"schedulerName": "mine", "containers": [{"name": "main", "image": "app"}]}
        client.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
        until = time.monotonic() + PATIENCE_SECONDS
        while client.get(f"{PODS}/p")["spec"].get("nodeName") != "n1":
            assert time.monotonic() < until, "never bound"
            time.sleep(0.02)
        assert silent.times == 0
    finally:
        loop.stop()
