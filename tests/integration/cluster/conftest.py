from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_core_py.cluster.client import Client
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.kubeconfig import write_kubeconfig


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def client(api: ApiServer, tmp_path: Path) -> Iterator[Client]:
    client = Client.from_kubeconfig(write_kubeconfig(tmp_path / "kubeconfig", api.url), timeout_seconds=2.0)
    yield client
    client.close()
