"""The webhook behind a real API server, over TLS, with ``failurePolicy: Fail``."""

import pytest

from hami_core_py.cluster.errors import ApiError
from tests.cluster.hami import SCHEDULER, Hami
from tests.cluster.pods import CORES, COUNT, Pods, container, gpu, pod


def test_pod_that_asks_gets_our_scheduler_and_a_plain_pod_keeps_its_own(pods: Pods) -> None:
    asking, plain = pods.create(pod("asking", gpu(1, 1000))), pods.create(pod("plain"))
    assert asking["spec"]["schedulerName"] == SCHEDULER
    assert plain["spec"]["schedulerName"] == "default-scheduler"


def test_pod_that_asks_for_memory_alone_gets_one_device(pods: Pods) -> None:
    made = pods.create(pod("memory-only", {"nvidia.com/gpumem": "1000"}))
    assert made["spec"]["containers"][0]["resources"]["limits"][COUNT] == "1"


def test_impossible_request_is_refused_with_a_sentence(pods: Pods) -> None:
    with pytest.raises(ApiError, match=r"nvidia\.com/gpumem-percentage"):
        pods.create(pod("impossible", {COUNT: "1", "nvidia.com/gpumem-percentage": "140"}))


def test_container_that_asks_for_nothing_is_closed(pods: Pods) -> None:
    made = pods.create(pod("mixed", containers=[container("main", gpu(1, 1000)), container("sidecar")]))
    names = {
        each["name"]: {env["name"]: env["value"] for env in each.get("env", ())} for each in made["spec"]["containers"]
    }
    assert names["sidecar"]["NVIDIA_VISIBLE_DEVICES"] == "none"
    assert "NVIDIA_VISIBLE_DEVICES" not in names["main"]


def test_ephemeral_container_is_closed_as_well(hami: Hami, pods: Pods) -> None:
    pods.create(pod("debugged", gpu(1, 1000)))
    ephemeral = {"name": "debug", "image": "busybox"}
    body = {"spec": {"ephemeralContainers": [ephemeral]}}
    made = hami.plane.client.patch(f"{pods.path('debugged')}/ephemeralcontainers", body, "strategic")
    (found,) = made["spec"]["ephemeralContainers"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "none"} in found["env"]


def test_admitting_twice_changes_nothing(hami: Hami, pods: Pods) -> None:
    once = pods.create(pod("once", gpu(1, cores=30)))
    again = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "twice"}, "spec": once["spec"]}
    again["metadata"]["annotations"] = once["metadata"].get("annotations", {})
    assert pods.create(again)["spec"] == once["spec"]
    assert once["spec"]["containers"][0]["resources"]["limits"][CORES] == "30"


def test_pod_is_refused_while_the_webhook_is_down_and_admitted_when_it_is_back(hami: Hami, pods: Pods) -> None:
    hami.webhook.kill()
    try:
        with pytest.raises(ApiError, match="failed calling webhook"):
            pods.create(pod("early", gpu(1, 1000)))
    finally:
        hami.start_webhook()
    assert pods.create(pod("later", gpu(1, 1000)))["spec"]["schedulerName"] == SCHEDULER
