"""The process ``hami device-plugin`` under the lab's kubelet: from a binding to a container's environment, and its end."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.pods import bind
from hami_core_py.codecs.records import write_record
from hami_core_py.lab.apiserver import ApiServer, write_kubeconfig
from hami_core_py.lab.kubelet import Kubelet, KubeletOptions
from hami_core_py.models.allocations import ContainerPlacement, Placement
from hami_core_py.models.families import V210
from hami_core_py.models.requests import ContainerKind
from hami_core_py.models.views import pod_view
from hami_core_py.testing import builders

COUNT = "acme.example/npu"
NODE = "node-a"
PODS = "/api/v1/namespaces/default/pods"
DEVICES = {
    "families": [
        {
            "name": "Acme",
            "resources": {"count": COUNT, "memory": "acme.example/npu-memory"},
            "v210": {"allocated": "hami.io/acme-allocated", "to_allocate": "hami.io/acme-to-allocate"},
        }
    ],
    "devices": [{"family": "Acme", "id": "npu-{index}", "count": 2, "slots": 4, "memory_mib": 1000}],
}

SPELLING = V210(allocated="hami.io/acme-allocated", to_allocate="hami.io/acme-to-allocate")

pytest.importorskip("hami_backend_mock")


def eventually(what, probe, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not (answer := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"never seen: {what}")
        time.sleep(0.02)
    return answer


def container(name, command):
    """A container that asks for one device, and sets the vendor's variable itself."""
    return {
        "name": name,
        "image": "x",
        "command": command,
        "env": [{"name": "ACME_VISIBLE_DEVICES", "value": "everything"}],
        "resources": {"limits": {COUNT: "1"}},
    }


class Node:
    """An API server, a kubelet of the lab, and the agent as a process."""

    def __init__(self, root):
        self.root = root
        self.api = ApiServer().start()
        self.kubeconfig = write_kubeconfig(root / "kubeconfig", self.api.url)
        self.client = Client.from_kubeconfig(self.kubeconfig)
        self.devices = root / "devices.yaml"
        self.devices.write_text(yaml.safe_dump(DEVICES))
        self.config = root / "config.yaml"
        self.config.write_text(
            yaml.safe_dump({"backends": {"enabled": ["mock"]}, "mock": {"devicesFile": str(self.devices)}})
        )
        self.kubelet_dir = root / "k"
        self.kubelet = None
        self.agent = None
        self.log = root / "agent.log"

    def start_kubelet(self):
        self.kubelet = Kubelet(
            KubeletOptions(node=NODE, api_url=self.api.url, root=self.kubelet_dir, retry_seconds=0.2)
        )
        self.kubelet.start()

    def start_agent(self, *more):
        arguments = [
            *("device-plugin", "--kubeconfig", self.kubeconfig, "--config", self.config, "--node-name", NODE),
            *("--kubelet-dir", self.kubelet_dir, "--state-dir", self.root / "s", "--cdi-dir", self.kubelet_dir / "cdi"),
            *("--listen", "127.0.0.1:0", *more),
        ]
        with self.log.open("w") as log:
            self.agent = subprocess.Popen(
                [sys.executable, "-m", "hami_core_py", *map(str, arguments)],
                stderr=log,
                env={**os.environ, "NODE_NAME": NODE},
            )

    def url(self):
        return eventually("the address", lambda: re.search(r"http://127\.0\.0\.1:\d+", self.log.read_text()))[0]

    def ready(self):
        try:
            with urllib.request.urlopen(f"{self.url()}/readyz", timeout=30) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False

    def stop_agent(self):
        if self.agent is not None and self.agent.poll() is None:
            self.agent.send_signal(signal.SIGTERM)
            self.agent.wait(60)
        return self.agent.returncode if self.agent else None

    def close(self):
        self.stop_agent()
        if self.kubelet is not None:
            self.kubelet.stop()
        self.api.stop()

    def run_pod(self, name, device, memory_mib, *, inits=(), command=("sleep", "600"), ordered=False):
        """A pod of init containers that end at once and one that stays, bound with a record that gives each the same."""
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "initContainers": [container(init, ["true"]) for init in inits],
                "containers": [container("main", list(command))],
            },
        }
        pod = self.client.create(PODS, body)
        pair = (builders.device(device), builders.share(memory_mib=memory_mib))
        kinds = [(init, ContainerKind.INIT) for init in inits] + [("main", ContainerKind.APP)]
        containers = tuple(ContainerPlacement(name=n, kind=kind, pairs=(pair,)) for n, kind in kinds)
        placement = Placement(node=NODE, containers=containers)
        families = {"Acme": builders.family(v210=SPELLING)}
        written = write_record(
            pod_view(pod), placement, families, at_ns=1, ordered=frozenset({"Acme"}) if ordered else frozenset()
        )
        if ordered:
            lock = {"hami.io/mutex.lock": f"2031-02-03T04:05:06Z,default,{name}"}
            self.client.patch(f"/api/v1/nodes/{NODE}", {"metadata": {"annotations": lock}})
        bind(self.client, "default", name, pod["metadata"]["uid"], NODE, written)
        return pod["metadata"]["uid"]

    def env(self, uid, name="main"):
        path = self.kubelet_dir / "pods" / uid / "containers" / name / "config.json"
        return json.loads(path.read_text())["env"] if path.exists() else {}


