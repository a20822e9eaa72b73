"""Sockets of the device plugins: one server per family, and its registration with whichever kubelet is there."""

import logging
import threading
import time
from concurrent import futures
from pathlib import Path

import grpc

from hami_core_py.codecs.cdi import class_word
from hami_core_py.errors import HamiError, SettingsError
from hami_core_py.servers.deviceplugin import FamilyPlugin
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp
from hami_core_py.servers.kubelet import deviceplugin_pb2_grpc as dp_grpc
from hami_core_py.services.agent.agent import Agent

log = logging.getLogger(__name__)

VERSION = "v1beta1"
KUBELET_SOCKET = "kubelet.sock"
LONGEST_SOCKET_PATH = 107
"""Bytes of a unix socket's path that Linux accepts."""
POLL_SECONDS = 0.25
"""How often the kubelet's and our own sockets are looked at."""
RETRY_SECONDS = 1.0
"""Pause after a registration that failed."""
STREAM_SECONDS = 3.0
"""A registered plugin whose device list nobody follows for so long registers again."""
WORKERS = 64
"""Calls of one plugin that may run at a time; a held start waits for nobody, but a slow backend may."""


class PluginServer:
    """One family's plugin on its socket, registered with the kubelet for as long as it is there."""

    def __init__(self, agent: Agent, family: str) -> None:
        self._agent, self._family = agent, family
        self.socket = agent.options.plugin_dir / f"hami-{class_word(family)}.sock"
        if len(str(self.socket).encode()) > LONGEST_SOCKET_PATH:
            raise SettingsError(
                "agent.kubeletDir",
                f"a socket path of at most {LONGEST_SOCKET_PATH} bytes",
                f"{self.socket}",
                "shorten it",
            )
        self._plugin: FamilyPlugin | None = None
        self._server: grpc.Server | None = None
        self._own: tuple[int, int] | None = None
        self._kubelet: tuple[int, int, int] | None = None
        self._failed_at = float("-inf")

    @property
    def is_registered(self) -> bool:
        """Whether the kubelet that is there now knows the plugin."""
        return self._kubelet is not None

    def tend(self) -> None:
        """Serve and register where that is not so; call it often. Nothing is done while all is well."""
        kubelet = _identity(self._agent.options.plugin_dir / KUBELET_SOCKET)
        if kubelet is None:
            self._kubelet = None
            return
        is_followed = self._plugin is not None and self._plugin.idle_seconds() < STREAM_SECONDS
        if kubelet == self._kubelet and is_followed and self._own == _inode(self.socket):
            return
        if time.monotonic() - self._failed_at < RETRY_SECONDS:
            return
        self._kubelet = None
        try:
            self._serve()
            self._register()
        except (grpc.RpcError, OSError, RuntimeError) as problem:
            details = problem.details() if isinstance(problem, grpc.Call) else str(problem)
            self._failed_at = time.monotonic()
            log.warning("not registered; trying again", extra={"family": self._family, "problem": details})
            return
        self._kubelet = kubelet
        self._agent.meter.registered(self._family)
        log.info("registered with the kubelet", extra={"family": self._family, "socket": str(self.socket)})

    def stop(self) -> None:
        """Stop serving and remove the socket; the kubelet sees at once that the devices are gone."""
        if self._server is not None and self._plugin is not None:
            self._plugin.end()
            self._server.stop(grace=0.5).wait(2.0)
        self._server = self._plugin = self._kubelet = None
        self.socket.unlink(missing_ok=True)

    def _serve(self) -> None:
        """A fresh server on a fresh socket; the old one may be a file that the kubelet has removed."""
        self.stop()
        self._plugin = FamilyPlugin(self._agent, self._family)
        workers = futures.ThreadPoolExecutor(WORKERS, thread_name_prefix=f"plugin {self._family}")
        self._server = grpc.server(workers)
        dp_grpc.add_DevicePluginServicer_to_server(self._plugin, self._server)
        self._server.add_insecure_port(f"unix://{self.socket}")
        self._server.start()
        self._own = _inode(self.socket)

    def _register(self) -> None:
        assert self._plugin is not None
        request = dp.RegisterRequest(
            version=VERSION,
            endpoint=self.socket.name,
            resource_name=self._agent.ask.families[self._family].resources.count,
            options=self._plugin.options(),
        )
        socket = self._agent.options.plugin_dir / KUBELET_SOCKET
        with grpc.insecure_channel(f"unix://{socket}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
            dp_grpc.RegistrationStub(channel).Register(request, timeout=5.0)


class PluginServers:
    """The plugins of all families that this node offers, tended on a thread of their own."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._servers: dict[str, PluginServer] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="plugin servers", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop all plugins and remove their sockets."""
        self._stopped.set()
        self._agent.table.wake()
        self._thread.join(10.0)
        for server in self._servers.values():
            server.stop()

    def missing(self) -> str | None:
        """Which families the kubelet does not know yet; ``None``: it knows all."""
        offered = self._agent.offered_families()
        waiting = [name for name in offered if name not in self._servers or not self._servers[name].is_registered]
        return f"families not registered with the kubelet: {', '.join(waiting)}" if waiting else None

    def _run(self) -> None:
        version = -1
        while not self._stopped.is_set():
            offered = self._agent.offered_families()
            for family in sorted(set(self._servers) - set(offered)):
                self._servers.pop(family).stop()
            for family in offered:
                try:
                    if family not in self._servers:
                        self._servers[family] = PluginServer(self._agent, family)
                    self._servers[family].tend()
                except HamiError as problem:
                    log.error("family not offered", extra={"family": family, "problem": str(problem)})
                except Exception:
                    log.exception("family not offered", extra={"family": family})
            version = self._agent.table.wait(version, POLL_SECONDS, until=self._stopped.is_set).version


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What tells one kubelet's socket from the next one's; ``None``: there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
