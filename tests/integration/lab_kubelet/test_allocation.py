"""Devices: registration, the order of calls, reuse, refusals, the checkpoint and PodResources."""

from __future__ import annotations

import os
import signal
from typing import Any

import grpc
import pytest


def test_registered_devices_become_capacity_and_allocatable(lab: Any, plugin: Any) -> None:
    assert (lab.capacity(), lab.allocatable()) == ("4", "4")


def test_unhealthy_device_leaves_allocatable_but_not_capacity(lab: Any, plugin: Any) -> None:
    plugin.set_health("npu-1", "Unhealthy")
    lab.eventually("one device less", lambda: lab.allocatable() == "3")
    assert lab.capacity() == "4"
    plugin.set_health("npu-1", "Healthy")
    lab.eventually("it is back", lambda: lab.allocatable() == "4")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "v1alpha1"}, "requested API version 'v1alpha1' is not supported"),
        ({"resource_name": "no-domain"}, "the ResourceName 'no-domain' is invalid"),
        ({"endpoint": "nobody.sock"}, "failed to get device plugin options"),
    ],
)
def test_bad_registration_is_refused_with_the_reason(
    lab: Any, plugin: Any, changes: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hami_core_py.lab.kubelet.endpoint.CONNECT_SECONDS", 0.3)
    with pytest.raises(grpc.RpcError) as refusal:
        plugin.register(**changes)
    assert words in str(refusal.value)
    assert lab.allocatable() == "4"


def test_all_containers_are_allocated_at_admission_init_containers_first(lab: Any, plugin: Any) -> None:
    inits = [
        lab.container("first", ["true"], devices=1),
        lab.container("side", devices=1, restartPolicy="Always"),
    ]
    lab.create("p", lab.container("a", devices=1), lab.container("b", devices=1), inits=inits)
    lab.await_phase("p", "Running")
    names = [name for name, _ in plugin.calls]
    assert names.index("PreStartContainer") > max(i for i, name in enumerate(names) if name == "Allocate")
    assert [one["ContainerName"] for one in lab.entries()] == ["first", "side", "a", "b"]
    assert len(plugin.named("Allocate")) == 4


def test_init_containers_ids_are_handed_on_without_asking_for_a_preference(lab: Any, plugin: Any) -> None:
    lab.create("p", lab.container("main", devices=1), inits=[lab.container("init", ["true"], devices=2)])
    lab.await_phase("p", "Running")
    init, main = (set(ids) for ids in plugin.named("Allocate"))
    assert main < init
    assert plugin.named("GetPreferredAllocation") == [(["npu-0", "npu-1", "npu-2", "npu-3"], [], 2)]


def test_reused_ids_that_do_not_suffice_must_be_included_in_the_preference(lab: Any, plugin: Any) -> None:
    lab.create("p", lab.container("main", devices=3), inits=[lab.container("init", ["true"], devices=1)])
    lab.await_phase("p", "Running")
    _, (available, must, size) = plugin.named("GetPreferredAllocation")
    assert (available, must, size) == (["npu-0", "npu-1", "npu-2", "npu-3"], ["npu-0"], 3)
    assert "npu-0" in plugin.named("Allocate")[1]


def test_sidecars_keep_their_ids_to_themselves(lab: Any, plugin: Any) -> None:
    side = lab.container("side", devices=1, restartPolicy="Always")
    lab.create("p", lab.container("main", devices=1), inits=[side])
    lab.await_phase("p", "Running")
    first, second = plugin.named("Allocate")
    assert not set(first) & set(second)


def test_refused_allocation_fails_the_pod_with_the_plugins_words(lab: Any, plugin: Any) -> None:
    plugin.allocate_error = "card 7 is on fire"
    lab.create("p", lab.container(devices=1))
    status = lab.await_phase("p", "Failed")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to rpc error: code = Internal desc = card 7 is on fire, "
        "which is unexpected"
    )
    plugin.allocate_error = ""
    lab.create("q", lab.container(devices=4))
    lab.await_phase("q", "Running")


def test_pod_that_asks_more_devices_than_are_free_fails(lab: Any, plugin: Any) -> None:
    lab.create("p", lab.container(devices=3))
    lab.await_phase("p", "Running")
    lab.create("q", lab.container(devices=2))
    message = lab.await_phase("q", "Failed")["status"]["message"]
    assert "Requested: 2, Available: 1" in message


def test_pods_bound_while_the_plugin_is_away_fail_for_good(lab: Any, plugin: Any) -> None:
    plugin.stop()
    lab.eventually("allocatable is zero", lambda: lab.allocatable() == "0")
    assert lab.capacity() == "4"
    lab.create("p", lab.container(devices=1))
    status = lab.await_phase("p", "Failed")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "no healthy devices present" in status["message"]