@pytest.fixture
def node():
    root = Path(tempfile.mkdtemp(prefix="hp", dir="/tmp"))
    made = Node(root)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(root, ignore_errors=True)


def test_container_runs_with_its_share_and_the_agent_ends_cleanly(node):
    node.start_kubelet()
    node.start_agent("--identity", "late")
    eventually("readiness", node.ready)
    uid = node.run_pod("p", "npu-1", 400)
    env = eventually("the container", lambda: node.env(uid))
    # CDI beats what the pod says of itself.
    assert env["ACME_VISIBLE_DEVICES"] == "npu-1"
    assert env["ACME_MEMORY_LIMIT_MIB_0"] == "400"
    with urllib.request.urlopen(f"{node.url()}/metrics", timeout=30) as answer:
        families = {f.name: f for f in text_string_to_metric_families(answer.read().decode())}
    counted = {tuple(sorted(s.labels.items())): s.value for s in families["hami_agent_allocations"].samples}
    assert counted[(("family", "Acme"), ("outcome", "granted"))] == 1
    health = [(s.labels["health"], s.value) for s in families["hami_agent_devices"].samples]
    assert health == [("healthy", 2)]
    assert "hami_agent_prestart_duration_seconds" in families
    assert node.stop_agent() == 0
    assert list((node.kubelet_dir / "device-plugins").glob("hami-*.sock")) == []


def test_agent_killed_between_allocate_and_start_serves_the_held_pod_once_it_is_back(node):
    node.start_kubelet()
    node.start_agent("--identity", "late")
    eventually("readiness", node.ready)
    uid = node.run_pod("p", "npu-0", 5000)  # more than the device has: held
    eventually("the reason in the container's status", lambda: waiting_message(node, "p"))
    node.agent.kill()
    node.agent.wait(60)
    node.devices.write_text(yaml.safe_dump({**DEVICES, "devices": [{**DEVICES["devices"][0], "memory_mib": 8000}]}))
    node.start_agent("--identity", "late")
    env = eventually("the container", lambda: node.env(uid))
    assert env["ACME_MEMORY_LIMIT_MIB_0"] == "5000"


def waiting_message(node, name):
    status = node.client.get(f"{PODS}/{name}").get("status") or {}
    states = [one.get("state", {}).get("waiting", {}).get("message", "") for one in status.get("containerStatuses", ())]
    return next((text for text in states if "0 of 1000 MiB are taken and 5000 needed" in text), None)


def test_init_containers_get_their_own_meaning_though_ids_are_handed_on(node):
    node.start_kubelet()
    node.start_agent("--identity", "late")
    eventually("readiness", node.ready)
    uid = node.run_pod("p", "npu-1", 400, inits=("first", "second"))
    eventually("the container", lambda: node.env(uid))
    for name in ("first", "second", "main"):
        assert node.env(uid, name)["ACME_VISIBLE_DEVICES"] == "npu-1"


def test_kubelet_restart_forgets_nothing(node):
    node.start_kubelet()
    node.start_agent("--identity", "late")
    eventually("readiness", node.ready)
    crash = node.root / "crash"
    uid = node.run_pod("p", "npu-1", 400, command=("sh", "-c", f"until [ -e {crash} ]; do sleep 0.05; done; exit 1"))
    eventually("the container", lambda: node.env(uid))
    node.kubelet.stop(leave_containers=True)
    eventually("the agent to notice", lambda: not node.ready())
    node.start_kubelet()
    eventually("readiness again", node.ready)
    crash.touch()
    eventually("a restart", lambda: restarts(node, "p") >= 1)
    assert node.env(uid)["ACME_VISIBLE_DEVICES"] == "npu-1"


def restarts(node, name):
    status = node.client.get(f"{PODS}/{name}").get("status") or {}
    return sum(one.get("restartCount", 0) for one in status.get("containerStatuses", ()))


def test_ordered_mode_serves_pod_after_pod(node):
    node.start_kubelet()
    node.start_agent("--identity", "ordered")
    eventually("readiness", node.ready)
    for name in ("a", "b"):
        uid = node.run_pod(name, "npu-0", 300, inits=("init",), ordered=True)
        env = eventually("the container", lambda uid=uid: node.env(uid))
        # The pod's own variable wins over Allocate's answer: admission refuses such pods, ordered mode cannot.
        assert env["ACME_MEMORY_LIMIT_MIB_0"] == "300"
        annotations = node.client.get(f"/api/v1/nodes/{NODE}")["metadata"]["annotations"]
        assert "hami.io/mutex.lock" not in annotations


def test_bad_input_ends_with_a_sentence(node):
    node.start_agent("--backend", "nobody")
    assert node.agent.wait(60) == 2
    assert "expected a loaded backend that discovers devices, got 'nobody'" in node.log.read_text()


def test_unreachable_kubeconfig_ends_with_a_sentence(node):
    node.kubeconfig = node.root / "nowhere"
    node.start_agent()
    assert node.agent.wait(60) == 2
    assert "nowhere" in node.log.read_text()
