"""The container runtime of the lab: a container is a local process with the environment a container would get.

All that is known of a container lies in its directory, ``<root>/pods/<uid>/containers/<name>/``, so that a kubelet
that starts again finds its containers running: ``config.json`` (what the container received), ``mounts.json``,
``rootfs/`` (its mounts and devices as links), ``state.json`` and ``exit.json`` (written by the shim).

Where the machine allows it the process has a mount namespace of its own and sees its mounts where they belong, a file
that the loader reads among them; elsewhere only ``rootfs/`` shows them, and ``config.json`` says why.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from hami_core_py import namespaces
from hami_core_py.lab.kubelet import cdi
from hami_core_py.lab.kubelet.exits import ExitWatcher
from hami_core_py.lab.kubelet.shim import start_ticks

log = logging.getLogger(__name__)

Shown = TypeVar("Shown", "Mount", "DeviceNode")


class CreateError(Exception):
    """The container could not be created."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the host that the container sees."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file of the host that the container sees."""

    container_path: str
    host_path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """What a container is made of, before the runtime applies CDI."""

    pod_uid: str
    namespace: str
    pod: str
    container: str
    image: str
    args: Sequence[str]
    env: Mapping[str, str]
    restart_count: int = 0
    mounts: Sequence[Mount] = ()
    devices: Sequence[DeviceNode] = ()
    cdi_devices: Sequence[str] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Instance:
    """One run of a container."""

    id: str
    restart_count: int
    started_at: float
    """Seconds since the epoch."""
    finished_at: float | None = None
    """None while it runs."""
    exit_code: int = 0
    signal: int = 0
    error: str = ""
    """Why it could not be started, or is not known to have ended well."""

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        return self.finished_at is None


def log_path(directory: Path, namespace: str, pod: str, uid: str, container: str, restart_count: int = 0) -> Path:
    """The file with the output of one run of a container, below a kubelet's log directory."""
    return directory / f"{namespace}_{pod}_{uid}" / container / f"{restart_count}.log"


class Runtime:
    """Starts, finds, signals and removes containers."""

    def __init__(self, root: Path, *, cdi_directory: Path, log_directory: Path, on_exit: Callable[[str], None]) -> None:
        """``on_exit`` is called with the pod's UID, from another thread, when a container has ended."""
        self._root, self._cdi, self._logs = root, cdi_directory, log_directory
        self._on_exit = on_exit
        self._exits = ExitWatcher()

    def directory(self, uid: str, container: str) -> Path:
        """Where a container's files are."""
        return self._root / "pods" / uid / "containers" / container

    def start(self, config: ContainerConfig) -> None:
        """Create the container and start its process.

        A process that cannot be started is a container that ended with 128, not an error.

        :raises CreateError: a CDI name has no spec, or the shim does not work.
        """
        try:
            edits = cdi.resolve(self._cdi, config.cdi_devices)
        except cdi.UnresolvableDevices as error:
            raise CreateError(str(error)) from error
        directory = self.directory(config.pod_uid, config.container)
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("state.json", "exit.json", "hidden.json"):
            (directory / name).unlink(missing_ok=True)
        shutil.rmtree(directory / "layers", ignore_errors=True)
        mounts = _by_path([*config.mounts, *map(_cdi_mount, edits.mounts)])
        devices = _by_path([*config.devices, *map(_cdi_device, edits.device_nodes)])
        output = self._log_file(config, config.restart_count)
        output.parent.mkdir(parents=True, exist_ok=True)
        if config.restart_count > 1:  # the run before stays, for `kubectl logs --previous`
            self._log_file(config, config.restart_count - 2).unlink(missing_ok=True)
        received = asdict(config) | {
            "id": uuid.uuid4().hex,
            "env": dict(config.env) | dict(edits.env),
            "mounts": [asdict(mount) for mount in mounts],
            "devices": [asdict(device) for device in devices],
            "hooks": list(edits.hooks),
            "cwd": str(directory),
            "log": str(output),
        }
        if mounts:
            why_not = _no_mounts()
            received |= {"only_links": why_not} if why_not else {"namespaces": namespaces.__file__}
        _link(directory / "rootfs", [*mounts, *devices])
        _write(directory / "mounts.json", received["mounts"])
        _write(directory / "config.json", received)
        self._launch(config, directory)

    def inspect(self, uid: str, container: str) -> Instance | None:
        """The container's latest run; None when it never ran."""
        directory = self.directory(uid, container)
        config, state, ended = (_read(directory / name) for name in ("config.json", "state.json", "exit.json"))
        if config is None or state is None:
            return None
        instance = Instance(config["id"], config["restart_count"], state["started_at"])
        if ended is None and _is_alive(state["keeper"], state["keeper_ticks"]):
            return instance
        ended = _read(directory / "exit.json")
        if ended is None:  # the shim was killed: nobody waited for the process
            _signal(state, signal.SIGKILL)
            ended = {"exit_code": 137, "finished_at": state["started_at"], "error": "the container's shim was killed"}
        return Instance(
            instance.id,
            instance.restart_count,
            instance.started_at,
            finished_at=ended["finished_at"],
            exit_code=ended["exit_code"],
            signal=ended.get("signal", 0),
            error=ended.get("error", ""),
        )

    def adopt(self) -> list[tuple[str, str]]:
        """Take over the containers of an earlier kubelet; answers (pod UID, container) of those that run."""
        running = []
        for uid in self.pod_uids():
            for container in self.containers(uid):
                instance = self.inspect(uid, container)
                if instance is not None and instance.is_running:
                    running.append((uid, container))
                    self._await_exit(uid, container)
        return running

    def pod_uids(self) -> list[str]:
        """The pods that have a directory."""
        directory = self._root / "pods"
        return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []

    def containers(self, uid: str) -> list[str]:
        """The containers of a pod that were created here."""
        directory = self._root / "pods" / uid / "containers"
        return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []

    def signal(self, uid: str, container: str, number: signal.Signals) -> None:
        """Signal a container's first process; with SIGKILL, all of its process group."""
        state = _read(self.directory(uid, container) / "state.json")
        if state is not None:
            _signal(state, number)

    def end_all(self, grace_seconds: float) -> None:
        """End every container there is, of whichever kubelet."""
        running = [(uid, name) for uid in self.pod_uids() for name in self.containers(uid)]
        deadline = time.monotonic() + grace_seconds
        for one in running:
            self.signal(*one, signal.SIGTERM)
        while running := [one for one in running if (found := self.inspect(*one)) and found.is_running]:
            if time.monotonic() > deadline:
                for one in running:
                    self.signal(*one, signal.SIGKILL)
            time.sleep(0.02)

    def remove(self, uid: str) -> None:
        """Remove what is left of a pod whose containers have ended; its logs stay."""
        shutil.rmtree(self._root / "pods" / uid, ignore_errors=True)

    def close(self) -> None:
        """Stop watching; containers go on."""
        self._exits.stop()

    def _log_file(self, config: ContainerConfig, restart_count: int) -> Path:
        return log_path(self._logs, config.namespace, config.pod, config.pod_uid, config.container, restart_count)

    def _launch(self, config: ContainerConfig, directory: Path) -> None:
        shim = Path(__file__).with_name("shim.py")
        result = subprocess.run(
            [sys.executable, "-I", "-S", str(shim), str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ.get("PATH", os.defpath)},
            check=False,
        )
        if not (directory / "state.json").exists():
            raise CreateError(f"the container's shim failed: {result.stderr.decode(errors='replace')[-500:]}")
        self._await_exit(config.pod_uid, config.container)

    def _await_exit(self, uid: str, container: str) -> None:
        state = _read(self.directory(uid, container) / "state.json")
        if state is not None:
            self._exits.watch(state["keeper"], lambda: self._on_exit(uid))


