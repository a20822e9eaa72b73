"""What one node agent is told, and what it makes of it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hami_core_py.codecs.native import Identity


@dataclass(frozen=True, kw_only=True)
class AgentOptions:
    """What one node agent is told; see the settings of the same names.

    :ivar backends: names of the backends to ask for devices; empty: all that can be asked.
    :ivar vendor_cdi_dirs: where vendors' CDI specs are besides ``cdi_dir``.
    :ivar sweep_seconds: interval of clean-up and reconciliation.
    """

    node: str
    kubelet_dir: Path
    state_dir: Path
    cdi_dir: Path
    identity: Literal["auto", "late", "ordered"] = "auto"
    backends: tuple[str, ...] = ()
    discovery_seconds: float = 30.0
    discovery_timeout_seconds: float = 30.0
    publish_totals: bool = True
    trust_v210: bool = True
    lease_namespace: str = "hami-system"
    lease_seconds: float = 60.0
    sweep_seconds: float = 30.0
    call_timeout_seconds: float = 20.0
    vendor_cdi_dirs: tuple[Path, ...] = ()
    proc: Path = Path("/proc")

    @property
    def plugin_dir(self) -> Path:
        """Where the kubelet's and the plugins' sockets are."""
        return self.kubelet_dir / "device-plugins"


def choose_identity(asked: Literal["auto", "late", "ordered"], cdi_dir: Path) -> Identity:
    """How Allocate shall learn its pod.

    ``auto`` is late where the directory of CDI specs is there and can be written, as a node with a CDI runtime is set up;
    that the runtime really applies CDI, only a container can show.
    """
    if asked != "auto":
        return asked
    return "late" if cdi_dir.is_dir() and os.access(cdi_dir, os.W_OK) else "ordered"
