"""The webhook over real TLS: in this process, as a process of its own, and behind an API server."""

import base64
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from hami_core_py.cli import main
from hami_core_py.hooks.ask import Ask
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.kubeconfig import write_kubeconfig
from hami_core_py.lab.certificates import ServerCertificate, issue_certificate
from hami_core_py.servers.certificates import CertificateReloader
from hami_core_py.servers.http import HttpServer, Listen
from hami_core_py.servers.webhook import create_app
from hami_core_py.services.admission import AdmissionService
from hami_core_py.testing.builders import COUNT, FAMILY, MEMORY
from hami_core_py.testing.plugins import make_plugin
from tests.unit.admission.acme import RULES, acme, ask_of, container, pod

MAX_BODY_BYTES = 64 * 1024


class Webhook:
    """A running webhook and a client that trusts its authority alone."""

    def __init__(self, directory: Path, ask: Ask | None = None) -> None:
        self.directory = directory
        self.issued = issue_certificate(directory)
        self.service = AdmissionService(ask or ask_of(), RULES, max_body_bytes=MAX_BODY_BYTES)
        listen = Listen(certificate=self.issued.certificate, key=self.issued.key)
        self.server = HttpServer(create_app(self.service, CollectorRegistry()), listen, name="webhook").start()
        self.client = client_of(self.issued, self.server.url)

    def post(self, body: bytes, content_type: str = "application/json") -> dict[str, Any]:
        answer = self.client.post("/webhook", content=body, headers={"content-type": content_type})
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        response: dict[str, Any] = answer.json()["response"]
        return response

    def metric(self, name: str, **labels: str) -> float:
        families = text_string_to_metric_families(self.client.get("/metrics").text)
        found = [s.value for f in families for s in f.samples if s.name == name and s.labels == labels]
        return sum(found)


def client_of(issued: ServerCertificate, url: str) -> httpx.Client:
    context = ssl.create_default_context(cadata=issued.authority_pem.decode())
    return httpx.Client(base_url=url, verify=context, timeout=60)


@pytest.fixture
def webhook(tmp_path: Path) -> Iterator[Webhook]:
    running = Webhook(tmp_path)
    yield running
    running.client.close()
    running.server.stop()


def review(raw: Any) -> bytes:
    request = {"uid": "r1", "namespace": "default", "operation": "CREATE", "object": raw}
    return json.dumps({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}).encode()


def test_pod_is_admitted_over_tls(webhook: Webhook) -> None:
    response = webhook.post(review(pod(container(memory=4000))))
    assert (response["uid"], response["allowed"]) == ("r1", True)
    assert {"op": "replace", "path": "/spec/schedulerName", "value": "hami-scheduler"} in json.loads(
        base64.b64decode(response["patch"])
    )


def test_outcomes_and_times_are_counted(webhook: Webhook) -> None:
    for body in (review(pod(container())), review(pod(container(count=1))), review(pod(container(count="x"))), b"{"):
        webhook.post(body)
    for outcome in ("allowed", "patched", "denied", "unreadable"):
        assert webhook.metric("hami_webhook_requests_total", outcome=outcome) == 1
    assert webhook.metric("hami_webhook_request_duration_seconds_count") == 4


def test_failures_of_a_backend_are_counted(webhook: Webhook) -> None:
    webhook.service.ask.errors["acme"] += 2
    assert webhook.metric("hami_backend_errors_total", backend="acme") == 2


def test_body_that_is_too_large_is_answered_and_not_kept(webhook: Webhook) -> None:
    for size in (MAX_BODY_BYTES, 3 * MAX_BODY_BYTES):
        status = webhook.post(b" " * size)["status"]
        assert (status["code"], status["message"]) == (
            413,
            f"request entity is too large; limit is {MAX_BODY_BYTES} bytes",
        )
    assert webhook.post(review(pod(container())))["allowed"]


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        (b"", "application/json", "request body is empty"),
        (b"{", "application/json", "couldn't get version/kind"),
        (b"{}", "text/plain", "contentType=text/plain, expected application/json"),
    ],
)
def test_malformed_review_is_answered(webhook: Webhook, body: bytes, content_type: str, message: str) -> None:
    status = webhook.post(body, content_type)["status"]
    assert status["code"] == 400
    assert status["message"].startswith(message)


