"""The kubelet's device plugin API v1beta1: what it calls on the plugin of one family."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence

import grpc
from google.protobuf.message import DecodeError

from hami_core_py.decisions.kubelet_ids import kubelet_ids
from hami_core_py.models.devices import Device, Health
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp
from hami_core_py.servers.kubelet import deviceplugin_pb2_grpc as dp_grpc
from hami_core_py.services.agent.agent import Agent
from hami_core_py.services.agent.answers import Answer
from hami_core_py.services.agent.refused import Cause, RefusedError

log = logging.getLogger(__name__)

_CODES = {
    Cause.UNVERIFIED: grpc.StatusCode.FAILED_PRECONDITION,
    Cause.HELD: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Cause.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Cause.BACKEND: grpc.StatusCode.INTERNAL,
}


def cdi_names(answer: bytes) -> Sequence[str]:
    """The CDI names in a serialized ``ContainerAllocateResponse``. :raises ValueError: it is none."""
    try:
        return [device.name for device in dp.ContainerAllocateResponse.FromString(answer).cdi_devices]
    except DecodeError as problem:
        raise ValueError(str(problem)) from problem


class FamilyPlugin(dp_grpc.DevicePluginServicer):  # type: ignore[misc]  # generated code is untyped
    """Answers the kubelet's calls for one family."""

    def __init__(self, agent: Agent, family: str) -> None:
        self._agent, self._family = agent, family
        self._tells_numa = agent.ask.families[family].tells_numa
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._streams = 0
        self._streamed_at = time.monotonic()

    def end(self) -> None:
        """End the streams, so that the server can stop."""
        self._ending.set()
        self._agent.table.wake()

    def idle_seconds(self) -> float:
        """For how long nobody has followed the device list."""
        with self._lock:
            return 0.0 if self._streams else time.monotonic() - self._streamed_at

    def options(self) -> dp.DevicePluginOptions:
        """What the kubelet must call."""
        return dp.DevicePluginOptions(
            pre_start_required=self._agent.identity.prestart, get_preferred_allocation_available=True
        )

    def GetDevicePluginOptions(  # noqa: N802
        self, _request: dp.Empty, _context: grpc.ServicerContext
    ) -> dp.DevicePluginOptions:
        """The same as at registration."""
        return self.options()

    def ListAndWatch(  # noqa: N802
        self, _request: dp.Empty, context: grpc.ServicerContext
    ) -> Iterator[dp.ListAndWatchResponse]:
        """The device list now, and again whenever it has changed."""
        self._followed(1)
        context.add_callback(self._agent.table.wake)
        try:
            version, sent = -1, None
            while not self._ending.is_set() and context.is_active():
                snapshot = self._agent.table.wait(
                    version, 5.0, until=lambda: self._ending.is_set() or not context.is_active()
                )
                if snapshot.version == version:
                    continue
                version = snapshot.version
                answer = device_list(snapshot.family(self._family), tells_numa=self._tells_numa)
                if sent is None or answer != sent:
                    sent = answer
                    yield answer
        finally:
            self._followed(-1)

    def GetPreferredAllocation(  # noqa: N802
        self, request: dp.PreferredAllocationRequest, _context: grpc.ServicerContext
    ) -> dp.PreferredAllocationResponse:
        """Ids on the devices that are meant, as far as that can be known; an empty answer leaves the choice alone."""
        answer = dp.PreferredAllocationResponse()
        for one in request.container_requests:
            try:
                chosen = self._agent.identity.prefer(
                    self._family, one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size
                )
            except Exception:
                # An error here would end the pod for good; without an opinion of ours the kubelet chooses.
                log.exception("no preference", extra={"family": self._family})
                chosen = ()
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    def Allocate(self, request: dp.AllocateRequest, context: grpc.ServicerContext) -> dp.AllocateResponse:  # noqa: N802
        """What each container is created with."""
        requests = [frozenset(one.devices_ids) for one in request.container_requests]
        try:
            answers = self._agent.identity.allocate(self._family, requests, context.is_active)
        except RefusedError as refusal:
            context.abort(_CODES[refusal.cause], str(refusal))
        return dp.AllocateResponse(container_responses=[_container_answer(answer) for answer in answers])

    def PreStartContainer(  # noqa: N802
        self, request: dp.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> dp.PreStartContainerResponse:
        """Prepare the start of whichever containers have these ids."""
        began = time.monotonic()
        try:
            self._agent.identity.prepare(self._family, frozenset(request.devices_ids))
        except RefusedError as refusal:
            context.abort(_CODES[refusal.cause], str(refusal))
        finally:
            self._agent.meter.prestart_took(time.monotonic() - began)
        return dp.PreStartContainerResponse()

    def _followed(self, change: int) -> None:
        with self._lock:
            self._streams += change
            self._streamed_at = time.monotonic()


def device_list(devices: Sequence[Device], *, tells_numa: bool) -> dp.ListAndWatchResponse:
    """A family's devices as the kubelet counts them: one per slot, in a fixed order."""
    answer = dp.ListAndWatchResponse()
    for device in devices:
        health = "Healthy" if device.health is Health.HEALTHY else "Unhealthy"
        topology = dp.TopologyInfo(nodes=[dp.NUMANode(ID=device.numa)]) if tells_numa else None
        for one in kubelet_ids(device):
            answer.devices.add(ID=one, health=health, topology=topology)
    return answer


def _container_answer(answer: Answer) -> dp.ContainerAllocateResponse:
    return dp.ContainerAllocateResponse(
        envs=dict(answer.env),
        mounts=[
            dp.Mount(container_path=m.container_path, host_path=m.host_path, read_only=m.read_only)
            for m in answer.mounts
        ],
        devices=[dp.DeviceSpec(container_path=p, host_path=p, permissions="rw") for p in answer.device_paths],
        cdi_devices=[dp.CDIDevice(name=name) for name in answer.cdi_devices],
    )
