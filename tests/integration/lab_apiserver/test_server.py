"""The server over plain HTTP: its answers' exact shape, faults, restarts, and the process."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from hami_core_py.lab.apiserver import ApiServer, Fault, logs_below, write_kubeconfig

POD: dict[str, Any] = {"metadata": {"name": "train"}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
PODS = "/api/v1/namespaces/default/pods"


def test_a_failure_has_the_exact_shape_of_a_status(http: httpx.Client) -> None:
    answer = http.get(f"{PODS}/ghost")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "ghost" not found',
        "reason": "NotFound",
        "details": {"name": "ghost", "kind": "pods"},
        "code": 404,
    }


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/api/v1/wheels", 404),
        ("GET", f"{PODS}/train/wheels", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("POST", "/api/v1/pods", 405),
        ("GET", "/api/v1/namespaces/default/bindings", 405),
        ("PUT", PODS, 405),
        ("GET", f"{PODS}?limit=many", 400),
        ("GET", f"{PODS}?labelSelector=a%3D(b", 400),
        ("GET", f"{PODS}?watch=1&resourceVersion=99999999", 504),
    ],
)
def test_what_is_not_served_is_told_by_its_code(http: httpx.Client, method: str, path: str, code: int) -> None:
    answer = http.request(method, path, json=POD if method != "GET" else None)
    assert (answer.status_code, answer.json()["code"], answer.json()["kind"]) == (code, code, "Status")


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"x: [", "application/yaml", 400),
        (b"\x00", "application/cbor", 415),
        (b'{"metadata": {"name": "x"}, "spec": {"containers": "all"}}', "application/json", 400),
        (b'{"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a", "env": 5}]}}', "application/json", 400),
        (b" " * (3 * 2**20 + 1), "application/json", 413),
    ],
)
def test_a_bad_body_is_refused_and_the_server_goes_on(
    http: httpx.Client, body: bytes, content_type: str, code: int
) -> None:
    answer = http.post(PODS, content=body, headers={"content-type": content_type})
    assert answer.status_code == code
    assert answer.json()["kind"] == "Status"
    assert http.get(PODS).json()["items"] == []


def test_yaml_is_understood(http: httpx.Client) -> None:
    answer = http.post(PODS, content=yaml.safe_dump(POD).encode(), headers={"content-type": "application/yaml"})
    assert answer.status_code == 201


def test_connections_are_kept(server: ApiServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        for _ in range(2):
            connection.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            headers, _, rest = head.partition(b"\r\n\r\n")
            length = int(
                next(line for line in headers.split(b"\r\n") if line.lower().startswith(b"content-length:"))[15:]
            )
            while len(rest) < length:
                rest += connection.recv(65536)
            assert json.loads(rest)["gitVersion"].startswith("v1.")


def test_a_dry_run_is_asked_by_its_parameter(http: httpx.Client) -> None:
    assert http.post(f"{PODS}?dryRun=All", json=POD).status_code == 201
    assert http.get(f"{PODS}/train").status_code == 404


def test_metadata_alone_can_be_asked_for(http: httpx.Client) -> None:
    http.post(PODS, json=POD)
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    listed = http.get(PODS, headers={"accept": accept}).json()
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [sorted(one) for one in listed["items"]] == [["apiVersion", "kind", "metadata"]]


def test_a_watch_can_begin_with_what_exists_and_say_where_that_ends(http: httpx.Client) -> None:
    http.post(PODS, json=POD)
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=9"
    with http.stream("GET", f"{PODS}?{query}") as answer:
        lines = answer.iter_lines()
        added, bookmark = json.loads(next(lines)), json.loads(next(lines))
    assert added["type"] == "ADDED"
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_ends_after_its_time(http: httpx.Client) -> None:
    assert http.get(f"{PODS}?watch=1&timeoutSeconds=1").text == ""


def test_a_watch_of_tables_shows_rows(http: httpx.Client) -> None:
    http.post(PODS, json=POD)
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    with http.stream("GET", f"{PODS}?watch=1&timeoutSeconds=9", headers={"accept": accept}) as answer:
        event = json.loads(next(answer.iter_lines()))
    assert (event["type"], event["object"]["kind"]) == ("ADDED", "Table")
    assert event["object"]["rows"][0]["cells"][0] == "train"


def test_an_injected_error_is_answered_as_often_as_told(http: httpx.Client, server: ApiServer) -> None:
    server.faults.add(Fault(verbs=("list",), resource="pods", status=429, retry_after_s=1, times=1))
    refused = http.get(PODS)
    assert (refused.status_code, refused.headers["retry-after"], refused.json()["reason"]) == (
        429,
        "1",
        "TooManyRequests",
    )
    assert http.get(PODS).status_code == 200


def test_a_request_cut_off_before_has_not_happened(http: httpx.Client, server: ApiServer) -> None:
    server.faults.add(Fault(verbs=("create",), drop=True, times=1))
    with pytest.raises(httpx.TransportError):
        http.post(PODS, json=POD)
    assert http.get(PODS).json()["items"] == []


def test_a_request_cut_off_after_has_happened(http: httpx.Client, server: ApiServer) -> None:
    server.faults.add(Fault(verbs=("create",), drop=True, when="after", times=1))
    with pytest.raises(httpx.TransportError):
        http.post(PODS, json=POD)
    assert [one["metadata"]["name"] for one in http.get(PODS).json()["items"]] == ["train"]


def test_a_stalled_request_runs_into_its_clients_limit_and_others_do_not(http: httpx.Client, server: ApiServer) -> None:
    server.faults.add(Fault(verbs=("list",), resource="pods", stall_s=30, times=1))
    with pytest.raises(httpx.ReadTimeout):
        http.get(PODS, timeout=0.2)
    assert http.get("/api/v1/nodes").status_code == 200


def test_faults_are_set_from_outside(http: httpx.Client) -> None:
    added = http.post("/lab/faults", json={"resource": "pods", "status": 503})
    assert added.status_code == 201
    assert http.get(PODS).status_code == 503
    assert [one["status"] for one in http.get("/lab/faults").json()["faults"]] == [503]
    assert http.delete(f"/lab/faults/{added.json()['id']}").status_code == 200
    assert http.get(PODS).status_code == 200
    assert http.post("/lab/faults", json={"what": 1}).status_code == 400
    http.post("/lab/faults", json={"status": 503})
    http.delete("/lab/faults")
    assert http.get(PODS).status_code == 200


def test_history_is_compacted_and_watches_ended_from_outside(http: httpx.Client) -> None:
    version = http.post(PODS, json=POD).json()["metadata"]["resourceVersion"]
    http.patch(
        f"{PODS}/train",
        json={"metadata": {"labels": {"a": "b"}}},
        headers={"content-type": "application/merge-patch+json"},
    )
    with http.stream("GET", f"{PODS}?watch=1&resourceVersion={version}") as answer:
        lines = answer.iter_lines()
        assert json.loads(next(lines))["type"] == "MODIFIED"
        assert httpx.post(f"{http.base_url}/lab/end-watches", json={"expired": True}).json() == {"ended": 1}
        last = json.loads(next(lines))
    assert (last["type"], last["object"]["code"]) == ("ERROR", 410)
    http.post("/lab/compact")
    gone = http.get(f"{PODS}?watch=1&resourceVersion={version}")
    assert (gone.status_code, gone.json()["reason"]) == (410, "Expired")


def test_the_store_outlives_a_server_that_was_away(http: httpx.Client, server: ApiServer) -> None:
    http.post(PODS, json=POD)
    url = server.url
    server.stop()
    with pytest.raises(httpx.ConnectError):
        http.get(PODS)
    server.start()
    assert server.url == url
    assert [one["metadata"]["name"] for one in http.get(PODS).json()["items"]] == ["train"]


def test_stopping_ends_open_watches(server: ApiServer) -> None:
    ended = threading.Event()

    def follow() -> None:
        with httpx.stream("GET", f"{server.url}{PODS}?watch=1", timeout=30) as answer:
            opened.set()
            for _ in answer.iter_bytes():
                pass
        ended.set()

    opened = threading.Event()
    thread = threading.Thread(target=follow)
    thread.start()
    assert opened.wait(60)
    server.stop()
    thread.join(60)
    assert ended.is_set()


def test_logs_are_read_from_the_kubelets_files(tmp_path: Path) -> None:
    with ApiServer(logs=logs_below(tmp_path)) as server, httpx.Client(base_url=server.url, verify=False) as http:
        uid = http.post(PODS, json=POD).json()["metadata"]["uid"]
        waiting = http.get(f"{PODS}/train/log")
        assert (waiting.status_code, "waiting to start" in waiting.json()["message"]) == (400, True)
        folder = tmp_path / f"default_train_{uid}" / "main"
        folder.mkdir(parents=True)
        (folder / "0.log").write_text("first run\n")
        (folder / "1.log").write_text("one\ntwo\nthree\n")
        assert http.get(f"{PODS}/train/log").text == "one\ntwo\nthree\n"
        assert http.get(f"{PODS}/train/log?tailLines=1").text == "three\n"
        assert http.get(f"{PODS}/train/log?container=main&previous=true").text == "first run\n"
        assert http.get(f"{PODS}/train/log?container=other").status_code == 400


def test_followed_logs_end_with_the_pod(tmp_path: Path) -> None:
    with (
        ApiServer(logs=logs_below(tmp_path)) as server,
        httpx.Client(base_url=server.url, timeout=60, verify=False) as http,
    ):
        uid = http.post(PODS, json=POD).json()["metadata"]["uid"]
        folder = tmp_path / f"default_train_{uid}" / "main"
        folder.mkdir(parents=True)
        log = folder / "0.log"
        log.write_text("one\n")
        with http.stream("GET", f"{PODS}/train/log?follow=true") as answer:
            lines = answer.iter_lines()
            assert next(lines) == "one"
            with log.open("a") as file:
                file.write("two\n")
            assert next(lines) == "two"
            server.store.delete("pods", "train", "default")
            assert list(lines) == []


def test_the_process_serves_keeps_its_data_and_stops_on_sigterm(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"

    def start() -> tuple[subprocess.Popen[str], str]:
        arguments = ["--data", str(tmp_path / "data"), "--kubeconfig", str(kubeconfig)]
        process = subprocess.Popen(
            [sys.executable, "-m", "hami_core_py.lab.apiserver", *arguments], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    process, url = start()
    assert yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == url
    assert httpx.post(f"{url}{PODS}", json=POD).status_code == 201
    with httpx.stream("GET", f"{url}{PODS}?watch=1", timeout=30) as answer:
        process.send_signal(signal.SIGTERM)
        assert b'"ADDED"' in b"".join(answer.iter_bytes())
    process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGTERM)
    process, url = start()
    assert [one["metadata"]["name"] for one in httpx.get(f"{url}{PODS}").json()["items"]] == ["train"]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)


def test_the_kubeconfigs_user_is_who_asks(http: httpx.Client, server: ApiServer, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", server.url, user="system:serviceaccount:hami:scheduler")
    token = yaml.safe_load(path.read_text())["users"][0]["user"]["token"]
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = http.post(review, json={}, headers={"authorization": f"Bearer {token}"}).json()
    assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:hami:scheduler"
    assert "system:serviceaccounts:hami" in answer["status"]["userInfo"]["groups"]


def test_a_watch_whose_client_went_away_is_closed(http: httpx.Client, server: ApiServer) -> None:
    with http.stream("GET", f"{PODS}?watch=1") as answer:
        assert answer.status_code == 200
        assert server.open_watches == 1
    wait_until(lambda: server.open_watches == 0)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
