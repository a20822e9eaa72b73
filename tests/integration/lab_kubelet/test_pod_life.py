"""Order of containers, restart policies, deletion, status, logs."""

from __future__ import annotations

import os
import urllib.request
from typing import Any

import pytest


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def conditions(pod: dict[str, Any]) -> dict[str, str]:
    return {one["type"]: one["status"] for one in pod["status"]["conditions"]}


def test_running_pod_reports_what_kubectl_shows(lab: Any) -> None:
    lab.create("p")
    pod = lab.await_phase("p", "Running")
    status = pod["status"]
    assert (status["podIP"], status["hostIP"]) == ("127.0.0.1", "127.0.0.1")
    assert status["startTime"]
    ready = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    assert {name: conditions(pod)[name] for name in ready} == dict.fromkeys(ready, "True")
    (container,) = status["containerStatuses"]
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
    assert "running" in container["state"]


def test_init_containers_run_one_after_another_before_the_others(lab: Any, tmp_path: Any) -> None:
    trace = tmp_path / "trace"

    def step(name: str) -> Any:
        return lab.container(name, ["sh", "-c", f"sleep 0.1; echo {name} >> {trace}"])

    lab.create("p", step("main"), inits=[step("one"), step("two")], restartPolicy="Never")
    lab.await_phase("p", "Succeeded")
    assert trace.read_text().split() == ["one", "two", "main"]
    assert lab.state("p", "one")["state"]["terminated"]["reason"] == "Completed"


def test_app_container_waits_for_a_slow_init_container(lab: Any, tmp_path: Any) -> None:
    go = tmp_path / "go"
    wait = ["sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done"]
    lab.create("p", lab.container(), inits=[lab.container("init", wait)])
    lab.await_waiting("p", "PodInitializing")
    pod = lab.await_phase("p", "Pending")
    assert conditions(pod)["Initialized"] == "False"
    go.touch()
    assert conditions(lab.await_phase("p", "Running"))["Initialized"] == "True"


def test_sidecar_starts_first_stays_and_ends_with_the_pod(lab: Any, tmp_path: Any) -> None:
    go = tmp_path / "go"
    work = ["sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done"]
    side = lab.container("side", restartPolicy="Always")
    pod = lab.create("p", lab.container(command=work), inits=[side], restartPolicy="Never")
    lab.await_phase("p", "Running")
    side_pid = lab.pid(pod, "side")
    assert alive(side_pid)
    go.touch()
    lab.await_phase("p", "Succeeded")
    assert not alive(side_pid)


def test_nothing_starts_before_a_sidecar_that_cannot_start(lab: Any, plugin: Any) -> None:
    plugin.prestart_error = "not yet"
    side = lab.container("side", devices=1, restartPolicy="Always")
    pod = lab.create("p", lab.container(), inits=[side])
    lab.await_waiting("p", "CreateContainerConfigError", "side")
    assert lab.state("p")["state"]["waiting"]["reason"] == "PodInitializing"
    assert lab.pid_or_none(pod) is None
    plugin.prestart_error = ""
    lab.await_phase("p", "Running")


def test_failed_init_container_fails_a_pod_that_never_restarts(lab: Any) -> None:
    inits = [lab.container("init", ["sh", "-c", "exit 3"])]
    pod = lab.create("p", lab.container(), inits=inits, restartPolicy="Never")
    lab.await_phase("p", "Failed")
    assert lab.state("p", "init")["state"]["terminated"]["exitCode"] == 3
    assert lab.state("p")["state"]["waiting"]["reason"] == "PodInitializing"
    assert not (lab.root / "pods" / pod["metadata"]["uid"] / "containers" / "main").exists()


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (7, "Failed")])
def test_pod_that_never_restarts_ends_as_its_container_did(lab: Any, code: int, phase: str) -> None:
    lab.create("p", lab.container(command=["sh", "-c", f"exit {code}"]), restartPolicy="Never")
    lab.await_phase("p", phase)
    state = lab.state("p")
    assert (state["state"]["terminated"]["exitCode"], state["restartCount"]) == (code, 0)


def test_on_failure_restarts_until_it_succeeds(lab: Any, tmp_path: Any) -> None:
    command = ["sh", "-c", f"echo x >> {tmp_path}/runs; [ $(wc -l < {tmp_path}/runs) -ge 3 ]"]
    lab.create("p", lab.container(command=command), restartPolicy="OnFailure")
    lab.await_phase("p", "Succeeded")
    assert lab.state("p")["restartCount"] == 2
    assert lab.state("p")["lastState"]["terminated"]["exitCode"] == 1


