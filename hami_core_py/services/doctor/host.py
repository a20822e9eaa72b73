"""Looking at one node from there: directories, sockets, the kubelet's checkpoint, records, runtime, drivers."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hami_core_py.codecs.cdi import VENDOR, class_word
from hami_core_py.codecs.checkpoint import CHECKPOINT_FILE, CheckpointError, parse_checkpoint
from hami_core_py.decisions.doctor.hostfacts import BackendOnHost, Directory, HostFacts, KeptRecord, SocketState
from hami_core_py.errors import BadInputError, HamiError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.services.agent.holdings import Holding, parse_holding
from hami_core_py.services.agent.hostfiles import HostFiles
from hami_core_py.services.agent.mounts import Mounts
from hami_core_py.services.doctor.loading import glibc, loaded_by, why_not_loadable
from hami_core_py.services.doctor.runtime import read_runtime

CONNECT_SECONDS = 1.0
UNIX_PATH_MAX = 107


@dataclass(frozen=True, kw_only=True)
class HostPlaces:
    """Where to look.

    :ivar backends: names of the backends whose agent runs here; empty: all. :ivar containerd: its version; ``None``: unknown.
    """

    kubelet_dir: Path
    state_dir: Path
    cdi_dir: Path
    runtime_config: Path = Path("/etc/containerd/config.toml")
    proc: Path = Path("/proc")
    identity: Literal["auto", "late", "ordered"] = "auto"
    backends: tuple[str, ...] = ()
    containerd: tuple[int, int] | None = None
    cdi_names: Callable[[bytes], Sequence[str]] = field(default=lambda _answer: ())


def host_facts(ask: Ask, places: HostPlaces) -> HostFacts:
    """Everything that the checks of a node look at. Changes nothing. May take as long as the drivers need to answer."""
    plugin_dir = places.kubelet_dir / "device-plugins"
    asked = [
        backend
        for backend in ask.backends.loaded
        if "hami_discover_devices" in backend.hooks and (not places.backends or backend.info.name in places.backends)
    ]
    served = sorted(f.name for backend in asked for f in backend.families if f.served)
    problem, known = _checkpoint(plugin_dir, places.cdi_names)
    mounts = Mounts(places.proc)
    holdings, broken = _records(places.state_dir)
    libraries = {file.name for backend in asked for file in backend.info.host_files if ".so" in file.name}
    return HostFacts(
        plugin_dir=_directory(plugin_dir, places.proc),
        state_dir=_directory(places.state_dir, places.proc),
        cdi_dir=_directory(places.cdi_dir, places.proc),
        kubelet=socket_state(plugin_dir / "kubelet.sock"),
        pod_resources=socket_state(places.kubelet_dir / "pod-resources" / "kubelet.sock"),
        sockets=tuple((str(path), socket_state(path)) for path in _own_sockets(plugin_dir)),
        wanted_sockets=tuple(str(plugin_dir / f"hami-{class_word(family)}.sock") for family in served),
        runtime=read_runtime(places.runtime_config),
        containerd=places.containerd,
        identity=places.identity,
        checkpoint_problem=problem,
        records=tuple(
            KeptRecord(
                name=one.name,
                pod=f"{one.pod.namespace}/{one.pod.name}",
                known=one.name in known,
                mounted=mounts.has(one.name),
                loaded=loaded_by(one.name, libraries, places.proc),
            )
            for one in holdings
            if one.pod is not None
        ),
        broken_records=broken,
        sees_host=mounts.sees_all(),
        glibc=glibc(),
        backends=tuple(_backend(ask, backend, HostFiles(places.state_dir)) for backend in asked),
    )


def socket_state(path: Path) -> SocketState:
    """Whether somebody listens on a unix socket. Connecting is all that is done."""
    if not path.exists():
        return "missing"
    if len(str(path).encode()) > UNIX_PATH_MAX:
        return "silent"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        trial.settimeout(CONNECT_SECONDS)
        try:
            trial.connect(str(path))
        except OSError:
            return "silent"
    return "answers"


def _own_sockets(plugin_dir: Path) -> list[Path]:
    try:
        return sorted(plugin_dir.glob("hami-*.sock"))
    except OSError:
        return []


def _directory(path: Path, proc: Path) -> Directory:
    if not path.is_dir():
        return Directory(path=str(path), exists=False, writable=False)
    file_system, root = mount_of(path, proc)
    statistics = os.statvfs(path)
    return Directory(
        path=str(path),
        writable=os.access(path, os.W_OK | os.X_OK),
        file_system=file_system,
        root=root,
        free_bytes=statistics.f_bavail * statistics.f_frsize,
        noexec=bool(statistics.f_flag & os.ST_NOEXEC),
    )


def mount_of(path: Path, proc: Path) -> tuple[str, str]:
    """Type of the file system that holds a directory, and the directory's path within it; empty where it cannot be told."""
    real, best = os.path.realpath(path), ""
    found = ("", "")
    try:
        lines = (proc / "self" / "mountinfo").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        root, point = _unescaped(fields[3]), _unescaped(fields[4])
        is_above = real == point or real.startswith(point.rstrip("/") + "/")
        # A later line hides an earlier one of the same place.
        if is_above and len(point) >= len(best):
            below = real.removeprefix(point.rstrip("/"))
            best, found = point, (after.split(" ")[0], f"{root.rstrip('/')}{below}")
    return found


