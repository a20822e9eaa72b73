from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from kubernetes import client

from hami_core_py.lab.apiserver import ApiServer


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(bookmark_s=0.05) as running:
        yield running


@pytest.fixture
def api_client(server: ApiServer) -> Iterator[client.ApiClient]:
    configuration = client.Configuration(host=server.url)
    configuration.retries = False
    with client.ApiClient(configuration) as connected:
        yield connected


@pytest.fixture
def core(api_client: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api_client)


@pytest.fixture
def http(server: ApiServer) -> Iterator[httpx.Client]:
    # There is no TLS to verify; without this each client would read all certificates of the system.
    with httpx.Client(base_url=server.url, timeout=60, verify=False) as client:
        yield client