def test_client_that_goes_away_in_the_middle_disturbs_nobody(webhook: Webhook) -> None:
    host, port = webhook.server.url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cadata=webhook.issued.authority_pem.decode())
    with context.wrap_socket(socket.create_connection((host, int(port))), server_hostname=host) as connection:
        connection.sendall(b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    assert webhook.post(review(pod(container())))["allowed"]


def test_other_methods_and_paths_are_refused_in_plain_text(webhook: Webhook) -> None:
    wrong = webhook.client.get("/webhook")
    assert (wrong.status_code, wrong.text) == (405, "Method Not Allowed\n")
    assert webhook.client.get("/nowhere").status_code == 404


def test_probes_answer(webhook: Webhook) -> None:
    assert webhook.client.get("/healthz").text == "ok\n"
    assert webhook.client.get("/readyz").status_code == 200


def test_stranger_s_authority_is_not_trusted(webhook: Webhook, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with client_of(issue_certificate(elsewhere), webhook.server.url) as stranger, pytest.raises(httpx.ConnectError):
        stranger.get("/healthz")


def test_renewed_certificate_is_taken_up_and_open_connections_live_on(webhook: Webhook) -> None:
    assert webhook.client.get("/healthz").status_code == 200
    assert webhook.server.certificates is not None
    renewed = issue_certificate(webhook.directory)
    assert webhook.server.certificates.reload()
    with client_of(renewed, webhook.server.url) as newcomer:
        assert newcomer.get("/healthz").status_code == 200
    assert webhook.client.get("/healthz").status_code == 200
    assert not webhook.server.certificates.reload()


def test_half_renewed_certificate_leaves_the_old_one_in_use(webhook: Webhook, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    webhook.issued.certificate.write_bytes(issue_certificate(elsewhere).certificate.read_bytes())
    assert webhook.server.certificates is not None
    assert not webhook.server.certificates.reload()
    with client_of(webhook.issued, webhook.server.url) as newcomer:
        assert newcomer.get("/healthz").status_code == 200
    webhook.issued.key.unlink()
    assert not webhook.server.certificates.reload()


def test_files_are_looked_at_again_and_again(tmp_path: Path) -> None:
    issued, loaded = issue_certificate(tmp_path), threading.Event()

    class Context(ssl.SSLContext):
        def load_cert_chain(self, *_: Any, **__: Any) -> None:
            loaded.set()

    reloader = CertificateReloader(Context(ssl.PROTOCOL_TLS_SERVER), issued.certificate, issued.key, check_seconds=0.01)
    reloader.start()
    issue_certificate(tmp_path)
    assert loaded.wait(60)
    reloader.stop()


def test_api_server_admits_through_the_webhook(webhook: Webhook) -> None:
    rules = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]
    bundle = base64.b64encode(webhook.issued.authority_pem).decode()
    hook = {
        "name": "pods.hami.io",
        "clientConfig": {"url": f"{webhook.server.url}/webhook", "caBundle": bundle},
        "rules": rules,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    with ApiServer() as api, httpx.Client(base_url=api.url, timeout=60) as client:
        assert client.post(path, json={"metadata": {"name": "hami"}, "webhooks": [hook]}).status_code == 201

        def create(raw: dict[str, Any]) -> httpx.Response:
            raw["metadata"] = {
                "name": raw["metadata"]["name"],
                **{k: raw["metadata"][k] for k in ("annotations",) if k in raw["metadata"]},
            }
            return client.post("/api/v1/namespaces/default/pods", json=raw)

        created = create(pod(container("web"), container("train", memory=4000))).json()
        resources = created["spec"]["containers"][1]["resources"]
        assert created["spec"]["schedulerName"] == "hami-scheduler"
        assert resources["limits"] == resources["requests"] == {COUNT: "1", MEMORY: "4k"}
        assert created["spec"]["containers"][0]["env"] == [{"name": "ACME_VISIBLE", "value": "none"}]
        forged = create(pod(container(), annotations={"hami.io/vgpu-node": "n2"}))
        assert forged.status_code == 403
        assert "hami.io/vgpu-node" in forged.json()["message"]
        refused = create(pod(container(count=1, memory="12Gi")))
        assert "write 12288" in refused.json()["message"]


def test_pod_of_a_cluster_is_judged_as_its_author_wrote_it(
    tmp_path: Path, configured: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAMI_MOCK_DEVICES", configured["HAMI_MOCK_DEVICES"])
    with ApiServer() as api, httpx.Client(base_url=api.url, timeout=60) as client:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
        bound = pod(container(count=1), annotations={"hami.io/vgpu-node": "n1", "notes": "x"}, nodeName="n1")
        bound["metadata"] = {"name": "train", "annotations": bound["metadata"]["annotations"]}
        client.post("/api/v1/namespaces", json={"metadata": {"name": "ml"}}).raise_for_status()
        client.post("/api/v1/namespaces/ml/pods", json=bound).raise_for_status()
        result = CliRunner().invoke(main, ["admit", "ml/train", "--kubeconfig", str(kubeconfig), "-o", "json"])
        missing = CliRunner().invoke(main, ["admit", "ml/other", "--kubeconfig", str(kubeconfig), "-o", "json"])
    answer = json.loads(result.stdout)
    assert (answer["allowed"], answer["message"]) == (True, "")
    assert answer["pod"]["metadata"]["annotations"] == {"notes": "x"}
    assert answer["pod"]["spec"]["schedulerName"] == "hami-scheduler"
    assert (missing.exit_code, json.loads(missing.stdout)["error"]["expected"]) == (2, "a pod that exists")


@pytest.fixture
def configured(tmp_path: Path) -> dict[str, str]:
    """Environment of a process in which the mock backend owns the family Acme."""
    world = tmp_path / "world.yaml"
    resources = {"count": COUNT, "memory": MEMORY}
    world.write_text(yaml.safe_dump({"families": [{"name": FAMILY, "resources": resources}]}))
    return {**os.environ, "HAMI_MOCK_DEVICES": str(world)}


def start(environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hami_core_py", "webhook", "--listen", "127.0.0.1:0", *arguments],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def url_of(process: subprocess.Popen[str]) -> str:
    """Where the process listens, from the line of its log that says so."""
    assert process.stderr is not None
    for line in process.stderr:
        fields = json.loads(line)
        if fields["message"] == "listening":
            return str(fields["url"])
    raise AssertionError("the process ended without listening")


def test_webhook_without_one_of_its_backends_is_unready_and_says_why(tmp_path: Path) -> None:
    running = Webhook(tmp_path, ask_of(acme(), make_plugin("other", api=99)))
    try:
        answer = running.client.get("/readyz")
        assert answer.status_code == 503
        assert answer.text.startswith("backend 'other' did not load: ")
        assert running.client.get("/healthz").status_code == 200
        assert not running.post(review(pod(container(other=1))))["allowed"]
    finally:
        running.client.close()
        running.server.stop()


def test_process_serves_tls_and_ends_cleanly_on_sigterm(tmp_path: Path, configured: dict[str, str]) -> None:
    issued = issue_certificate(tmp_path)
    files = ("--tls-cert", str(issued.certificate), "--tls-key", str(issued.key))
    process = start(configured, *files, "--scheduler-name", "acme-sched", "--no-force-overwrite-default-scheduler")
    try:
        with client_of(issued, url_of(process)) as client:
            assert client.get("/readyz").status_code == 200
            headers = {"content-type": "application/json"}
            for scheduler, is_patched in (("acme-sched", False), ("", True), ("default-scheduler", False)):
                body = review(pod(container(count=1, memory=1), schedulerName=scheduler))
                response = client.post("/webhook", content=body, headers=headers).json()["response"]
                assert response["allowed"]
                assert ("patch" in response) is is_patched
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "give both --tls-cert and --tls-key, or --plain-http alone"),
        (("--plain-http", "--listen", "nowhere"), "expected ADDRESS:PORT, got 'nowhere'"),
        (("--plain-http", "--listen", "192.0.2.1:1"), "cannot listen on 192.0.2.1:1"),
    ],
)
def test_process_that_cannot_serve_says_why(
    configured: dict[str, str], arguments: tuple[str, ...], sentence: str
) -> None:
    process = start(configured, *arguments)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert sentence in errors
