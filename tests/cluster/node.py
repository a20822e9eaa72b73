"""A real node: containerd and a kubelet on this machine. Root only, and one at a time.

The tests run in namespaces of their own (see ``__main__``), where folders of the node's directory lie over
``/var/lib/kubelet`` and a few others; nothing of the machine is touched, and all of it vanishes with the tests.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hami_core_py.cluster.client import join_path
from tests.cluster import images
from tests.cluster.containerd import BRIDGE, Containerd
from tests.cluster.daemons import Daemon, eventually, free_ports
from tests.cluster.plane import ControlPlane

NAME = "127.0.0.1"
"""A kubelet takes a loopback address for its own only from its name."""
INSIDE = "HAMI_CLUSTER_INSIDE"
"""Set where the tests have mount, network and process namespaces of their own."""
LONGEST = 60
"""Unix sockets lie below the node's directory, and their paths are limited to 107 bytes."""


class Node:
    """One node of a control plane.

    :param directory: a short path, because it holds unix sockets.
    """

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.plane, self.directory = plane, directory
        self.name = NAME
        self.kubelet_dir, self.cdi_dir, self.state_dir = (directory / part for part in ("kubelet", "cdi", "hami"))
        self.containerd = Containerd(directory, plane.release, self.cdi_dir)
        self.kubelet = Daemon(directory / "logs", "kubelet")
        self._mounted: list[Path] = []

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
        self._mount()
        self.containerd.start()
        for reference in (images.BUSYBOX, images.PAUSE):
            self.containerd.load_image(images.busybox(reference))
        self.start_kubelet()
        # The controller manager lifts the not-ready taint a moment later.
        eventually("the node without taints", lambda: not self.object()["spec"].get("taints"))

    def stop(self) -> None:
        """End kubelet, pods and containerd, and remove their cgroups, mounts and network."""
        self.kubelet.stop()
        self.containerd.end_pods()
        self.containerd.daemon.stop()
        subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True, check=False)
        remove_cgroups()
        for target in reversed(self._mounted):
            subprocess.run(["umount", "--recursive", "--lazy", target], capture_output=True, check=False)
            # Only an empty mount point goes, and so only one that was made for us.
            with contextlib.suppress(OSError):
                target.rmdir()
        self._mounted.clear()

    def start_kubelet(self) -> None:
        """Start the kubelet; returns once the node is Ready."""
        kubeconfig = self.plane.write_kubeconfig("kubelet", f"system:node:{self.name}", "system:nodes")
        config = self.directory / "kubelet.json"
        config.write_text(json.dumps(self._configuration(), indent=1))
        program = self.plane.release.program("kubelet")
        flags = (f"--config={config}", f"--kubeconfig={kubeconfig}", f"--hostname-override={self.name}")
        self.kubelet.start([program, *flags])
        eventually("a Ready node", self.is_ready, daemon=self.kubelet)

    def restart_kubelet(self) -> None:
        """End the kubelet and start it again; pods run on."""
        self.kubelet.stop()
        self.start_kubelet()

    def object(self) -> Mapping[str, Any]:
        """The Node object."""
        return self.plane.client.get(join_path("api", "v1", "nodes", self.name))

    def is_ready(self) -> bool:
        """Whether its condition says so."""
        conditions = self.object()["status"].get("conditions") or ()
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def allocatable(self, resource: str) -> str:
        """How much of a resource it offers."""
        return str(self.object()["status"].get("allocatable", {}).get(resource, "0"))

    def _mount(self) -> None:
        """Lay folders of ours over the machine's; what a DaemonSet finds at the usual paths is then ours too."""
        for target, source in (
            ("/var/lib/kubelet", self.kubelet_dir),
            ("/run/containerd", self.directory / "run-containerd"),
            ("/var/log", self.directory / "log"),
            ("/var/lib/cni", self.directory / "addresses"),
        ):
            place = Path(target)
            for folder in (place, source):
                folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(["mount", "--bind", source, place], check=True)
            # What pods mount below it must be seen by the kubelet and by one another.
            subprocess.run(["mount", "--make-rshared", place], check=True)
            self._mounted.append(place)

    def _configuration(self) -> dict[str, Any]:
        certificate, key = self.plane.authority.issue("kubelet-serving", "kubelet-serving", hosts=(self.name,))
        (port,) = free_ports(1)
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
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


def remove_cgroups() -> None:
    """Remove what pods have left of control groups; those in use stay."""
    for root in Path("/sys/fs/cgroup").glob("**/kubepods"):
        for folder, _, _ in os.walk(root, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