def test_crashing_container_backs_off_and_keeps_its_last_state(lab: Any) -> None:
    lab.create("p", lab.container(command=["sh", "-c", "exit 5"]))
    message = lab.await_waiting("p", "CrashLoopBackOff")
    assert "restarting failed container=main" in message
    assert lab.state("p")["lastState"]["terminated"]["exitCode"] == 5
    assert lab.phase("p") == "Running"


def test_deleted_pod_is_asked_to_end_and_then_gone(lab: Any) -> None:
    command = ["sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"]
    pod = lab.create("p", lab.container(command=command))
    lab.eventually("it is up", lambda: lab.output(pod) == "up\n")
    pid = lab.pid(pod)
    lab.delete("p")
    lab.eventually("the pod is gone", lambda: lab.pod("p") is None)
    assert lab.output(pod) == "up\nbye\n"
    assert not alive(pid)
    lab.eventually("its directory is gone", lambda: not (lab.root / "pods" / pod["metadata"]["uid"]).exists())


def test_container_that_will_not_end_is_killed_after_the_grace_period(lab: Any) -> None:
    command = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"]
    pod = lab.create("p", lab.container(command=command))
    lab.eventually("it is up", lambda: lab.output(pod) == "up\n")
    pid = lab.pid(pod)
    lab.delete("p", grace=1)
    lab.eventually("the pod is gone", lambda: lab.pod("p") is None)
    assert not alive(pid)


def test_force_deleted_pods_processes_end(lab: Any) -> None:
    pod = lab.create("p")
    lab.await_phase("p", "Running")
    pid = lab.pid(pod)
    lab.delete("p", grace=0)
    lab.eventually("the process is gone", lambda: not alive(pid))


def test_children_of_a_container_end_with_it(lab: Any, tmp_path: Any) -> None:
    command = ["sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/child; exit 0"]
    lab.create("p", lab.container(command=command), restartPolicy="Never")
    lab.await_phase("p", "Succeeded")
    child = int((tmp_path / "child").read_text())
    lab.eventually("the child is gone", lambda: not alive(child))


def test_pod_over_its_deadline_fails(lab: Any) -> None:
    lab.create("p", activeDeadlineSeconds=1)
    assert lab.await_phase("p", "Failed")["status"]["reason"] == "DeadlineExceeded"


def test_pod_without_command_or_of_the_pause_image_idles(lab: Any) -> None:
    bare = {"name": "bare", "image": "anything"}
    pause = {"name": "pause", "image": "hami.io/lab/pause", "command": ["/no/such/pause"]}
    pod = lab.create("p", bare, pause)
    lab.await_phase("p", "Running")
    assert alive(lab.pid(pod, "bare"))
    assert alive(lab.pid(pod, "pause"))


def test_logs_are_served_at_the_port_that_the_node_names(lab: Any) -> None:
    pod = lab.create("p", lab.container(command=["sh", "-c", "for i in 1 2 3; do echo line $i; done; sleep 100"]))
    lab.eventually("output", lambda: lab.output(pod).count("\n") == 3)
    port = lab.node()["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/containerLogs/default/p/main?tailLines=2") as answer:
        assert answer.read() == b"line 2\nline 3\n"


def test_log_of_the_run_before_is_kept(lab: Any) -> None:
    command = ["sh", "-c", "echo run; exit 1"]
    pod = lab.create("p", lab.container(command=command))
    lab.eventually("a restart", lambda: lab.state("p").get("restartCount", 0) >= 1)
    port = lab.node()["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/containerLogs/default/p/main?previous=true") as answer:
        assert answer.read() == b"run\n"
    assert pod


def test_kubelet_that_stops_ends_every_process(lab: Any) -> None:
    pod = lab.create("p", lab.container(command=["sh", "-c", "sleep 1000 & sleep 1000"]))
    lab.await_phase("p", "Running")
    pid = lab.pid(pod)
    lab.stop_kubelet()
    assert not alive(pid)
    assert os.path.exists(f"/proc/{os.getpid()}")


def test_node_has_labels_conditions_and_a_lease(lab: Any) -> None:
    node = lab.node()
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node-a"
    assert {one["type"]: one["status"] for one in node["status"]["conditions"]}["Ready"] == "True"
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-a"
    assert lab.eventually("a lease", lambda: lab.find(lease))["spec"]["holderIdentity"] == "node-a"
