"""*Late* identity over real sockets: who gets what, and who gets nothing."""

import json
import threading

import grpc
import pytest

from hami_core_py.codecs.native import RECORD
from hami_core_py.models.allocations import HealthChange, Mount
from hami_core_py.models.backends import HostFile
from hami_core_py.testing import builders

CLOSED = {"ACME_DEVICES": "void"}


def test_container_gets_what_its_pods_record_says(world):
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share(4000, 30))]})
    uid = pod["metadata"]["uid"]
    answer = world.kubelet.admit(uid, "main", ["npu-0::3"])
    assert dict(answer.envs) == CLOSED
    assert not answer.devices
    assert [mount.container_path for mount in answer.mounts] == ["/etc/hami/Acme"]
    assert world.spec(answer) == {}
    world.kubelet.prestart(["npu-0::3"])
    assert world.env(answer) == {"ACME_DEVICES": "npu-1", "ACME_MEMORY": "4000", "ACME_WHO": f"{uid}/main"}
    directory = world.root / answer.mounts[0].host_path
    assert (directory / "limits").read_text() == "npu-1 4000\n"
    assert (directory / "shared").stat().st_mode & 0o7777 == 0o1777


def test_allocate_answers_nothing_that_depends_on_the_pod(world):
    world.start()
    first, second = (world.kubelet.allocate(["npu-0::0"])[0] for _ in range(2))
    assert first.cdi_devices[0].name != second.cdi_devices[0].name
    assert dict(first.envs) == dict(second.envs) == CLOSED
    assert first.mounts[0].host_path.endswith(first.cdi_devices[0].name.partition("=")[2])


def test_fifty_containers_side_by_side_are_never_swapped(world):
    world.acme.devices = builders.devices(4, slots=40, memory_mib=100_000, core_units=1000)
    world.start()
    devices = list(world.acme.devices)
    pods, answers, problems = [], {}, []
    for number in range(50):
        pods.append(world.pod(f"p{number}", {"main": [(devices[number % 4], world.share(100 + number, 1))]}))

    def run(number):
        try:
            ids = [f"npu-{(number + 1) % 4}::{number // 2}"]
            uid = pods[number]["metadata"]["uid"]
            answers[number] = world.kubelet.admit(uid, "main", ids)
            world.kubelet.prestart(ids)
        except Exception as problem:  # noqa: BLE001 - shown by the assertion below
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    for number, pod in enumerate(pods):
        assert world.env(answers[number]) == {
            "ACME_DEVICES": f"npu-{number % 4}",
            "ACME_MEMORY": str(100 + number),
            "ACME_WHO": f"{pod['metadata']['uid']}/main",
        }


def test_two_entries_with_the_same_ids_each_get_their_own_meaning(world):
    world.start()
    pods = [world.pod(f"p{n}", {"main": [(world.npu(n), world.share(1000 + n))]}) for n in range(2)]
    answers = [world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::1"]) for pod in pods]
    world.kubelet.prestart(["npu-0::1"])
    assert [world.env(answer)["ACME_MEMORY"] for answer in answers] == ["1000", "1001"]


def test_ids_handed_on_by_an_ended_pod_do_not_bring_it_back(world):
    world.start()
    ended, fresh = (world.pod(name, {"main": [(world.npu(1), world.share())]}) for name in ("ended", "fresh"))
    world.client.patch("/api/v1/namespaces/default/pods/ended/status", {"status": {"phase": "Succeeded"}})
    world.eventually("the end", lambda: world.agent._pods.has_ended(ended["metadata"]["uid"]))
    answers = [world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::1"]) for pod in (ended, fresh)]
    world.kubelet.prestart(["npu-0::1"])
    assert [bool(world.spec(answer)) for answer in answers] == [False, True]
    assert [allocation.pod for allocation in world.acme.granted] == ["fresh"]


def test_agent_restart_between_allocate_and_prestart_forgets_nothing(world):
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]})
    answer = world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    world.stop_agent()
    assert not list((world.kubelet.directory).glob("hami-*.sock"))
    world.start_agent()
    world.eventually("registration", lambda: len(world.kubelet.registrations) == 2)
    world.kubelet.prestart(["npu-0::3"])
    assert world.env(answer)["ACME_DEVICES"] == "npu-1"


def test_container_restart_needs_no_api_server(world):
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]})
    answer = world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    world.kubelet.prestart(["npu-0::3"])
    before = world.spec(answer)
    world.stop_agent()
    world.api.stop()
    for path in world.cdi.iterdir():
        path.unlink()  # a reboot empties it
    world.start_agent()
    world.eventually("registration", lambda: len(world.kubelet.registrations) == 2)
    world.kubelet.prestart(["npu-0::3"])
    assert world.spec(answer) == before


