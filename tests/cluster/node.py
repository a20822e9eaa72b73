"""A real node: containerd and a kubelet on this machine. Root only; several beside one another are no trouble.

The tests run in namespaces of their own (see ``__main__``): nothing of the machine's network, mounts and processes is
touched, and all of it vanishes with the tests.
"""

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hami_core_py.cluster.client import join_path
from hami_core_py.codecs.quantities import parse_quantity
from hami_core_py.lab.loopback import free_ports
from tests.cluster import images
from tests.cluster.containerd import Containerd
from tests.cluster.daemons import Daemon, eventually, unused
from tests.cluster.mountspace import MountSpace
from tests.cluster.plane import ControlPlane

INSIDE = "HAMI_CLUSTER_INSIDE"
"""Set where the tests have mount, network and process namespaces of their own."""
NETWORK = "10.99.0"
"""Addresses of the nodes; a kubelet refuses a loopback address."""
LONGEST = 60
"""Unix sockets lie below the node's directory, and their paths are limited to 107 bytes."""
CGROUPS = Path("/sys/fs/cgroup")


class Node:
    """One node of a control plane.

    :param directory: a short path, because it holds unix sockets. :param number: 1 to 254, another for each node.
    """

    def __init__(self, plane: ControlPlane, directory: Path, name: str = "node-a", number: int = 1) -> None:
        self.directory = directory = unused(directory)
        self.plane, self.name = plane, name
        self.address = f"{NETWORK}.{number}"
        # Control groups are the machine's own: the same tests may run on it a second time.
        self._cgroup = f"hami-{name}-{secrets.token_hex(4)}"
        self.kubelet_dir, self.cdi_dir, self.state_dir = (directory / part for part in ("kubelet", "cdi", "hami"))
        self.space = MountSpace(directory)
        self.containerd = Containerd(directory, plane.release, self.space, self.cdi_dir, number)
        self.kubelet = Daemon(directory / "logs", "kubelet")

    def __enter__(self) -> "Node":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start both, load the images, and wait until the node is Ready."""
        assert os.environ.get(INSIDE), "a node needs namespaces of its own: run `python -m tests.cluster`"
        assert len(os.fsencode(self.directory)) <= LONGEST, f"{self.directory} is too long for unix sockets below it"
        self.cdi_dir.mkdir(parents=True, exist_ok=True)
        self.state_dir.mkdir(exist_ok=True)
        (self.directory / "resolv.conf").touch()
        self.space.start()
        self._make_cgroups()
        _ip("address", "add", f"{self.address}/24", "dev", "lo")
        self.containerd.start()
        for reference in (images.BUSYBOX, images.PAUSE):
            self.containerd.load_image(images.busybox(reference))
        self.start_kubelet()
        # The controller manager lifts the not-ready taint a moment later.
        eventually("the node without taints", lambda: not self.object()["spec"].get("taints"))

    def stop(self) -> None:
        """End kubelet, pods and containerd, and remove their control groups and address."""
        self.kubelet.stop()
        self.containerd.end_pods()
        self.containerd.daemon.stop()
        self.space.stop()
        _ip("address", "delete", f"{self.address}/24", "dev", "lo")
        for root in self._cgroups():
            for folder, _, _ in os.walk(root, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)

    def start_kubelet(self) -> None:
        """Start the kubelet; returns once the node is Ready."""
        kubeconfig = self.plane.write_kubeconfig(f"kubelet-{self.name}", f"system:node:{self.name}", "system:nodes")
        config = self.directory / "kubelet.json"
        config.write_text(json.dumps(self._configuration(), indent=1))
        program = self.plane.release.program("kubelet")
        flags = (f"--config={config}", f"--kubeconfig={kubeconfig}")
        name = (f"--hostname-override={self.name}", f"--node-ip={self.address}")
        self.kubelet.start(self.space.enter([program, *flags, *name]))
        eventually("a Ready node", self.is_ready, daemon=self.kubelet)

    def restart_kubelet(self) -> None:
        """End the kubelet and start it again; pods run on."""
        self.kubelet.stop()
        self.start_kubelet()

    def run_again(self) -> None:
        """Start what a test that failed may have left ended or stopped in its tracks."""
        if self.containerd.daemon.pid is None:
            self.containerd.start()
        self.kubelet.resume()
        if self.kubelet.pid is None:
            self.start_kubelet()

    def object(self) -> Mapping[str, Any]:
        """The Node object."""
        return self.plane.client.get(join_path("api", "v1", "nodes", self.name))

    def is_ready(self) -> bool:
        """Whether its condition says so."""
        conditions = self.object()["status"].get("conditions") or ()
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def allocatable(self, resource: str) -> int:
        """How much of a resource it offers; the API server writes 20000 as ``20k``."""
        return int(parse_quantity(self.object()["status"].get("allocatable", {}).get(resource, "0")))

    def _cgroups(self) -> list[Path]:
        """Our control group, in every hierarchy; kubelets that shared one would end each other's pods."""
        if (CGROUPS / "cgroup.controllers").exists():
            return [CGROUPS / self._cgroup]
        hierarchies = (path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink())
        return [hierarchy / self._cgroup for hierarchy in hierarchies]

    def _make_cgroups(self) -> None:
        for folder in self._cgroups():
            folder.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                # The first version's cpusets begin empty, and nothing can run in an empty one.
                if (folder / name).exists() and not (folder / name).read_text().strip():
                    (folder / name).write_text((folder.parent / name).read_text())

    def _configuration(self) -> dict[str, Any]:
        certificate, key = self.plane.authority.issue(
            f"kubelet-serving-{self.name}", f"system:node:{self.name}", hosts=(self.name, self.address)
        )
        (port,) = free_ports(1)
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "port": port,
            "healthzPort": 0,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.plane.authority.certificate)},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(certificate),
            "tlsPrivateKeyFile": str(key),
            "containerRuntimeEndpoint": self.containerd.endpoint,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": ["none"],
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "makeIPTablesUtilChains": False,
            "resolvConf": str(self.directory / "resolv.conf"),
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            "nodeStatusUpdateFrequency": "2s",
        }


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=False)
