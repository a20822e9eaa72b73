"""Admission webhooks over real TLS."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path
from typing import Any

import httpx

from hami_core_py.lab.apiserver import ApiServer

from .webhooks import serve_webhook

POD: dict[str, Any] = {"metadata": {"name": "train"}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
PODS = "/api/v1/namespaces/default/pods"
RULES = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]


def register(http: httpx.Client, url: str, ca_bundle: str, *, mutates: bool = False, **fields: Any) -> None:
    kind = "mutatingwebhookconfigurations" if mutates else "validatingwebhookconfigurations"
    webhook = {"name": "pods.acme.example", "clientConfig": {"url": url, "caBundle": ca_bundle}, "rules": RULES}
    webhook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"], **fields}
    body = {"metadata": {"name": "acme"}, "webhooks": [webhook]}
    answer = http.post(f"/apis/admissionregistration.k8s.io/v1/{kind}", json=body)
    assert answer.status_code == 201, answer.text


def create(http: httpx.Client) -> httpx.Response:
    return http.post(PODS, json=POD)


def test_a_mutating_webhook_changes_pods_and_its_connection_is_kept(http: httpx.Client, tmp_path: Path) -> None:
    patch = [{"op": "replace", "path": "/spec/schedulerName", "value": "hami-scheduler"}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()

    def respond(_: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded, "warnings": ['say "please"']}

    with serve_webhook(tmp_path, respond) as webhook:
        register(http, webhook.url, webhook.ca_bundle, mutates=True, timeoutSeconds=7)
        created = create(http)
        assert created.json()["spec"]["schedulerName"] == "hami-scheduler"
        assert created.headers["warning"] == '299 - "say \\"please\\""'
        http.delete(f"{PODS}/train")
        create(http)
        assert len(webhook.asked) == 2
        assert webhook.paths == ["/admit?timeout=7s"] * 2


def test_a_webhook_may_ask_the_server_while_it_is_asked(http: httpx.Client, tmp_path: Path) -> None:
    def respond(_: dict[str, Any]) -> dict[str, Any]:
        pods = http.get(PODS).json()["items"]
        return {"allowed": not pods, "status": {"message": "one pod is enough"}}

    with serve_webhook(tmp_path, respond) as webhook:
        register(http, webhook.url, webhook.ca_bundle)
        assert create(http).status_code == 201
        second = {**POD, "metadata": {"name": "second"}}
        refused = http.post(PODS, json=second)
    assert refused.status_code == 403
    assert refused.json()["message"] == 'admission webhook "pods.acme.example" denied the request: one pod is enough'


def test_a_certificate_that_the_bundle_does_not_cover_is_not_trusted(http: httpx.Client, tmp_path: Path) -> None:
    with (
        serve_webhook(tmp_path / "one", lambda _: {"allowed": True}) as webhook,
        serve_webhook(tmp_path / "two", lambda _: {"allowed": True}) as stranger,
    ):
        register(http, webhook.url, stranger.ca_bundle)
        refused = create(http)
    assert refused.status_code == 500
    assert "certificate verify failed" in refused.json()["message"]
    assert webhook.asked == []


def test_a_webhook_that_is_away_refuses_or_is_ignored_by_its_policy(http: httpx.Client, tmp_path: Path) -> None:
    away = _a_port_nobody_listens_on()
    with serve_webhook(tmp_path, lambda _: {"allowed": True}) as webhook:
        register(http, f"https://127.0.0.1:{away}/admit", webhook.ca_bundle)
    refused = create(http)
    assert refused.status_code == 500
    assert 'failed calling webhook "pods.acme.example": failed to call webhook: Post' in refused.json()["message"]
    http.delete("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/acme")
    register(http, f"https://127.0.0.1:{away}/admit", "", failurePolicy="Ignore")
    assert create(http).status_code == 201


def test_a_silent_webhook_is_given_up_after_its_time(http: httpx.Client, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, serve_webhook(tmp_path, lambda _: {}) as webhook:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/admit"
        register(http, url, webhook.ca_bundle, timeoutSeconds=1)
        refused = create(http)
    assert refused.status_code == 500
    assert "context deadline exceeded" in refused.json()["message"]


def test_a_webhook_that_restarted_is_asked_over_a_new_connection(
    http: httpx.Client, server: ApiServer, tmp_path: Path
) -> None:
    with serve_webhook(tmp_path, lambda _: {"allowed": True}) as webhook:
        register(http, webhook.url, webhook.ca_bundle)
        create(http)
        _close_kept_connections(server)
        http.delete(f"{PODS}/train")
        assert create(http).status_code == 201


def _close_kept_connections(server: ApiServer) -> None:
    """Cut what the API server keeps open, from below, as the other side's end would."""
    admission: Any = server.store.admission
    for connections in admission._client._idle.values():
        for connection in connections:
            connection.sock.shutdown(socket.SHUT_RDWR)


def _a_port_nobody_listens_on() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
    return port