def test_first_start_waits_for_an_api_server_that_is_away(world):
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]})
    world.stop_agent()
    world.api.stop()
    world.start_agent()
    world.eventually("registration", lambda: len(world.kubelet.registrations) == 2)
    answer = world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    code, text = world.kubelet.refused(["npu-0::3"])
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "API server is away" in text
    assert world.spec(answer) == {}
    world.api.start()
    world.kubelet.prestart(["npu-0::3"])
    assert world.env(answer)["ACME_DEVICES"] == "npu-1"


def test_spec_that_is_right_is_left_alone(world):
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]})
    world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    world.kubelet.prestart(["npu-0::3"])
    path = next(world.cdi.glob("hami-*.json"))
    before = path.stat()
    world.kubelet.prestart(["npu-0::3"])
    after = path.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"record": False}, "has no allocation record"),
        ({"annotations": {RECORD: "{"}}, "hami.io/device-allocated"),
        ({"node": "node-b"}, "node-b"),
        (
            {
                "annotations": {
                    RECORD: json.dumps(
                        [{"container": "main", "type": "Acme", "uuid": "npu-9", "memory": 1, "cores": 1, "slots": 1}]
                    )
                }
            },
            "npu-9, which this node does not have",
        ),
    ],
    ids=["absent", "unreadable", "foreign node", "unknown device"],
)
def test_record_that_does_not_hold_grants_nothing(world, change, sentence):
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]}, **change)
    answer = world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    code, text = world.kubelet.refused(["npu-0::3"])
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert sentence in text
    assert "default/p" in text
    assert world.spec(answer) == {}
    assert world.acme.granted == []
    world.eventually("an event", lambda: [m for m in world.events("DevicesRefused") if sentence in m])


def test_wrong_count_is_refused_with_both_numbers(world):
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]})
    world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3", "npu-0::4"])
    code, text = world.kubelet.refused(["npu-0::3", "npu-0::4"])
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "gave 2 Acme devices, the record names 1" in text


def test_lost_device_refuses_a_first_start_and_no_restart(world):
    world.start()
    running, fresh = (world.pod(name, {"main": [(world.npu(1), world.share())]}) for name in ("running", "fresh"))
    world.kubelet.admit(running["metadata"]["uid"], "main", ["npu-0::0"])
    world.kubelet.prestart(["npu-0::0"])
    world.acme.changes.append(HealthChange(device=builders.device("npu-1").id, healthy=False, detail="lost"))
    world.eventually("the loss", lambda: "Unhealthy" in world.kubelet.devices().values())
    world.kubelet.prestart(["npu-0::0"])
    world.kubelet.admit(fresh["metadata"]["uid"], "main", ["npu-0::1"])
    _, text = world.kubelet.refused(["npu-0::1"])
    assert "device npu-1 is not healthy" in text


def test_record_copied_from_another_pod_is_of_no_use(world):
    world.start()
    victim = world.pod("victim", {"main": [(world.npu(1), world.share(9000))]})
    thief = world.pod("thief", {"main": [(world.npu(0), world.share(1))]})
    # The thief's container is admitted under its own UID, whatever ids the victim has.
    answer = world.kubelet.admit(thief["metadata"]["uid"], "main", ["npu-1::0"])
    world.kubelet.admit(victim["metadata"]["uid"], "main", ["npu-1::1"])
    world.kubelet.prestart(["npu-1::0"])
    assert world.env(answer)["ACME_MEMORY"] == "1"


def test_name_belongs_to_the_container_it_was_first_started_for(world):
    world.start()
    first, second = (world.pod(name, {"main": [(world.npu(1), world.share())]}) for name in ("first", "second"))
    answer = world.kubelet.admit(first["metadata"]["uid"], "main", ["npu-0::3"])
    world.kubelet.prestart(["npu-0::3"])
    before = world.spec(answer)
    world.kubelet.entries[0]["PodUID"] = second["metadata"]["uid"]
    world.kubelet.write_checkpoint()
    code, text = world.kubelet.refused(["npu-0::3"])
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "given to another container" in text
    assert world.spec(answer) == before


def test_ids_that_nobody_holds_are_refused(world):
    world.start()
    code, text = world.kubelet.refused(["npu-0::0"])
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert "names no container of ours" in text


