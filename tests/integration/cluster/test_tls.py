"""Credentials and TLS of a kubeconfig, against a server that demands a client certificate."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import Unreachable
from hami_core_py.cluster.watch import Watcher
from tests.integration.scheduler.certificates import Authority


class Api(BaseHTTPRequestHandler):
    """Answers every path with who asked; a watch never says anything."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if "watch=true" in self.path:
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            self.server.ended.wait(30)  # type: ignore[attr-defined]
            return
        subject = dict(pair[0] for pair in self.connection.getpeercert()["subject"])  # type: ignore[attr-defined]
        answer = {"subject": subject["commonName"], "token": self.headers.get("authorization")}
        body = json.dumps({"items": [], "metadata": {"resourceVersion": "1"}, **answer}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        """Keep quiet."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def url(authority: Authority) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("apiserver"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    server.ended = threading.Event()  # type: ignore[attr-defined]
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.ended.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


def client_of(folder: Path, url: str, authority: Authority, *, token: str = "") -> Client:
    """A client whose kubeconfig carries everything as data."""
    certificate, key = authority.issue("scheduler")
    user: dict[str, str] = {"client-certificate-data": _data(certificate), "client-key-data": _data(key)}
    if token:
        user["token"] = token
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": _data(authority.file)}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return Client.from_kubeconfig(path, timeout_seconds=5.0)


def test_client_shows_its_certificate_and_token(tmp_path: Path, url: str, authority: Authority) -> None:
    client = client_of(tmp_path, url, authority, token="secret")

    answer = client.get("/api/v1/nodes")

    assert (answer["subject"], answer["token"]) == ("scheduler", "Bearer secret")
    client.close()


def test_server_of_another_authority_is_not_talked_to(tmp_path: Path, url: str) -> None:
    (tmp_path / "other").mkdir()
    client = client_of(tmp_path, url, Authority(tmp_path / "other"))

    with pytest.raises(Unreachable) as caught:
        client.create("/api/v1/nodes", {})

    assert not caught.value.outcome_unknown, "nothing was sent"
    client.close()


def test_quiet_watch_over_tls_stops_at_once(tmp_path: Path, url: str, authority: Authority) -> None:
    client = client_of(tmp_path, url, authority)
    watcher = Watcher(client, "/api/v1/nodes", on_event=lambda _k, _o: None, on_sync=lambda _items: None).start()
    assert watcher.synced.wait(60)

    watcher.stop(timeout_seconds=5)

    assert not watcher._thread.is_alive()
    client.close()


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
