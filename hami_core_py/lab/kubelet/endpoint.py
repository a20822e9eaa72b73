"""One device plugin as the kubelet sees it: the calls it answers and the stream of its devices."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp
from hami_core_py.servers.kubelet import deviceplugin_pb2_grpc as dp_grpc

CONNECT_SECONDS = 10.0

log = logging.getLogger(__name__)


class PluginError(Exception):
    """A device plugin refused, or is away; the text is what a real kubelet would report."""


@dataclass(frozen=True, slots=True)
class PluginDevice:
    """A device as its plugin lists it."""

    is_healthy: bool
    numa_nodes: tuple[int, ...] = ()


class Endpoint:
    """The connection to the plugin of one resource.

    Without ``socket`` it is the memory of a plugin from before a kubelet's restart: stopped, its options unknown.
    """

    def __init__(self, resource: str, socket: Path | None = None) -> None:
        self.resource = resource
        self.options: dp.DevicePluginOptions | None = None
        self.stopped_at: float | None = time.monotonic() if socket is None else None
        self._channel: grpc.Channel | None = None
        self._stub: Any = None
        if socket is not None:
            # A pool of its own: a new plugin on an old path would otherwise inherit the old one's back-off.
            settings = [("grpc.use_local_subchannel_pool", 1)]
            self._channel = grpc.insecure_channel(f"unix://{socket}", options=settings)
            self._stub = dp_grpc.DevicePluginStub(self._channel)

    def connect(self) -> None:
        """Ask for the plugin's options.

        :raises PluginError: nobody answers on its socket.
        """
        try:
            self.options = self._stub.GetDevicePluginOptions(dp.Empty(), timeout=CONNECT_SECONDS, wait_for_ready=True)
        except grpc.RpcError as error:
            self.close()
            raise PluginError(f"failed to get device plugin options: {in_words(error)}") from error

    def watch(
        self,
        on_devices: Callable[[Endpoint, Mapping[str, PluginDevice]], None],
        on_end: Callable[[Endpoint], None],
    ) -> None:
        """Follow the plugin's devices in a thread of its own, until its stream ends."""

        def follow() -> None:
            try:
                for answer in self._stub.ListAndWatch(dp.Empty()):
                    on_devices(self, {device.ID: _device(device) for device in answer.devices})
            except grpc.RpcError as error:
                log.info("device stream ended", extra={"resource": self.resource, "error": in_words(error)})
            finally:
                self.stopped_at = time.monotonic()
                on_end(self)

        threading.Thread(target=follow, name=f"plugin {self.resource}", daemon=True).start()

    def preferred(self, available: Sequence[str], must_include: Sequence[str], size: int) -> frozenset[str] | None:
        """The ids the plugin would rather give; None when it has no opinion."""
        if self.options is None or not self.options.get_preferred_allocation_available:
            return None
        request = dp.PreferredAllocationRequest()
        request.container_requests.add(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        try:
            answer = self._call("GetPreferredAllocation", request)
        except PluginError as error:
            raise PluginError(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error
        return frozenset(answer.container_responses[0].deviceIDs if answer.container_responses else ())

    def allocate(self, ids: Sequence[str]) -> dp.ContainerAllocateResponse:
        """What a container that holds these devices receives."""
        request = dp.AllocateRequest()
        request.container_requests.add(devices_ids=ids)
        answer = self._call("Allocate", request)
        if not answer.container_responses:
            raise PluginError("no containers return in allocation response")
        response: dp.ContainerAllocateResponse = answer.container_responses[0]
        return response

    def pre_start(self, ids: Sequence[str], timeout_seconds: float) -> None:
        """Tell the plugin that a container with these devices is about to start."""
        try:
            self._call("PreStartContainer", dp.PreStartContainerRequest(devices_ids=ids), timeout_seconds)
        except PluginError as error:
            raise PluginError(f"device plugin PreStartContainer rpc failed with err: {error}") from error

    def close(self) -> None:
        """End the connection; calls in flight fail."""
        if self.stopped_at is None:
            self.stopped_at = time.monotonic()
        if self._channel is not None:
            self._channel.close()

    def _call(self, method: str, request: Any, timeout_seconds: float | None = None) -> Any:
        if self.stopped_at is not None:
            raise PluginError(f"endpoint {self.resource} has been stopped")
        try:
            return getattr(self._stub, method)(request, timeout=timeout_seconds)
        except grpc.RpcError as error:
            raise PluginError(in_words(error)) from error
        except ValueError as error:  # grpc's word for a channel that was closed meanwhile
            raise PluginError(f"endpoint {self.resource} has been stopped") from error


def in_words(error: grpc.RpcError) -> str:
    """The error as Go's gRPC, and so a real kubelet, prints it."""
    if not isinstance(error, grpc.Call):
        return str(error)
    code = error.code().name
    name = "Canceled" if code == "CANCELLED" else "".join(part.capitalize() for part in code.split("_"))
    return f"rpc error: code = {name} desc = {error.details()}"


def _device(device: dp.Device) -> PluginDevice:
    return PluginDevice(device.health == "Healthy", tuple(node.ID for node in device.topology.nodes))
