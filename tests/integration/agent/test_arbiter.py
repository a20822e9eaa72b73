"""The node's last word, and what ended containers leave behind."""

import time

import grpc
import pytest

from hami_core_py.services.agent.cleanup import UNUSED_SECONDS


def start_pod(world, name, memory_mib, ids, at_ns):
    pod = world.pod(name, {"main": [(world.npu(0), world.share(memory_mib))]}, at_ns=at_ns)
    return pod, world.kubelet.admit(pod["metadata"]["uid"], "main", ids)


def delete(world, pod):
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
    world.client.delete(path, {"gracePeriodSeconds": 0})
    uid = pod["metadata"]["uid"]
    world.eventually("the pod to be gone", lambda: world.agent._pods.known(uid) is None)


def test_pod_that_does_not_fit_is_held_and_starts_later(world):
    world.start()
    first, _ = start_pod(world, "first", 12000, ["npu-0::0"], at_ns=1)
    world.kubelet.prestart(["npu-0::0"])
    _, answer = start_pod(world, "second", 12000, ["npu-0::1"], at_ns=2)
    code, text = world.kubelet.refused(["npu-0::1"])
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "12000 of 16384 MiB are taken and 12000 needed" in text
    assert world.spec(answer) == {}
    world.eventually("an event", lambda: world.events("DevicesHeld"))
    delete(world, first)
    world.kubelet.entries = world.kubelet.entries[1:]
    world.kubelet.write_checkpoint()
    world.kubelet.prestart(["npu-0::1"])
    assert world.env(answer)["ACME_DEVICES"] == "npu-0"


def test_of_two_that_wait_the_older_record_starts(world):
    world.start()
    start_pod(world, "younger", 12000, ["npu-0::1"], at_ns=2)
    start_pod(world, "older", 12000, ["npu-0::0"], at_ns=1)
    world.eventually("both pods", lambda: len(world.agent._pods.all()) == 2)
    assert world.kubelet.refused(["npu-0::1"])[0] is grpc.StatusCode.RESOURCE_EXHAUSTED
    world.kubelet.prestart(["npu-0::0"])


def test_container_that_runs_on_without_its_pod_still_counts(world):
    world.start()
    gone, _ = start_pod(world, "gone", 12000, ["npu-0::0"], at_ns=1)
    world.kubelet.prestart(["npu-0::0"])
    start_pod(world, "next", 12000, ["npu-0::1"], at_ns=2)
    delete(world, gone)
    assert world.kubelet.refused(["npu-0::1"])[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_ended_pod_does_not_count(world):
    world.start()
    ended, _ = start_pod(world, "ended", 12000, ["npu-0::0"], at_ns=1)
    world.kubelet.prestart(["npu-0::0"])
    world.client.patch("/api/v1/namespaces/default/pods/ended/status", {"status": {"phase": "Succeeded"}})
    uid = ended["metadata"]["uid"]
    world.eventually("the end", lambda: world.agent._pods.known(uid).has_ended)
    start_pod(world, "next", 12000, ["npu-0::1"], at_ns=2)
    world.kubelet.prestart(["npu-0::1"])


def names(world):
    return sorted(path.name for path in (world.state / "containers").iterdir())


def sees_the_host(world):
    (world.proc / "2").mkdir(parents=True)
    (world.proc / "2" / "comm").write_text("kthreadd\n")


def test_clean_up_needs_both_witnesses(world):
    sees_the_host(world)
    world.start()
    pod, _ = start_pod(world, "p", 1000, ["npu-0::0"], at_ns=1)
    world.kubelet.prestart(["npu-0::0"])
    entries = world.kubelet.entries
    delete(world, pod)
    assert world.agent._cleanup.sweep() == ()  # the checkpoint still has the name
    assert len(names(world)) == len(list(world.cdi.glob("hami-*"))) == 1
    world.kubelet.entries = []
    world.kubelet.write_checkpoint()
    world.eventually("everything to be gone", lambda: not names(world) and not list(world.cdi.glob("hami-*")))
    assert list((world.state / "records").iterdir()) == []
    assert len(entries) == 1


def test_lost_checkpoint_takes_nothing_away_and_is_told(world):
    world.start()
    start_pod(world, "p", 1000, ["npu-0::0"], at_ns=1)
    world.kubelet.prestart(["npu-0::0"])
    (world.kubelet.directory / "kubelet_internal_checkpoint").unlink()
    message = world.eventually("an event", lambda: world.events("DevicesForgotten"))[0]
    assert "delete the pod" in message
    assert len(names(world)) == len(list(world.cdi.glob("hami-*"))) == 1


def test_mounted_directory_stays_whatever_the_witnesses_say(world):
    sees_the_host(world)
    world.start()
    pod, _ = start_pod(world, "p", 1000, ["npu-0::0"], at_ns=1)
    world.kubelet.prestart(["npu-0::0"])
    name = names(world)[0]
    (world.proc / "77" / "ns").mkdir(parents=True)
    (world.proc / "77" / "ns" / "mnt").symlink_to("mnt:[1]")
    line = f"36 35 98:0 /var/lib/hami/containers/{name} /etc/hami/Acme ro,noatime shared:1 - ext4 /dev/root rw\n"
    (world.proc / "77" / "mountinfo").write_text(line)
    world.kubelet.entries = []
    world.kubelet.write_checkpoint()
    world.eventually("the mount to be seen", lambda: world.agent._cleanup._mounts.has(name))
    delete(world, pod)
    assert world.agent._cleanup.sweep() == ()
    assert names(world) == [name]
    (world.proc / "77" / "mountinfo").unlink()
    world.eventually("everything to be gone", lambda: not names(world))


def test_where_mounts_cannot_be_known_the_witnesses_must_agree_for_a_while(world):
    sees_the_host(world)
    (world.proc / "77" / "ns").mkdir(parents=True)
    (world.proc / "77" / "ns" / "mnt").symlink_to("mnt:[1]")
    (world.proc / "77" / "mountinfo").mkdir()  # as unreadable as one of a process that we may not look into
    world.start()
    pod, _ = start_pod(world, "p", 1000, ["npu-0::0"], at_ns=1)
    world.kubelet.prestart(["npu-0::0"])
    assert world.agent._cleanup._mounts.has(names(world)[0]) is None
    world.kubelet.entries = []
    world.kubelet.write_checkpoint()
    delete(world, pod)
    assert world.agent._cleanup.sweep() == ()
    assert len(names(world)) == 1
    world.agent._cleanup._now = lambda: time.time() + UNUSED_SECONDS + 1
    world.eventually("everything to be gone", lambda: not names(world))


def test_api_server_that_is_away_takes_nothing_away(world):
    world.start()
    start_pod(world, "p", 1000, ["npu-0::0"], at_ns=1)
    world.kubelet.prestart(["npu-0::0"])
    world.stop_agent()
    world.api.stop()
    world.kubelet.entries = []
    world.kubelet.write_checkpoint()
    agent = world.start_agent()
    assert agent._cleanup.sweep() == ()
    assert len(names(world)) == 1


@pytest.mark.parametrize(
    "text", [b"{", b'{"Data": {"PodDeviceEntries": [{"PodUID": 1}]}}'], ids=["torn", "another shape"]
)
def test_checkpoint_that_is_not_understood_grants_nothing_without_podresources(world, text):
    world.start()
    start_pod(world, "p", 1000, ["npu-0::0"], at_ns=1)
    (world.kubelet.directory / "kubelet_internal_checkpoint").write_bytes(text)
    code, _ = world.kubelet.refused(["npu-0::0"])
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert world.acme.granted == []