def _unescaped(text: str) -> str:
    """Mount tables write a blank as ``\\040``."""
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def _checkpoint(plugin_dir: Path, cdi_names: Callable[[bytes], Sequence[str]]) -> tuple[str, frozenset[str]]:
    """Why the checkpoint is not understood, and the names of ours in it."""
    path = plugin_dir / CHECKPOINT_FILE
    try:
        entries = parse_checkpoint(path.read_bytes(), str(path))
    except FileNotFoundError:
        return "", frozenset()
    except (OSError, CheckpointError) as problem:
        return str(problem), frozenset()
    names: set[str] = set()
    for entry in entries:
        try:
            texts = cdi_names(entry.answer)
        except ValueError:
            continue  # another plugin's answer need not be one that we can read
        names.update(text.rpartition("=")[2] for text in texts if text.startswith(f"{VENDOR}/"))
    return "", frozenset(names)


def _records(state_dir: Path) -> tuple[Sequence[Holding], tuple[tuple[str, str], ...]]:
    """Records that the agent keeps, and those that cannot be read."""
    readable, broken = [], []
    try:
        paths = sorted((state_dir / "records").glob("*.json"))
    except OSError:
        return (), ()
    for path in paths:
        try:
            readable.append(parse_holding(path.read_bytes(), str(path)))
        except (OSError, BadInputError, KeyError, TypeError, ValueError) as problem:
            broken.append((str(path), str(problem)))
    return readable, tuple(broken)


def _backend(ask: Ask, backend: LoadedBackend, host_files: HostFiles) -> BackendOnHost:
    name = backend.info.name
    files, unloadable = tuple(_damaged(backend, host_files)), tuple(_unloadable(backend, host_files))
    try:
        devices, problem = len(ask.discover_devices(backend)), ""
    except HamiError as found:
        devices, problem = 0, str(found)
    return BackendOnHost(name=name, devices=devices, problem=problem, files=files, unloadable=unloadable)


def _unloadable(backend: LoadedBackend, host_files: HostFiles) -> Iterator[tuple[str, str]]:
    directory = host_files.directory(backend)
    for file in backend.info.host_files if directory is not None else ():
        path = Path(directory or "", file.name)
        if ".so" in file.name and path.is_file() and path.stat().st_size and (why := why_not_loadable(path)):
            yield str(path), why


def _damaged(backend: LoadedBackend, host_files: HostFiles) -> Iterator[tuple[str, str]]:
    directory = host_files.directory(backend)
    if directory is None:
        return
    for file in backend.info.host_files:
        path = directory / file.name
        if path.is_dir():
            yield str(path), "it is a directory"
        elif not path.is_file():
            yield str(path), "it is missing"
        elif not path.stat().st_size:
            yield str(path), "it is empty"
