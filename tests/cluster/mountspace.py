"""A mount namespace of one node, in which folders of the node's directory lie over the machine's."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.daemons import Argument, Daemon, eventually

OVERLAID = {
    "/var/lib/kubelet": "kubelet",
    "/run/containerd": "run-containerd",
    "/var/log": "log",
    "/var/lib/cni": "addresses",
    # Where the chart puts what is ours, and CDI specs.
    "/var/lib/hami": "hami",
    "/var/run/cdi": "cdi",
    "/etc/cdi": "etc-cdi",
}
"""Folder of the machine → folder of the node that its programs find there."""


class MountSpace:
    """Held by a process that sleeps; whoever is started in it sees the node's folders."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._holder = Daemon(directory / "logs", "mounts")

    def start(self) -> None:
        """Make it."""
        ready = self._directory / "mounted"
        # What pods mount there must be seen by the kubelet and by one another.
        lines = ["mount --make-rshared /"]
        for target, folder in OVERLAID.items():
            source = self._directory / folder
            for place in (Path(target), source):
                place.mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind '{source}' '{target}'")
        lines += [f"touch '{ready}'", "exec sleep infinity"]
        self._holder.start(["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(lines)])
        eventually("a mount namespace", ready.exists, daemon=self._holder)

    def stop(self) -> None:
        """End the process that holds it; it is gone with the last one that is in it."""
        self._holder.stop()

    def enter(self, command: Sequence[Argument]) -> list[Argument]:
        """A command that runs there."""
        assert self._holder.pid is not None, "the mount namespace is not there"
        return ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--", *command]

    def run(
        self, command: Sequence[Argument], stdin: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command there to its end; never raises for its exit status."""
        return subprocess.run(self.enter(command), capture_output=True, input=stdin, env=env, check=False)

    @property
    def is_held(self) -> bool:
        """Whether it is there."""
        return self._holder.pid is not None
