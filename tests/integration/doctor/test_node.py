"""`hami doctor --node` in real directories with real sockets."""

import json
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from hami_core_py.cli import main
from hami_core_py.codecs.cdi import VENDOR
from hami_core_py.codecs.checkpoint import CHECKPOINT_FILE, CheckpointEntry, render_checkpoint
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp
from hami_core_py.services.agent.holdings import Holdings, PodRef
from hami_core_py.testing.builders import COUNT, FAMILY

CONFIG = """
version = 3
[plugins."io.containerd.cri.v1.runtime"]
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "{cdi}"]
"""


class NodeUnderTest:
    """A node's directories, and somebody who listens where the kubelet would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.kubelet, self.state, self.cdi = root / "kubelet", root / "state", root / "cdi"
        self.plugins = self.kubelet / "device-plugins"
        for folder in (self.plugins, self.kubelet / "pod-resources", self.state, self.cdi):
            folder.mkdir(parents=True)
        self.runtime = root / "config.toml"
        self.runtime.write_text(CONFIG.format(cdi=self.cdi))
        self._listeners: list[socket.socket] = []
        self.listen(self.plugins / "kubelet.sock")
        self.listen(self.kubelet / "pod-resources" / "kubelet.sock")
        self.devices = root / "devices.yaml"
        resources = {"count": COUNT}
        card = {"family": FAMILY, "count": 1, "memory_mib": 1000}
        self.devices.write_text(
            yaml.safe_dump({"families": [{"name": FAMILY, "resources": resources}], "nodes": {"n1": [card]}})
        )

    def listen(self, path: Path) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        self._listeners.append(listener)

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()

    def keep_record(self, *, in_checkpoint: bool) -> str:
        """A container that was granted something. :returns: its name."""
        holdings = Holdings(self.state)
        holdings.open()
        holding = holdings.create(FAMILY, ["a"])
        pod = PodRef(uid="u", namespace="ml", name="train")
        holdings.keep(
            type(holding)(name=holding.name, family=FAMILY, ids=holding.ids, at=0.0, pod=pod, container="main")
        )
        answer = dp.ContainerAllocateResponse(cdi_devices=[dp.CDIDevice(name=f"{VENDOR}/acme={holding.name}")])
        entry = CheckpointEntry(
            pod_uid="u", container="main", resource=COUNT, ids=holding.ids, answer=answer.SerializeToString()
        )
        (self.plugins / CHECKPOINT_FILE).write_bytes(render_checkpoint((entry,) if in_checkpoint else ()))
        return holding.name

    def findings(self) -> dict[str, str]:
        """Code → subject of what is wrong here, but for what depends on the machine that the tests run on."""
        folders = ("--kubelet-dir", self.kubelet, "--state-dir", self.state, "--cdi-dir", self.cdi)
        options = (*folders, "--containerd-config", self.runtime, "--backend", "mock", "-o", "json")
        answer = CliRunner().invoke(main, ["doctor", "--node", *map(str, options)])
        assert answer.exit_code in (0, 1), answer.output
        ours_to_choose = {"host-processes-hidden", "state-directory-volatile", "state-directory-elsewhere"}
        found = json.loads(answer.output)["findings"]
        return {one["code"]: one["subject"] for one in found if one["code"] not in ours_to_choose}


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeUnderTest]:
    monkeypatch.setenv("NODE_NAME", "n1")
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hd") as folder:
        made = NodeUnderTest(Path(folder))
        monkeypatch.setenv("HAMI_MOCK_DEVICES", str(made.devices))
        yield made
        made.close()


def test_healthy_node_has_no_finding(node: NodeUnderTest) -> None:
    node.listen(node.plugins / "hami-acme.sock")
    node.keep_record(in_checkpoint=True)
    assert node.findings() == {}


def leave_a_socket(node: NodeUnderTest) -> None:
    path = node.plugins / "hami-acme.sock"
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(path))


MISTAKES: dict[str, Callable[[NodeUnderTest], object]] = {
    "kubelet-directory-missing": lambda node: node.plugins.rename(node.root / "elsewhere"),
    "kubelet-not-listening": lambda node: node.close(),
    "pod-resources-missing": lambda node: (node.kubelet / "pod-resources" / "kubelet.sock").unlink(),
    "socket-stale": leave_a_socket,
    "cdi-directory-missing": lambda node: node.cdi.rmdir(),
    "cdi-disabled": lambda node: node.runtime.write_text(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = false\n'
    ),
    "cdi-directory-unread": lambda node: node.runtime.write_text(CONFIG.format(cdi="/run/other")),
    "checkpoint-unknown": lambda node: (node.plugins / CHECKPOINT_FILE).write_text('{"Data": {"Entries": []}}'),
    "kept-record-unreadable": lambda node: _tear(node),
    "state-directory-unusable": lambda node: node.state.rmdir(),
    "no-device-found": lambda node: node.devices.write_text("nodes: {}\n"),
}


@pytest.mark.parametrize("code", MISTAKES)
def test_mistake_on_the_node_is_found(node: NodeUnderTest, code: str) -> None:
    MISTAKES[code](node)
    assert code in node.findings()


def test_running_container_that_the_kubelet_forgot_is_found_by_its_mount(node: NodeUnderTest, tmp_path: Path) -> None:
    from hami_core_py.commands.common import load
    from hami_core_py.decisions.doctor.host import HOST_CHECKS
    from hami_core_py.services.doctor.host import HostPlaces, host_facts

    name = node.keep_record(in_checkpoint=False)
    proc = tmp_path / "proc"
    for process, comm in (("2", "kthreadd"), ("77", "train")):
        (proc / process / "ns").mkdir(parents=True)
        (proc / process / "comm").write_text(f"{comm}\n")
        (proc / process / "ns" / "mnt").symlink_to(f"mnt:[{process}]")
        (proc / process / "mountinfo").write_text("")
    mounted = f"30 20 8:1 /var/lib/hami/containers/{name} /etc/hami/acme ro - ext4 /dev/sda1 rw\n"
    (proc / "77" / "mountinfo").write_text(mounted)
    places = HostPlaces(kubelet_dir=node.kubelet, state_dir=node.state, cdi_dir=node.cdi, proc=proc, backends=("mock",))
    found = HOST_CHECKS.diagnose(host_facts(load(None).ask, places))
    assert ("checkpoint-forgotten", "pod ml/train") in [(one.code, one.subject) for one in found]


def test_directory_that_is_mounted_from_elsewhere_is_found(node: NodeUnderTest, tmp_path: Path) -> None:
    from hami_core_py.services.doctor.host import mount_of

    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    table = f"20 1 0:30 / / rw - overlay overlay rw\n30 20 8:1 /data/hami {node.state} rw - ext4 /dev/sda1 rw\n"
    (proc / "self" / "mountinfo").write_text(table)
    assert mount_of(node.state, proc) == ("ext4", "/data/hami")
    assert mount_of(node.cdi, proc) == ("overlay", str(node.cdi))


def _tear(node: NodeUnderTest) -> None:
    name = node.keep_record(in_checkpoint=True)
    (node.state / "records" / f"{name}.json").write_text('{"version": 1')
