"""A checkpoint of a shape we do not know: the kubelet is asked for single pods instead, and never for all."""

from concurrent import futures

import grpc

from hami_core_py.servers.kubelet import podresources_pb2 as pr
from hami_core_py.servers.kubelet import podresources_pb2_grpc as pr_grpc
from hami_core_py.testing import builders


class Resources(pr_grpc.PodResourcesListerServicer):
    """Knows the devices of one container per pod."""

    def __init__(self, held):
        self.held = held
        self.listed = 0

    def List(self, request, context):
        self.listed += 1
        return pr.ListPodResourcesResponse()

    def Get(self, request, context):
        answer = pr.GetPodResourcesResponse()
        answer.pod_resources.name = request.pod_name
        container = answer.pod_resources.containers.add(name="main")
        for one in self.held.get(request.pod_name, ()):
            container.devices.add(resource_name=builders.COUNT, device_ids=[one])
        return answer


def test_pods_are_asked_for_one_by_one(world):
    world.start()
    pods = [world.pod(f"p{n}", {"main": [(world.npu(n), world.share(1000 + n))]}) for n in range(2)]
    resources = Resources({"p0": ["npu-1::0"], "p1": ["npu-0::0", "npu-0::1"]})
    server = grpc.server(futures.ThreadPoolExecutor(2))
    pr_grpc.add_PodResourcesListerServicer_to_server(resources, server)
    (world.kubelet.root / "pod-resources").mkdir()
    server.add_insecure_port(f"unix://{world.kubelet.root}/pod-resources/kubelet.sock")
    server.start()
    try:
        answer = world.kubelet.admit(pods[0]["metadata"]["uid"], "main", ["npu-1::0"])
        (world.kubelet.directory / "kubelet_internal_checkpoint").write_text('{"v2": []}')
        world.eventually("both pods", lambda: len(world.agent._pods.all()) == 2)
        world.kubelet.prestart(["npu-1::0"])
        assert world.env(answer)["ACME_WHO"] == f"{pods[0]['metadata']['uid']}/main"
        # A container that restarts keeps its name.
        world.kubelet.prestart(["npu-1::0"])
        assert len(list(world.cdi.glob("hami-*"))) == 1
        assert resources.listed == 0
    finally:
        server.stop(grace=None).wait()
