"""Kubelet, plugin and API server going away and coming back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from hami_core_py.lab.kubelet import end_containers


def restart(lab: Any) -> None:
    lab.stop_kubelet(leave_containers=True)
    lab.start_kubelet()


def come_back(lab: Any, plugin: Any) -> None:
    plugin.stop()
    plugin.start()
    lab.eventually("devices are back", lambda: lab.allocatable() == "4")


def test_containers_run_on_through_a_kubelet_restart_without_any_call(lab: Any, plugin: Any) -> None:
    pod = lab.create("p", lab.container(devices=2))
    lab.await_phase("p", "Running")
    pid, calls = lab.pid(pod), list(plugin.calls)
    restart(lab)
    lab.eventually("the pod is known again", lambda: lab.pod_resources())
    assert lab.allocatable() == "0"
    assert not (lab.root / "device-plugins" / plugin.endpoint).exists()
    come_back(lab, plugin)
    assert (lab.pid(pod), lab.state("p")["restartCount"]) == (pid, 0)
    assert plugin.calls == calls
    os.kill(pid, 0)
    held = {one for each in lab.pod_resources("p").containers[0].devices for one in each.device_ids}
    assert held == set(plugin.named("Allocate")[0])


def test_devices_of_running_pods_are_not_given_away_after_a_restart(lab: Any, plugin: Any) -> None:
    lab.create("p", lab.container(devices=3))
    lab.await_phase("p", "Running")
    restart(lab)
    come_back(lab, plugin)
    lab.create("q", lab.container(devices=1))
    lab.await_phase("q", "Running")
    first, second = plugin.named("Allocate")
    assert not set(first) & set(second)


def test_container_that_restarts_before_the_plugin_is_back_starts_without_prestart(lab: Any, plugin: Any) -> None:
    pod = lab.create("p", lab.container(devices=1))
    lab.await_phase("p", "Running")
    restart(lab)
    lab.eventually("the pod is known again", lambda: lab.pod_resources())
    os.kill(lab.pid(pod), signal.SIGKILL)
    lab.eventually("it runs again", lambda: lab.state("p").get("restartCount") == 1 and lab.phase("p") == "Running")
    assert len(plugin.named("PreStartContainer")) == 1
    assert lab.received(pod)["env"]["NPU_IDS"] == plugin.named("Allocate")[0][0]


def test_container_that_restarts_while_the_plugin_is_gone_waits_for_it(lab: Any, plugin: Any) -> None:
    pod = lab.create("p", lab.container(devices=1))
    lab.await_phase("p", "Running")
    plugin.stop()
    lab.eventually("allocatable is zero", lambda: lab.allocatable() == "0")
    os.kill(lab.pid(pod), signal.SIGKILL)
    assert "has been stopped" in lab.await_waiting("p", "CreateContainerConfigError")
    plugin.start()
    lab.eventually("it runs again", lambda: "running" in lab.state("p").get("state", {}))
    assert lab.state("p")["restartCount"] == 1


def test_container_that_ended_while_no_kubelet_ran_is_seen_with_its_exit_code(lab: Any, tmp_path: Any) -> None:
    go = tmp_path / "go"
    wait = lab.container(command=["sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done; exit 9"])
    pod = lab.create("p", wait, restartPolicy="Never")
    lab.await_phase("p", "Running")
    pid = lab.pid(pod)
    lab.stop_kubelet(leave_containers=True)
    go.touch()
    lab.eventually("it ended", lambda: not os.path.exists(f"/proc/{pid}/exe"))
    lab.start_kubelet()
    lab.await_phase("p", "Failed")
    assert lab.state("p")["state"]["terminated"]["exitCode"] == 9


def test_container_whose_shim_was_killed_is_ended_and_started_again(lab: Any) -> None:
    pod = lab.create("p")
    lab.await_phase("p", "Running")
    first, shim = lab.pid(pod), lab.process(pod)["keeper"]
    os.kill(shim, signal.SIGKILL)
    lab.eventually("it runs again", lambda: lab.state("p").get("restartCount") == 1)
    assert not os.path.exists(f"/proc/{first}/exe")
    assert lab.state("p")["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"


def test_pod_deleted_while_no_kubelet_ran_is_ended(lab: Any) -> None:
    gone, deleted = lab.create("gone"), lab.create("deleted", terminationGracePeriodSeconds=1)
    for name in ("gone", "deleted"):
        lab.await_phase(name, "Running")
    pids = [lab.pid(gone), lab.pid(deleted)]
    lab.stop_kubelet(leave_containers=True)
    lab.delete("gone", grace=0)
    lab.delete("deleted")
    lab.start_kubelet()
    lab.eventually("both are gone", lambda: lab.pod("deleted") is None)
    lab.eventually("no process is left", lambda: not any(os.path.exists(f"/proc/{pid}/exe") for pid in pids))


def test_pod_not_running_at_a_restart_is_refused_because_the_plugin_is_not_back(lab: Any, plugin: Any) -> None:
    plugin.prestart_error = "not yet"
    lab.create("p", lab.container(devices=1))
    lab.await_waiting("p", "CreateContainerConfigError")
    restart(lab)
    assert lab.await_phase("p", "Failed")["status"]["reason"] == "UnexpectedAdmissionError"


def test_without_its_checkpoint_a_running_pod_runs_on_but_cannot_restart(lab: Any, plugin: Any) -> None:
    pod = lab.create("p", lab.container(devices=1))
    lab.await_phase("p", "Running")
    lab.stop_kubelet(leave_containers=True)
    (lab.root / "device-plugins" / "kubelet_internal_checkpoint").unlink()
    lab.start_kubelet()
    come_back(lab, plugin)
    assert lab.phase("p") == "Running"
    os.kill(lab.pid(pod), signal.SIGKILL)
    assert "no devices found allocated" in lab.await_waiting("p", "CreateContainerConfigError")


def test_kubelet_process_that_is_killed_leaves_containers_to_the_next_one(lab: Any) -> None:
    lab.stop_kubelet()
    command = [sys.executable, "-m", "hami_core_py.lab.kubelet", "--node", "node-a", "--api", lab.url]
    command += ["--root", str(lab.root), "--capacity", "cpu=3,pods=20", "--seed", "1"]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    pod = lab.create("p")
    lab.await_phase("p", "Running")
    assert lab.node()["status"]["capacity"]["cpu"] == "3"
    pid = lab.pid(pod)
    first.kill()
    first.wait()
    os.kill(pid, 0)
    second = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    lab.delete("p")
    lab.eventually("the second kubelet ends it", lambda: lab.pod("p") is None)
    lab.create("q")
    other = lab.pid(lab.await_phase("q", "Running"))
    second.send_signal(signal.SIGINT)
    assert second.wait(60) == 0
    assert not os.path.exists(f"/proc/{other}/exe")


def test_what_a_stopped_kubelet_left_can_be_ended_without_it(lab: Any) -> None:
    pod = lab.create("p")
    lab.await_phase("p", "Running")
    pid = lab.pid(pod)
    lab.stop_kubelet(leave_containers=True)
    end_containers(lab.root)
    assert not os.path.exists(f"/proc/{pid}/exe")


def test_kubelet_process_that_is_terminated_leaves_its_containers_running(lab: Any) -> None:
    lab.stop_kubelet()
    command = [sys.executable, "-m", "hami_core_py.lab.kubelet", "--node", "node-a", "--api", lab.url]
    kubelet = subprocess.Popen([*command, "--root", str(lab.root)], stderr=subprocess.DEVNULL)
    pod = lab.create("p")
    lab.await_phase("p", "Running")
    kubelet.send_signal(signal.SIGTERM)
    assert kubelet.wait(60) == 0
    os.kill(lab.pid(pod), 0)
    lab.start_kubelet()
    lab.eventually("the pod is known again", lambda: lab.pod_resources())
    assert lab.state("p")["restartCount"] == 0
