"""PreStartContainer, CDI and the environment: what stands between admission and a running container."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from hami_core_py.lab.kubelet.runtime import _no_mounts
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp


def cdi_spec(name: str, **edits: Any) -> dict[str, Any]:
    return {
        "cdiVersion": "0.6.0",
        "kind": "acme.example/npu",
        "devices": [{"name": name, "containerEdits": edits}],
        "containerEdits": {"env": ["COMMON=yes"]},
    }


def test_failing_prestart_keeps_the_container_waiting_until_it_succeeds(lab: Any, plugin: Any) -> None:
    plugin.prestart_error = "no record yet"
    lab.create("p", lab.container(devices=1))
    message = lab.await_waiting("p", "CreateContainerConfigError")
    assert message == (
        "device plugin PreStartContainer rpc failed with err: rpc error: code = Internal desc = no record yet"
    )
    assert lab.phase("p") == "Pending"
    lab.eventually("it is tried again", lambda: len(plugin.named("PreStartContainer")) >= 3)
    plugin.prestart_error = ""
    lab.await_phase("p", "Running")
    assert len(plugin.named("Allocate")) == 1


def test_hanging_prestart_is_cut_off_and_holds_up_no_other_pod(lab: Any, plugin: Any) -> None:
    lab.stop_kubelet()
    lab.start_kubelet(prestart_timeout_seconds=1.0)
    plugin.stop()
    plugin.start()
    lab.eventually("devices are back", lambda: lab.allocatable() == "4")
    release = threading.Event()
    slow = {"npu-0"}
    plugin.on_prestart = lambda ids: release.wait(20) if slow & set(ids) else None
    lab.create("stuck", lab.container(devices=1))
    lab.eventually("the call", lambda: plugin.named("PreStartContainer"))
    lab.create("other", lab.container(devices=1))
    lab.await_phase("other", "Running")
    assert "code = DeadlineExceeded" in lab.await_waiting("stuck", "CreateContainerConfigError")
    slow.clear()
    release.set()
    lab.await_phase("stuck", "Running")


def test_prestart_is_called_at_each_start_and_allocate_never_again(lab: Any, plugin: Any) -> None:
    lab.create("p", lab.container(command=["sh", "-c", "exit 1"], devices=1))
    lab.eventually("two restarts", lambda: lab.state("p").get("restartCount", 0) >= 2)
    assert len(plugin.named("PreStartContainer")) >= 3
    assert len(plugin.named("Allocate")) == 1


def test_plugin_that_wants_no_prestart_gets_none(lab: Any) -> None:
    plugin = lab.new_plugin()
    plugin.pre_start_required = False
    lab.start_plugin(plugin)
    lab.create("p", lab.container(devices=1))
    lab.await_phase("p", "Running")
    assert not plugin.named("PreStartContainer")


def test_cdi_beats_the_pods_own_environment_which_beats_allocates(lab: Any, plugin: Any) -> None:
    plugin.answer = lambda ids: dp.ContainerAllocateResponse(
        envs={"A": "allocate", "B": "allocate", "C": "allocate"},
        cdi_devices=[dp.CDIDevice(name="acme.example/npu=one")],
    )
    lab.write_cdi("one", cdi_spec("one", env=["C=cdi"]))
    env = [{"name": "B", "value": "pod"}, {"name": "C", "value": "pod"}]
    pod = lab.create("p", lab.container(command=["sh", "-c", "echo $A $B $C $COMMON; sleep 100"], devices=1, env=env))
    lab.await_phase("p", "Running")
    assert lab.eventually("output", lambda: lab.output(pod)) == "allocate pod cdi yes\n"


def test_cdi_spec_written_in_prestart_is_found(lab: Any, plugin: Any) -> None:
    plugin.answer = lambda ids: dp.ContainerAllocateResponse(cdi_devices=[dp.CDIDevice(name="acme.example/npu=late")])
    plugin.on_prestart = lambda ids: lab.write_cdi(
        "late",
        cdi_spec(
            "late",
            env=["WHO=me"],
            mounts=[{"hostPath": "/etc", "containerPath": "/data/etc", "options": ["ro", "rbind"]}],
            deviceNodes=[{"path": "/dev/npu0", "hostPath": "/dev/null"}],
        ),
    )
    pod = lab.create("p", lab.container(devices=1))
    lab.await_phase("p", "Running")
    received = lab.received(pod)
    assert received["env"]["WHO"] == "me"
    assert received["mounts"] == [{"container_path": "/data/etc", "host_path": "/etc", "read_only": True}]
    assert received["devices"] == [{"container_path": "/dev/npu0", "host_path": "/dev/null", "permissions": "rwm"}]
    rootfs = Path(received["cwd"]) / "rootfs"
    assert (rootfs / "data" / "etc").resolve() == Path("/etc").resolve()
    assert (rootfs / "dev" / "npu0").resolve() == Path("/dev/null")


def test_unresolvable_cdi_device_is_tried_again_until_its_spec_appears(lab: Any, plugin: Any) -> None:
    plugin.answer = lambda ids: dp.ContainerAllocateResponse(cdi_devices=[dp.CDIDevice(name="acme.example/npu=x1")])
    lab.create("p", lab.container(devices=1))
    message = lab.await_waiting("p", "CreateContainerError")
    assert message == "CDI device injection failed: unresolvable CDI devices acme.example/npu=x1"
    lab.write_cdi("x1", cdi_spec("x1", env=["X=1"]))
    lab.await_phase("p", "Running")


def test_mounts_of_allocate_reach_the_container(lab: Any, plugin: Any, tmp_path: Path) -> None:
    (tmp_path / "identity").write_text("it is me\n")
    plugin.answer = lambda ids: dp.ContainerAllocateResponse(
        mounts=[dp.Mount(container_path="/late", host_path=str(tmp_path), read_only=True)],
        devices=[dp.DeviceSpec(container_path="/dev/zero0", host_path="/dev/zero", permissions="r")],
        annotations={"acme.example/note": "hello"},
    )
    pod = lab.create("p", lab.container(command=["sh", "-c", "cat rootfs/late/identity; sleep 100"], devices=1))
    lab.await_phase("p", "Running")
    assert lab.eventually("output", lambda: lab.output(pod)) == "it is me\n"
    received = lab.received(pod)
    assert received["devices"] == [{"container_path": "/dev/zero0", "host_path": "/dev/zero", "permissions": "r"}]
    assert received["annotations"] == {"acme.example/note": "hello"}


@pytest.mark.skipif(bool(_no_mounts()), reason="no mount namespaces on this machine")
def test_mounts_are_where_they_belong_and_nowhere_else(lab: Any, plugin: Any, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("for one container\n")
    places = {"/etc/acme-lab/words": True, "/usr/share/acme-lab": False}
    sources = (str(tmp_path / "words"), str(tmp_path))
    plugin.answer = lambda ids: dp.ContainerAllocateResponse(
        mounts=[
            dp.Mount(container_path=place, host_path=source, read_only=only)
            for (place, only), source in zip(places.items(), sources, strict=True)
        ]
    )
    script = (
        "cat /etc/acme-lab/words; echo no 2>&- > /etc/acme-lab/words; echo yes > /usr/share/acme-lab/new; sleep 100"
    )
    pod = lab.create("p", lab.container(command=["sh", "-c", script], devices=1))
    lab.await_phase("p", "Running")
    lab.eventually("written", lambda: (tmp_path / "new").exists())
    assert lab.output(pod).startswith("for one container\n")
    assert (tmp_path / "words").read_text() == "for one container\n"
    assert not Path("/etc/acme-lab").exists()


def test_pods_environment_has_downward_fields_references_and_nothing_of_ours(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEAKED", "from the kubelet")
    env = [
        {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "GREETING", "value": "hello $(WHO) $(NOBODY) $$(WHO)"},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    container = lab.container(command=["sh", "-c"], args=["echo $(GREETING); sleep 100"], env=env)
    container["resources"] = {"limits": {"memory": "2Gi"}}
    pod = lab.create("p", container)
    lab.await_phase("p", "Running")
    received = lab.received(pod)["env"]
    assert received["GREETING"] == "hello p $(NOBODY) $(WHO)"
    assert (received["WHERE"], received["LIMIT"], received["HOSTNAME"]) == ("node-a", "2048", "p")
    assert "LEAKED" not in received


def test_missing_config_map_keeps_the_container_waiting(lab: Any) -> None:
    source = {"configMapKeyRef": {"name": "absent", "key": "a"}}
    lab.create("p", lab.container(env=[{"name": "A", "valueFrom": source}]))
    assert "absent" in lab.await_waiting("p", "CreateContainerConfigError")


def test_command_that_does_not_exist_is_a_start_error(lab: Any) -> None:
    lab.create("p", lab.container(command=["/no/such/program"]), restartPolicy="Never")
    lab.await_phase("p", "Failed")
    terminated = lab.state("p")["state"]["terminated"]
    assert (terminated["reason"], terminated["exitCode"]) == ("StartError", 128)
    assert "/no/such/program" in terminated["message"]