def test_checkpoint_tells_who_holds_what_and_what_the_plugin_answered(lab: Any) -> None:
    plugin = lab.new_plugin()
    plugin.numa = {"npu-0": 0, "npu-1": 1}
    lab.start_plugin(plugin)
    pod = lab.create("p", lab.container(devices=3))
    lab.await_phase("p", "Running")
    (entry,) = lab.entries()
    answer = lab.answer(entry)
    assert entry["PodUID"] == pod["metadata"]["uid"]
    assert (entry["ContainerName"], entry["ResourceName"]) == ("main", lab.resource)
    assert entry["DeviceIDs"] == {"0": ["npu-0"], "1": ["npu-1"], "-1": ["npu-2"]}
    assert dict(answer.envs) == {"NPU_IDS": "npu-0,npu-1,npu-2"}
    assert lab.checkpoint()["Data"]["RegisteredDevices"] == {lab.resource: ["npu-0", "npu-1", "npu-2", "npu-3"]}


def test_checkpoint_has_the_container_by_the_time_of_prestart(lab: Any, plugin: Any) -> None:
    seen = []
    plugin.on_prestart = lambda ids: seen.append([one["ContainerName"] for one in lab.entries()])
    lab.create("p", lab.container("main", devices=1), inits=[lab.container("init", ["true"], devices=1)])
    lab.await_phase("p", "Running")
    assert seen == [["init", "main"], ["init", "main"]]


def test_entries_of_a_finished_pod_linger_until_ids_are_needed(lab: Any, plugin: Any) -> None:
    first = lab.create("p", lab.container(command=["true"], devices=4), restartPolicy="Never")
    lab.await_phase("p", "Succeeded")
    assert [one["PodUID"] for one in lab.entries()] == [first["metadata"]["uid"]]
    second = lab.create("q", lab.container(devices=4))
    lab.await_phase("q", "Running")
    assert [one["PodUID"] for one in lab.entries()] == [second["metadata"]["uid"]]


def test_two_resources_are_allocated_by_their_own_plugins(lab: Any, plugin: Any) -> None:
    other = lab.start_plugin(resource="acme.example/link", count=1)
    limits = {"limits": {lab.resource: "1", "acme.example/link": "1"}}
    pod = lab.create("p", lab.container(resources=limits))
    lab.await_phase("p", "Running")
    assert (len(plugin.named("Allocate")), len(other.named("Allocate"))) == (1, 1)
    assert {one["ResourceName"] for one in lab.entries()} == {lab.resource, "acme.example/link"}
    assert lab.received(pod)["env"]["NPU_IDS"]  # both set it: one of them counts, nothing breaks


def test_pod_resources_lists_containers_and_sidecars_but_no_init_container(lab: Any, plugin: Any) -> None:
    inits = [lab.container("init", ["true"], devices=1), lab.container("side", devices=1, restartPolicy="Always")]
    lab.create("p", lab.container("main", devices=2), lab.container("plain"), inits=inits)
    lab.await_phase("p", "Running")
    (listed,) = lab.pod_resources()
    assert (listed.namespace, listed.name) == ("default", "p")
    counts = {one.name: sum(len(device.device_ids) for device in one.devices) for one in listed.containers}
    assert counts == {"side": 1, "main": 2, "plain": 0}
    assert lab.pod_resources("p") == listed


def test_pod_resources_get_of_an_unknown_pod_is_an_error(lab: Any) -> None:
    with pytest.raises(grpc.RpcError, match="pod nobody in namespace default not found"):
        lab.pod_resources("nobody")


def test_pod_that_the_node_has_no_memory_for_is_refused(lab: Any) -> None:
    big = {"requests": {"memory": "20Gi"}}
    lab.create("p", lab.container(resources=big))
    lab.await_phase("p", "Running")
    lab.create("q", lab.container(resources=big))
    assert lab.await_phase("q", "Failed")["status"]["reason"] == "OutOfmemory"


def test_totals_that_somebody_else_published_are_left_alone(lab: Any, plugin: Any) -> None:
    totals = {"acme.example/npu-memory": "4096"}
    path = "/api/v1/nodes/node-a/status"
    lab.api.patch(path, {"status": {"capacity": totals, "allocatable": totals}}, kind="strategic")
    plugin.set_health("npu-0", "Unhealthy")
    lab.eventually("the kubelet wrote its status", lambda: lab.allocatable() == "3")
    assert lab.allocatable("acme.example/npu-memory") == "4096"
    lab.stop_kubelet()
    lab.start_kubelet()
    assert lab.allocatable("acme.example/npu-memory") == "4096"
    lab.stop_kubelet()
    (lab.root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    lab.start_kubelet()
    assert lab.allocatable("acme.example/npu-memory") == "0"


def test_listing_during_an_allocate_can_give_one_id_to_two_pods_as_in_a_real_kubelet(lab: Any) -> None:
    plugin = lab.start_plugin(count=2)
    lab.create("ends", lab.container(devices=1), restartPolicy="Never")
    ends = lab.await_phase("ends", "Running")
    answer = plugin.answer

    def list_meanwhile(ids: list[str]) -> Any:
        plugin.answer = answer
        os.kill(lab.pid(ends), signal.SIGKILL)
        lab.await_phase("ends", "Failed")
        lab.pod_resources()
        return answer(ids)

    plugin.answer = list_meanwhile
    for name in ("victim", "next", "twin"):
        lab.create(name, lab.container(devices=1))
        lab.await_phase(name, "Running")
    assert plugin.named("Allocate") == [["npu-0"], ["npu-1"], ["npu-0"], ["npu-1"]]
