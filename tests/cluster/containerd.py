"""containerd of the test node: its configuration, its start, and the images it gets."""

import json
import os
import subprocess
from pathlib import Path

from tests.cluster import images
from tests.cluster.daemons import Argument, Daemon, eventually
from tests.cluster.mountspace import MountSpace
from tests.cluster.releases import Release

CONFIG = """version = 3
root = "{root}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
address = "{socket}"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{pause}"

[plugins.'io.containerd.cri.v1.runtime']
# Without CAP_SYS_RESOURCE not even root may lower it.
restrict_oom_score_adj = true
enable_cdi = true
cdi_spec_dirs = ["{cdi}"]

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{programs}"]
conf_dir = "{root}/cni"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
BinaryName = "{runtime}"
"""


class Containerd:
    """The container runtime of one node.

    :param cdi_dir: where it looks for CDI specs. :param number: tells its pods' addresses from those of other nodes.
    :ivar runtime: the OCI runtime, by name or path; to be set before it starts.
    """

    def __init__(self, directory: Path, release: Release, space: MountSpace, cdi_dir: Path, number: int) -> None:
        self.directory, self._release, self._space = directory, release, space
        self._cdi_dir, self._number = cdi_dir, number
        self.socket = directory / "containerd.sock"
        self.runtime = "runc"
        self.daemon = Daemon(directory / "logs", "containerd")

    @property
    def endpoint(self) -> str:
        """Its address, as kubelet and crictl want it."""
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start it; returns once it answers."""
        config = self.directory / "containerd.toml"
        values = {"root": self.directory, "socket": self.socket, "pause": images.PAUSE, "cdi": self._cdi_dir}
        values |= {"runtime": self.runtime}
        config.write_text(CONFIG.format(programs=self._release.program("bridge").parent, **values))
        self._write_network()
        program = self._release.program("containerd")
        path = f"{program.parent}:{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
        command: list[Argument] = [program, "--config", config]
        self.daemon.start(self._space.enter(command), {"PATH": path})
        eventually("containerd", lambda: self._ctr("version").returncode == 0, daemon=self.daemon)

    def load_image(self, archive: bytes) -> None:
        """Import an image archive for the pods."""
        done = self._ctr("images", "import", "-", stdin=archive)
        assert done.returncode == 0, f"image not imported: {done.stderr.decode()}"

    def end_pods(self) -> None:
        """End all containers and remove their network and mounts."""
        if self.daemon.pid is not None and self._space.is_held:
            self.crictl("rmp", "--all", "--force")

    def crictl(self, *arguments: str) -> str:
        """What crictl answers, whatever its exit status; warnings are left out."""
        flags = ("--runtime-endpoint", self.endpoint, "--timeout", "30s")
        return self._space.run([self._release.program("crictl"), *flags, *arguments]).stdout.decode()

    def _ctr(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        flags = ("--address", str(self.socket), "--namespace", "k8s.io")
        return self._space.run([self._release.program("ctr"), *flags, *arguments], stdin)

    def _write_network(self) -> None:
        """Pods reach one another and the node, which is the bridge's own address; there is no way out."""
        subnet = {"subnet": f"10.244.{self._number}.0/24"}
        bridge = {
            "type": "bridge",
            "bridge": f"hami-pods{self._number}",
            "isGateway": True,
            "ipam": {"type": "host-local", "ranges": [[subnet]], "routes": [{"dst": "0.0.0.0/0"}]},
        }
        network = {"cniVersion": "1.0.0", "name": "test", "plugins": [bridge]}
        folder = self.directory / "cni"
        folder.mkdir(exist_ok=True)
        (folder / "10-test.conflist").write_text(json.dumps(network))
