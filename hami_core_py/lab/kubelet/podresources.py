"""The PodResources service: which container holds which devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent import futures
from pathlib import Path

import grpc

from hami_core_py.lab.kubelet import pods
from hami_core_py.lab.kubelet.api import Json
from hami_core_py.lab.kubelet.devices import DeviceManager
from hami_core_py.servers.kubelet import podresources_pb2 as pr
from hami_core_py.servers.kubelet import podresources_pb2_grpc as pr_grpc


class PodResourcesServer(pr_grpc.PodResourcesListerServicer):  # type: ignore[misc]  # generated code is untyped
    """Lists ordinary containers and sidecars; ordinary init containers are never shown."""

    def __init__(
        self,
        socket: Path,
        devices: DeviceManager,
        active_pods: Callable[[], Iterable[Json]],
        pod_by_name: Callable[[str, str], Json | None],
    ) -> None:
        self._socket, self._devices = socket, devices
        self._active_pods, self._pod_by_name = active_pods, pod_by_name
        self._server: grpc.Server | None = None

    def start(self) -> None:
        """Listen on the socket, in place of one that an earlier kubelet left."""
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        self._server = grpc.server(futures.ThreadPoolExecutor(8, thread_name_prefix="pod-resources"))
        pr_grpc.add_PodResourcesListerServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix://{self._socket}")
        self._server.start()

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.stop(grace=None).wait()
        self._socket.unlink(missing_ok=True)

    def List(  # noqa: N802
        self,
        request: pr.ListPodResourcesRequest,  # noqa: ARG002  # grpc passes both
        context: grpc.ServicerContext,  # noqa: ARG002
    ) -> pr.ListPodResourcesResponse:
        """All pods that may hold devices; as in a real kubelet this takes devices back from finished ones."""
        active = list(self._active_pods())
        self._devices.forget_finished()
        return pr.ListPodResourcesResponse(pod_resources=[self._resources(pod) for pod in active])

    def Get(  # noqa: N802
        self, request: pr.GetPodResourcesRequest, context: grpc.ServicerContext
    ) -> pr.GetPodResourcesResponse:
        """One pod, by name."""
        pod = self._pod_by_name(request.pod_namespace, request.pod_name)
        if pod is None:
            context.abort(
                grpc.StatusCode.UNKNOWN, f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
            )
        return pr.GetPodResourcesResponse(pod_resources=self._resources(pod))

    def _resources(self, pod: Json) -> pr.PodResources:
        answer = pr.PodResources(name=pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])
        listed = [one for one in pods.init_containers(pod) if pods.is_sidecar(one)] + pods.app_containers(pod)
        for container in listed:
            shown = answer.containers.add(name=container["name"])
            for entry in self._devices.holdings(pods.uid(pod), container["name"]):
                for one in sorted(entry.ids):
                    shown.devices.add(resource_name=entry.resource, device_ids=[one])
        return answer
