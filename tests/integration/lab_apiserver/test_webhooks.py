"""Admission webhooks over real TLS."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path
from typing import Any

import httpx

from hami_core_py.lab.apiserver import ApiServer

from .webhooks import Webhook, serve_webhook

POD: dict[str, Any] = {"metadata": {"name": "train"}, "spec": {"containers": [{"name": "main", "image": "busybox"}]}}
PODS = "/api/v1/namespaces/default/pods"
RULES = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]


def register(server: ApiServer, url: str, ca_bundle: str, *, mutates: bool = False, **fields: Any) -> None:
    kind = "mutatingwebhookconfigurations" if mutates else "validatingwebhookconfigurations"
    webhook = {"name": "pods.acme.example", "clientConfig": {"url": url, "caBundle": ca_bundle}, "rules": RULES}
    webhook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"], **fields}
    body = {"metadata": {"name": "acme"}, "webhooks": [webhook]}
    answer = httpx.post(f"{server.url}/apis/admissionregistration.k8s.io/v1/{kind}", json=body)
    assert answer.status_code == 201, answer.text


def create(server: ApiServer) -> httpx.Response:
    return httpx.post(f"{server.url}{PODS}", json=POD, timeout=20)


def test_a_mutating_webhook_changes_pods_and_its_connection_is_kept(server: ApiServer, tmp_path: Path) -> None:
    patch = [{"op": "replace", "path": "/spec/schedulerName", "value": "hami-scheduler"}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()

    def respond(_: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": True, "patchType": "JSONPatch", "patch": encoded, "warnings": ['say "please"']}

    with serve_webhook(tmp_path, respond) as webhook:
        register(server, webhook.url, webhook.ca_bundle, mutates=True, timeoutSeconds=7)
        created = create(server)
        assert created.json()["spec"]["schedulerName"] == "hami-scheduler"
        assert created.headers["warning"] == '299 - "say \\"please\\""'
        httpx.delete(f"{server.url}{PODS}/train")
        create(server)
        assert len(webhook.asked) == 2
        assert webhook.paths == ["/admit?timeout=7s"] * 2


def test_a_webhook_may_ask_the_server_while_it_is_asked(server: ApiServer, tmp_path: Path) -> None:
    def respond(_: dict[str, Any]) -> dict[str, Any]:
        pods = httpx.get(f"{server.url}{PODS}", timeout=10).json()["items"]
        return {"allowed": not pods, "status": {"message": "one pod is enough"}}

    with serve_webhook(tmp_path, respond) as webhook:
        register(server, webhook.url, webhook.ca_bundle)
        assert create(server).status_code == 201
        second = {**POD, "metadata": {"name": "second"}}
        refused = httpx.post(f"{server.url}{PODS}", json=second, timeout=20)
    assert refused.status_code == 403
    assert refused.json()["message"] == 'admission webhook "pods.acme.example" denied the request: one pod is enough'


def test_a_certificate_that_the_bundle_does_not_cover_is_not_trusted(server: ApiServer, tmp_path: Path) -> None:
    with (
        serve_webhook(tmp_path / "one", lambda _: {"allowed": True}) as webhook,
        serve_webhook(tmp_path / "two", lambda _: {"allowed": True}) as stranger,
    ):
        register(server, webhook.url, stranger.ca_bundle)
        refused = create(server)
    assert refused.status_code == 500
    assert "certificate verify failed" in refused.json()["message"]
    assert webhook.asked == []


def test_a_webhook_that_is_away_refuses_or_is_ignored_by_its_policy(server: ApiServer, tmp_path: Path) -> None:
    away = _a_port_nobody_listens_on()
    with serve_webhook(tmp_path, lambda _: {"allowed": True}) as webhook:
        register(server, f"https://127.0.0.1:{away}/admit", webhook.ca_bundle)
    refused = create(server)
    assert refused.status_code == 500
    assert 'failed calling webhook "pods.acme.example": failed to call webhook: Post' in refused.json()["message"]
    httpx.delete(f"{server.url}/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/acme")
    register(server, f"https://127.0.0.1:{away}/admit", "", failurePolicy="Ignore")
    assert create(server).status_code == 201


def test_a_silent_webhook_is_given_up_after_its_time(server: ApiServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, serve_webhook(tmp_path, lambda _: {}) as webhook:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}/admit"
        register(server, url, webhook.ca_bundle, timeoutSeconds=1)
        refused = create(server)
    assert refused.status_code == 500
    assert "context deadline exceeded" in refused.json()["message"]


def test_a_webhook_that_restarted_is_asked_over_a_new_connection(server: ApiServer, tmp_path: Path) -> None:
    with serve_webhook(tmp_path, lambda _: {"allowed": True}) as webhook:
        register(server, webhook.url, webhook.ca_bundle)
        create(server)
        _close_kept_connections(server, webhook)
        httpx.delete(f"{server.url}{PODS}/train")
        assert create(server).status_code == 201


def _close_kept_connections(server: ApiServer, webhook: Webhook) -> None:
    """Cut what the API server keeps open, from below, as the other side's end would."""
    admission: Any = server.store.admission
    for connections in admission._client._idle.values():
        for connection in connections:
            connection.sock.shutdown(socket.SHUT_RDWR)


def _a_port_nobody_listens_on() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
    return port
