"""What one kubelet of the lab is told when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_SOCKET_PATH = 107
"""Linux stores the path of a unix socket in 108 bytes, the last of which is zero."""


@dataclass(frozen=True, slots=True)
class KubeletOptions:
    """Settings of a kubelet; durations are seconds, shorter than a real kubelet's so that a lab does not wait.

    A real kubelet tries a container that could not be created again after 0.4 s and then about every 13 s
    (``retry_seconds``), and delays the restarts of a crashing one by 10 s, 20 s, ... 300 s (``backoff_seconds``,
    ``longest_backoff_seconds``).
    """

    node: str
    api_url: str
    root: Path
    logs: Path | None = None
    """Where containers' output goes, which several nodes may share; None for a directory below the root."""
    capacity: Mapping[str, str] = field(default_factory=dict)
    """Overrides of cpu, memory, ephemeral-storage and pods, as Kubernetes quantities."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the Node besides those every kubelet sets."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that all containers have unless something sets them otherwise, as if their images brought them.

    $(NAMESPACE), $(POD) and $(CONTAINER) stand for names.
    """
    first_retry_seconds: float = 0.4
    retry_seconds: float = 1.0
    backoff_seconds: float = 1.0
    longest_backoff_seconds: float = 30.0
    heartbeat_seconds: float = 10.0
    status_seconds: float = 0.0
    """How long a change of devices goes unreported: up to 10 s with a real kubelet, and a pod that is bound meanwhile to
    devices that are gone fails for good."""
    prestart_timeout_seconds: float = 30.0
    plugin_grace_seconds: float = 300.0
    """How long a node keeps the capacity of a device plugin that went away."""
    api_timeout_seconds: float = 5.0
    seed: int | None = None
    """Makes the order of device ids repeatable; None draws a new order each time."""

    @property
    def plugin_directory(self) -> Path:
        """Where device plugins and the kubelet meet."""
        return self.root / "device-plugins"

    @property
    def pod_resources_socket(self) -> Path:
        """The socket that tells which container holds which devices."""
        return self.root / "pod-resources" / "kubelet.sock"

    @property
    def log_directory(self) -> Path:
        """Where containers' output goes."""
        return self.logs or self.root / "logs"

    @property
    def cdi_directory(self) -> Path:
        """Where the runtime looks for CDI specs."""
        return self.root / "cdi"

    def check(self) -> None:
        """Refuse a root whose sockets could not be opened.

        :raises ValueError: the path of a socket is too long for the operating system.
        """
        for socket in (self.plugin_directory / "kubelet.sock", self.pod_resources_socket):
            length = len(str(socket).encode())
            if length > LONGEST_SOCKET_PATH:
                raise ValueError(
                    f"kubelet root {self.root}: expected socket paths of at most {LONGEST_SOCKET_PATH} bytes, "
                    f"{socket} has {length}; choose a shorter root, such as a directory under /tmp"
                )
