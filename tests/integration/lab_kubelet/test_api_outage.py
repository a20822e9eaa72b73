"""An API server that is away, or forgets where a watch was."""

from __future__ import annotations

import os
import signal
import urllib.request
from typing import Any


def test_containers_restart_while_the_api_is_away_and_it_is_told_later(lab: Any, plugin: Any) -> None:
    pod = lab.create("p", lab.container(devices=1))
    lab.await_phase("p", "Running")
    first = lab.pid(pod)
    lab.server.stop()
    os.kill(first, signal.SIGKILL)
    lab.eventually("it runs again", lambda: lab.pid_or_none(pod) not in (None, first))
    lab.server.start()
    lab.eventually("the API knows", lambda: lab.state("p")["restartCount"] == 1)
    lab.create("q", lab.container(devices=1))
    lab.await_phase("q", "Running")


def test_expired_watch_is_begun_anew(lab: Any) -> None:
    lab.create("before")
    lab.await_phase("before", "Running")
    assert lab.eventually("a watch to end", lambda: lab.server.end_watches(is_expired=True))
    lab.create("after")
    lab.await_phase("after", "Running")
    assert lab.state("before")["restartCount"] == 0


def test_kubelet_that_starts_before_the_api_registers_once_it_is_there(lab: Any) -> None:
    lab.stop_kubelet()
    lab.server.stop()
    kubelet = lab.begin_kubelet()
    assert not kubelet.wait_ready(0.3)
    lab.server.start()
    assert kubelet.wait_ready(10)


def test_kubectl_logs_reads_what_the_container_wrote(lab: Any) -> None:
    pod = lab.create("p", lab.container(command=["sh", "-c", "echo hello; sleep 100"]))
    lab.eventually("output", lambda: lab.output(pod))
    with urllib.request.urlopen(f"{lab.url}/api/v1/namespaces/default/pods/p/log") as answer:
        assert answer.read() == b"hello\n"


def test_events_tell_the_story_of_a_pod(lab: Any, plugin: Any) -> None:
    plugin.prestart_error = "no record"
    pod = lab.create("p", lab.container(devices=1))
    lab.await_waiting("p", "CreateContainerConfigError")
    plugin.prestart_error = ""
    lab.await_phase("p", "Running")

    def reasons() -> list[str]:
        events = lab.api.get("/api/v1/namespaces/default/events")["items"]
        uid = pod["metadata"]["uid"]
        return [one["reason"] for one in events if one["involvedObject"].get("uid") == uid]

    lab.eventually("both events", lambda: {"Failed", "Started"} <= set(reasons()))
    assert reasons().count("Failed") == 1  # not one for each attempt
