"""What the checks of a node look at: gathered there, plain from then on."""

from dataclasses import dataclass
from typing import Literal

SocketState = Literal["answers", "silent", "missing"]
"""``silent``: the file is there and nobody listens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A directory that the agent uses.

    :ivar file_system: its type; empty: unknown. :ivar root: its path within the file system that holds it; in a container
        with a mounted directory of the host the end of the host's path. :ivar free_bytes: ``None``: unknown.
    :ivar noexec: whether programs and libraries in it cannot be run.
    """

    path: str
    exists: bool = True
    writable: bool = True
    file_system: str = ""
    root: str = ""
    free_bytes: int | None = None
    noexec: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """containerd's configuration file.

    :ivar version: of the file's layout. :ivar cdi: ``enable_cdi``; ``None``: not stated.
    :ivar spec_dirs: where it looks for specs; empty: its defaults.
    """

    path: str
    version: int = 1
    cdi: bool | None = None
    spec_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRecord:
    """A container's record on disk.

    :ivar known: whether the kubelet's checkpoint has it. :ivar mounted: ``None``: unknown. :ivar loaded: whether a process of it
        has loaded a library that it was given; ``None``: it was given none, does not run, or cannot be looked at.
    """

    name: str
    pod: str
    known: bool
    mounted: bool | None
    loaded: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendOnHost:
    """What a backend finds here.

    :ivar problem: why it could not answer. :ivar files: host file → what is wrong with it.
    :ivar unloadable: library → why the loader of this machine refuses it, in its own words.
    """

    name: str
    devices: int = 0
    problem: str = ""
    files: tuple[tuple[str, str], ...] = ()
    unloadable: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """Everything the checks of a node may see.

    :ivar sockets: of plugins of ours that lie in the kubelet's directory → state. :ivar wanted_sockets: paths our plugins need.
    :ivar runtime: ``None``: its configuration cannot be seen from here. :ivar containerd: its version; ``None``: unknown.
    :ivar checkpoint_problem: why the kubelet's checkpoint is not understood.
    :ivar broken_records: path → why it cannot be read. :ivar sees_host: whether the host's processes show here.
    :ivar glibc: version of this machine's C library; ``None``: it has another one.
    """

    plugin_dir: Directory
    state_dir: Directory
    cdi_dir: Directory
    kubelet: SocketState = "answers"
    pod_resources: SocketState = "answers"
    sockets: tuple[tuple[str, SocketState], ...] = ()
    wanted_sockets: tuple[str, ...] = ()
    runtime: Runtime | None = None
    containerd: tuple[int, int] | None = None
    identity: Literal["auto", "late", "ordered"] = "auto"
    checkpoint_problem: str = ""
    records: tuple[KeptRecord, ...] = ()
    broken_records: tuple[tuple[str, str], ...] = ()
    sees_host: bool = True
    glibc: tuple[int, int] | None = (2, 17)
    backends: tuple[BackendOnHost, ...] = ()