def test_unsigned_v210_record_counts_only_where_it_is_trusted(world):
    world.start(trust_v210=False)
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]}, annotations={})
    name = pod["metadata"]["name"]
    path = f"/api/v1/namespaces/default/pods/{name}"
    world.client.patch(path, {"metadata": {"annotations": {RECORD: None}}})
    world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    world.eventually("the change", lambda: "not trusted" in world.kubelet.refused(["npu-0::3"])[1])


def test_failing_backend_leaves_the_container_closed(world):
    def fail(_allocation, _grant):
        raise RuntimeError("driver says no")

    world.acme.granting = fail
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]})
    answer = world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    code, text = world.kubelet.refused(["npu-0::3"])
    assert code is grpc.StatusCode.INTERNAL
    assert "driver says no" in text
    assert world.spec(answer) == {}
    world.acme.granting = lambda _allocation, grant: grant
    world.kubelet.prestart(["npu-0::3"])
    assert world.env(answer)["ACME_DEVICES"] == "npu-1"


def test_vendors_cdi_edits_are_merged_into_ours(world):
    vendor = {
        "cdiVersion": "0.5.0",
        "kind": "acme.example/npu",
        "containerEdits": {"env": ["ACME_DRIVER=1"]},
        "devices": [{"name": "npu-1", "containerEdits": {"deviceNodes": [{"path": "/dev/acme1"}]}}],
    }
    (world.cdi / "acme.json").write_text(json.dumps(vendor))
    (world.cdi / "broken.yaml").write_text("{")

    def with_cdi(allocation, grant):
        names = tuple(f"acme.example/npu={device.id}" for device, _ in allocation.pairs)
        return type(grant)(env=grant.env, cdi_devices=names)

    world.acme.granting = with_cdi
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]})
    answer = world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    world.kubelet.prestart(["npu-0::3"])
    assert world.env(answer)["ACME_DRIVER"] == "1"
    assert world.spec(answer)["deviceNodes"] == [{"path": "/dev/acme1"}]


def test_vendors_cdi_name_in_no_spec_is_named_and_the_container_stays_closed(world):
    world.acme.granting = lambda _allocation, grant: type(grant)(cdi_devices=("acme.example/npu=npu-1",))
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]})
    answer = world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    code, text = world.kubelet.refused(["npu-0::3"])
    assert code is grpc.StatusCode.INTERNAL
    assert "acme.example/npu=npu-1" in text
    assert world.spec(answer) == {}


def test_host_files_are_there_before_the_first_container(world):
    source = world.root / "libacme.so"
    source.write_bytes(b"library")
    world.acme.info["host_files"] = (HostFile(name="libacme.so", source=str(source)),)

    def mounting(allocation, grant):
        path = f"{allocation.host_directory}/libacme.so"
        return type(grant)(env=grant.env, mounts=(Mount(host_path=path, container_path="/usr/lib/libacme.so"),))

    world.acme.granting = mounting
    world.start()
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]})
    answer = world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    world.kubelet.prestart(["npu-0::3"])
    (mount,) = world.spec(answer)["mounts"]
    assert (world.root / mount["hostPath"]).read_bytes() == b"library"


def test_container_served_in_ordered_mode_starts_again_in_late_mode(world):
    world.start(identity="ordered")
    pod = world.pod("p", {"main": [(world.npu(1), world.share())]}, ordered=True)
    lock = {"hami.io/mutex.lock": "2031-02-03T04:05:06Z,default,p"}
    world.client.patch("/api/v1/nodes/node-a", {"metadata": {"annotations": lock}})
    world.kubelet.admit(pod["metadata"]["uid"], "main", ["npu-0::3"])
    world.stop_agent()
    world.start_agent(identity="late")
    world.eventually("registration", lambda: len(world.kubelet.registrations) == 2)
    world.kubelet.prestart(["npu-0::3"])
    world.client.delete("/api/v1/namespaces/default/pods/p", {"gracePeriodSeconds": 0})
    world.eventually("the end", lambda: world.agent._pods.known(pod["metadata"]["uid"]) is None)
    assert world.kubelet.refused(["npu-0::3"])[0] is grpc.StatusCode.FAILED_PRECONDITION


def test_backend_hears_all_live_allocations_before_it_grants(world):
    world.start()
    for number in range(2):
        pod = world.pod(f"p{number}", {"main": [(world.npu(number), world.share())]})
        world.kubelet.admit(pod["metadata"]["uid"], "main", [f"npu-0::{number}"])
        world.kubelet.prestart([f"npu-0::{number}"])
        heard = [one for one in world.acme.reconciled if len(one) == number + 1]
        assert [a.pod for a in sorted(heard[0], key=lambda a: a.pod)] == [f"p{n}" for n in range(number + 1)]
