"""A real admission webhook: HTTPS on loopback with a certificate made on the spot."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Respond = Callable[[dict[str, Any]], dict[str, Any]]


class Webhook:
    """Where a webhook listens, what to trust it by, and what it was asked."""

    def __init__(self, url: str, ca_bundle: str) -> None:
        self.url = url
        self.ca_bundle = ca_bundle
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []


@contextmanager
def serve_webhook(directory: Path, respond: Respond) -> Iterator[Webhook]:
    """Serve `respond` (request in, response without uid out) until the block ends."""
    certificate, key = _certificate(directory)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            webhook.asked.append(review["request"])
            webhook.paths.append(self.path)
            response = {"uid": review["request"]["uid"], **respond(review["request"])}
            body = json.dumps({**review, "request": None, "response": response}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    bundle = base64.b64encode(certificate.read_bytes()).decode()
    webhook = Webhook(f"https://127.0.0.1:{httpd.server_address[1]}/admit", bundle)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield webhook
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def _certificate(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    directory.mkdir(parents=True, exist_ok=True)
    certificate_file, key_file = directory / "tls.crt", directory / "tls.key"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key_file.write_bytes(key.private_bytes(*form))
    return certificate_file, key_file
