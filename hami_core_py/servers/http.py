"""What all HTTP servers of our processes share: probes, metrics, TLS, and a clean end on SIGTERM."""

import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from hami_core_py.servers.certificates import CertificateReloader

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Listen:
    """Where a server listens. Port 0 takes a free one. Without certificate and key it speaks plain HTTP.

    :ivar client_ca: authority (PEM) of the clients' certificates, which are demanded when it is given.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    client_ca: Path | None = None

    @classmethod
    def parse(
        cls, text: str, *, certificate: Path | None = None, key: Path | None = None, client_ca: Path | None = None
    ) -> "Listen":
        """Read ``ADDRESS:PORT``, ``[v6]:PORT`` or ``:PORT``. :raises ValueError: it is none of these."""
        host, separator, port = text.rpartition(":")
        if not separator or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"expected ADDRESS:PORT, got {text!r}")
        address = host.strip("[]") or "0.0.0.0"  # noqa: S104
        return cls(host=address, port=int(port), certificate=certificate, key=key, client_ca=client_ca)


def operations(ready: Callable[[], str | None], registry: CollectorRegistry) -> APIRouter:
    """The routes ``/healthz``, ``/readyz`` and ``/metrics``.

    :param ready: answers ``None`` when ready, else one sentence that says what is missing.
    """
    router = APIRouter()

    @router.get("/healthz")
    def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @router.get("/readyz")
    def readyz() -> Response:
        missing = ready()
        return Response(f"{missing or 'ok'}\n", status_code=503 if missing else 200, media_type="text/plain")

    @router.get("/metrics")
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


class HttpServer:
    """One uvicorn server on a thread of its own; used by the processes and, unchanged, by tests."""

    def __init__(self, app: Any, listen: Listen, *, name: str = "http") -> None:
        config = uvicorn.Config(
            app,
            host=listen.host,
            port=listen.port,
            log_config=None,
            access_log=False,
            # Nobody stands between us and our clients whose word on their address we would take.
            proxy_headers=False,
            lifespan="off",
            http="httptools",
            loop="uvloop",
            timeout_graceful_shutdown=5,
            # Longer than Go's clients keep idle connections (90 s): who closes first must be the client, or a call that
            # is just being sent is lost.
            timeout_keep_alive=120,
            ssl_certfile=listen.certificate,
            ssl_keyfile=listen.key,
            ssl_ca_certs=None if listen.client_ca is None else str(listen.client_ca),
            ssl_cert_reqs=ssl.CERT_NONE if listen.client_ca is None else ssl.CERT_REQUIRED,
            ssl_version=ssl.PROTOCOL_TLS_SERVER,
        )
        self.scheme = "https" if listen.certificate else "http"
        self.certificates: CertificateReloader | None = None
        self._server = uvicorn.Server(config)
        self._listen = listen
        self._host = listen.host
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._failed: BaseException | None = None

    def start(self, timeout_seconds: float = 10.0) -> "HttpServer":
        """Start and wait until connections are accepted. :raises OSError: the address cannot be used."""
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(timeout_seconds / 0.01)):
            if self._server.started:
                self._follow_certificates()
                log.info("listening", extra={"url": self.url})
                return self
            if not self._thread.is_alive():
                break
            waited.wait(0.01)
        raise OSError(f"cannot listen on {self._host}:{self._server.config.port}: {self._failed or 'see the log'}")

    @property
    def url(self) -> str:
        """``scheme://host:port`` with the port really in use."""
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"{self.scheme}://{'127.0.0.1' if self._host in ('', '0.0.0.0') else self._host}:{port}"  # noqa: S104

    def stop(self) -> None:
        """Finish the requests in flight, then stop."""
        if self.certificates is not None:
            self.certificates.stop()
        self._server.should_exit = True
        self._thread.join(timeout=10)

    def _follow_certificates(self) -> None:
        context = self._server.config.ssl
        if context is not None and self._listen.certificate is not None:
            self.certificates = CertificateReloader(context, self._listen.certificate, self._listen.key)
            self.certificates.start()

    def _run(self) -> None:
        try:
            self._server.run()
        except (SystemExit, OSError) as problem:
            self._failed = problem
