"""The kubelet's PodResources service, asked for single pods.

``Get`` only: ``List`` makes the kubelet recount its devices, and can make it hand one id to two pods.
"""

import logging
from pathlib import Path

import grpc

from hami_core_py.servers.kubelet import podresources_pb2 as pr
from hami_core_py.servers.kubelet import podresources_pb2_grpc as pr_grpc

log = logging.getLogger(__name__)


class PodResourcesClient:
    """Client of one kubelet. :param socket: ``pod-resources/kubelet.sock`` of the kubelet's directory."""

    def __init__(self, socket: Path, *, timeout_seconds: float = 3.0) -> None:
        self._socket, self._timeout = socket, timeout_seconds

    def devices_of(self, namespace: str, pod: str) -> list[tuple[str, str, frozenset[str]]] | None:
        """Container, resource and device ids of a pod; ``None``: the kubelet does not know it, or does not answer."""
        with grpc.insecure_channel(f"unix://{self._socket}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
            request = pr.GetPodResourcesRequest(pod_name=pod, pod_namespace=namespace)
            try:
                answer = pr_grpc.PodResourcesListerStub(channel).Get(request, timeout=self._timeout)
            except grpc.RpcError as problem:
                log.warning(
                    "kubelet does not tell of a pod", extra={"pod": f"{namespace}/{pod}", "problem": str(problem)}
                )
                return None
        found: dict[tuple[str, str], set[str]] = {}
        for container in answer.pod_resources.containers:
            for device in container.devices:
                found.setdefault((container.name, device.resource_name), set()).update(device.device_ids)
        return [(container, resource, frozenset(ids)) for (container, resource), ids in found.items()]
