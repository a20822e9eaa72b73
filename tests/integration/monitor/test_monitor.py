"""The process ``hami monitor`` beside a real API server: what Prometheus reads from it while pods come and go."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import AlreadyExists
from hami_core_py.codecs.native import RECORD, render_inventory, render_shares
from hami_core_py.lab.apiserver import ApiServer, write_kubeconfig
from hami_core_py.models.allocations import RecordedShare
from hami_core_py.models.devices import DeviceId, Health
from hami_core_py.testing.builders import device, share

pytest.importorskip("hami_backend_mock")

NODE, NODES, PODS = "n1", "/api/v1/nodes", "/api/v1/namespaces/default/pods"
FILE = {
    "families": [{"name": "Acme", "resources": {"count": "acme.example/npu", "memory": "acme.example/npu-memory"}}],
}
DEVICES = (device("npu-0", memory_mib=8192), device("npu-1", memory_mib=0, health=Health.UNHEALTHY))

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def eventually(what: str, probe: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        assert time.monotonic() < deadline, f"never seen: {what}"
        time.sleep(0.02)
    return answer


class Scene:
    """One node, its pods, and the monitor as a process."""

    def __init__(self, root: Path, api: ApiServer) -> None:
        self.api = api
        kubeconfig = write_kubeconfig(root / "kubeconfig", api.url)
        self.client = Client.from_kubeconfig(kubeconfig)
        (root / "devices.yaml").write_text(yaml.safe_dump(FILE))
        (root / "config.yaml").write_text(yaml.safe_dump({"mock": {"devicesFile": str(root / "devices.yaml")}}))
        self.set_node(NODE)
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "hami_core_py", "monitor", "--node-name", NODE, "--interval", "0.05"),
                *("--kubeconfig", str(kubeconfig), "--config", str(root / "config.yaml"), "--listen", "127.0.0.1:0"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.http = httpx.Client(base_url=self.url, timeout=60)

    def set_node(self, name: str) -> None:
        inventory = render_inventory("mock", DEVICES, "late")
        self.client.create(
            NODES,
            {
                "metadata": {"name": name, "annotations": {"hami.io/node-mock-inventory": inventory}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            },
        )

    def add_pod(self, name: str, memory_mib: int, node: str = NODE) -> None:
        held = RecordedShare(
            container="main", family="Acme", device=DeviceId("npu-0"), share=share(memory_mib=memory_mib, core_units=25)
        )
        self.client.create(
            PODS,
            {
                "metadata": {
                    "name": name,
                    "annotations": {RECORD: render_shares([held]), "hami.io/bind-node": node},
                },
                "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app"}]},
            },
        )

    def scrape(self) -> Series:
        text = self.http.get("/metrics").raise_for_status().text
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name.startswith("hami_")
        }

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample with this name and these labels among others; ``None``: there is none."""
        wanted = set(labels.items())
        found = [value for (n, ls), value in self.scrape().items() if n == name and wanted <= set(ls)]
        assert len(found) <= 1, found
        return found[0] if found else None

    def names_of(self, pod: str) -> set[str]:
        return {name for name, labels in self.scrape() if ("pod", pod) in labels}


def of_the_cluster(scene: Scene) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    """Series of what API server and records say. What a backend measures is shown only while it is fresh, and a busy machine may
    take longer over a measurement than these tests' short interval."""
    return {series for series in scene.scrape() if not series[0].startswith("hami_mock_")}


@pytest.fixture(scope="module")
def shared_scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with ApiServer() as api:
        made = Scene(tmp_path_factory.mktemp("monitor"), api)
        eventually("ready", lambda: made.http.get("/readyz").status_code == 200)
        yield made
        made.http.close()
        made.process.kill()
        made.process.wait()
        assert made.process.stdout is not None
        made.process.stdout.close()