@cache
def _no_mounts() -> str:
    """Why processes cannot be shown mounts where they belong; empty: they can. Tried once, in a process that may fail."""
    with tempfile.TemporaryDirectory(prefix="hami-mounts-") as folder:
        trial = subprocess.run(
            [sys.executable, "-I", "-S", str(namespaces.__file__), folder], capture_output=True, text=True, check=False
        )
    why = (trial.stderr.strip().splitlines() or ["it failed"])[-1] if trial.returncode else ""
    if why:
        log.warning("containers see their mounts as links only, and no limiter", extra={"problem": why})
    return why


def _is_alive(pid: int, ticks: int) -> bool:
    return ticks > 0 and start_ticks(pid, dead="ZX") == ticks


def _signal(state: Mapping[str, Any], number: signal.Signals) -> None:
    if not _is_alive(state["pid"], state["pid_ticks"]):
        return
    with contextlib.suppress(OSError):
        if number == signal.SIGKILL:
            os.killpg(state["pid"], number)
        else:
            os.kill(state["pid"], number)


def _by_path(found: Sequence[Shown]) -> list[Shown]:
    """One entry a container path, the later one, in the order of paths."""
    latest = {os.path.normpath(f"/{one.container_path}"): one for one in found}
    return [latest[path] for path in sorted(latest)]


def _cdi_mount(edit: Mapping[str, Any]) -> Mount:
    return Mount(edit["containerPath"], edit["hostPath"], "ro" in (edit.get("options") or ()))


def _cdi_device(edit: Mapping[str, Any]) -> DeviceNode:
    return DeviceNode(edit["path"], edit.get("hostPath") or edit["path"], edit.get("permissions") or "rwm")


def _link(rootfs: Path, found: Sequence[Mount | DeviceNode]) -> None:
    """Show mounts and devices as links below ``rootfs``; one inside another is visible through the outer one."""
    shutil.rmtree(rootfs, ignore_errors=True)
    rootfs.mkdir()
    for one in found:
        link = rootfs / os.path.normpath(f"/{one.container_path}").lstrip("/")
        inner = [parent for parent in link.parents if parent.is_relative_to(rootfs)]
        if link == rootfs or any(parent.is_symlink() for parent in inner):
            continue
        link.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            link.symlink_to(one.host_path)


def _write(path: Path, document: Any) -> None:
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(json.dumps(document, indent=1))
    temporary.replace(path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, json.JSONDecodeError):
        return None
    return document
