"""The socket on which device plugins register with the kubelet."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable
from concurrent import futures
from pathlib import Path

import grpc

from hami_core_py.lab.kubelet import checkpoint
from hami_core_py.lab.kubelet.endpoint import PluginError
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp
from hami_core_py.servers.kubelet import deviceplugin_pb2_grpc as dp_grpc

VERSION = "v1beta1"
SOCKET = "kubelet.sock"

_RESOURCE = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

log = logging.getLogger(__name__)


class RegistrationServer(dp_grpc.RegistrationServicer):  # type: ignore[misc]  # generated code is untyped
    """Answers Register by dialling the plugin back before it returns, as a real kubelet does."""

    def __init__(self, directory: Path, connect: Callable[[str, Path], None]) -> None:
        self._directory, self._connect = directory, connect
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Empty the directory but for the checkpoint, then listen; the new socket tells plugins to register."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in self._directory.iterdir():
            if path.name != checkpoint.NAME and not path.is_dir():
                path.unlink(missing_ok=True)
        self._server = grpc.server(futures.ThreadPoolExecutor(8, thread_name_prefix="registration"))
        dp_grpc.add_RegistrationServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self._directory / SOCKET}")
        self._server.start()

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.stop(grace=None).wait()
        with contextlib.suppress(FileNotFoundError):
            (self._directory / SOCKET).unlink()

    def Register(self, request: dp.RegisterRequest, context: grpc.ServicerContext) -> dp.Empty:  # noqa: N802
        """Take up a plugin, or say why not."""
        if request.version != VERSION:
            self._refuse(
                context,
                f"requested API version {request.version!r} is not supported by kubelet. "
                f"Supported version is {[VERSION]!r}",
            )
        if not _RESOURCE.fullmatch(request.resource_name):
            self._refuse(context, f"the ResourceName {request.resource_name!r} is invalid")
        try:
            self._connect(request.resource_name, self._directory / request.endpoint)
        except PluginError as error:
            self._refuse(context, str(error))
        return dp.Empty()

    @staticmethod
    def _refuse(context: grpc.ServicerContext, message: str) -> None:
        log.warning("registration refused", extra={"reason": message})
        context.abort(grpc.StatusCode.UNKNOWN, message)