@pytest.fixture
def scene(shared_scene: Scene) -> Iterator[Scene]:
    """The scene without the pods of the test before, and with its node."""
    with suppress(AlreadyExists):
        shared_scene.set_node(NODE)
    yield shared_scene
    for pod in shared_scene.client.list(PODS)[0]:
        shared_scene.client.delete(f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    eventually("no pods", lambda: not shared_scene.names_of("train"))


def test_devices_and_shares_of_the_node_are_measured(scene: Scene) -> None:
    scene.add_pod("train", memory_mib=2048)
    scene.add_pod("elsewhere", memory_mib=1, node="n2")
    eventually("the share", lambda: scene.value("hami_container_memory_limit_bytes", pod="train"))
    npu = {"device_uuid": "npu-0", "node": NODE}
    assert scene.value("hami_device_memory_total_bytes", **npu) == 8192 * 2**20
    assert scene.value("hami_device_memory_allocated_bytes", **npu) == 2048 * 2**20
    assert scene.value("hami_device_memory_allocated_ratio", **npu) == 0.25
    assert scene.value("hami_device_core_allocated_ratio", **npu) == 0.25
    assert scene.value("hami_device_slots_allocated", **npu) == 1
    assert scene.value("hami_device_healthy", device_uuid="npu-1") == 0
    assert scene.value("hami_vgpu_memory_limit_bytes", pod="train", container="main") == 2048 * 2**20
    assert scene.value("hami_gpu_memory_allocated_bytes", **npu, zone="vGPU") == 2048 * 2**20
    assert scene.value("hami_container_memory_limit_bytes", pod="elsewhere") is None
    eventually("what the backend measures", lambda: scene.value("hami_mock_container_memory_used_bytes", pod="train"))


def test_device_without_memory_has_no_ratio(scene: Scene) -> None:
    eventually("the devices", lambda: scene.value("hami_device_slots", device_uuid="npu-1"))
    assert scene.value("hami_device_memory_total_bytes", device_uuid="npu-1") == 0
    assert scene.value("hami_device_memory_allocated_ratio", device_uuid="npu-1") is None


def test_series_of_a_pod_vanish_when_it_has_succeeded(scene: Scene) -> None:
    scene.add_pod("train", memory_mib=2048)
    eventually("what the backend measures", lambda: "hami_mock_container_memory_used_bytes" in scene.names_of("train"))
    scene.client.patch(f"{PODS}/train/status", {"status": {"phase": "Succeeded"}})
    eventually("no series of the pod", lambda: not scene.names_of("train"))
    assert scene.value("hami_device_memory_allocated_bytes", device_uuid="npu-0") == 0


def test_series_of_a_deleted_pod_and_node_vanish(scene: Scene) -> None:
    scene.add_pod("train", memory_mib=2048)
    eventually("the share", lambda: scene.names_of("train"))
    scene.client.delete(f"{PODS}/train", {"gracePeriodSeconds": 0})
    eventually("no series of the pod", lambda: not scene.names_of("train"))
    scene.client.delete(f"{NODES}/{NODE}")
    eventually("no series of devices", lambda: scene.value("hami_device_slots", device_uuid="npu-0") is None)
    scene.set_node(NODE)
    eventually("the node again", lambda: scene.value("hami_device_slots", device_uuid="npu-0"))


def test_scrapes_ask_nobody_and_always_answer_the_same_series(scene: Scene) -> None:
    scene.add_pod("train", memory_mib=2048)
    eventually("what the backend measures", lambda: "hami_mock_container_memory_used_bytes" in scene.names_of("train"))
    scene.api.stop()
    try:
        series = of_the_cluster(scene)
        assert ("pod", "train") in {label for _, labels in series for label in labels}
        assert all(of_the_cluster(scene) == series for _ in range(100))
    finally:
        scene.api.start()


def test_monitor_without_a_cluster_is_alive_and_not_ready_and_ends_cleanly(tmp_path: Path) -> None:
    with ApiServer() as api:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
    command = [sys.executable, "-m", "hami_core_py", "monitor", "--node-name", NODE, "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen([*command, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    answer = httpx.get(f"{url}/readyz", timeout=60)
    assert (answer.status_code, answer.text) == (503, "node and pods are not listed yet\n")
    assert httpx.get(f"{url}/healthz", timeout=60).status_code == 200
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    process.stdout.close()
