"""The kubelet's own HTTP port: container logs, for the API server to fetch, and its health."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from hami_core_py.lab.kubelet.api import Json

BLOCK = 1 << 16
POLL_SECONDS = 0.1

log = logging.getLogger(__name__)

FindLog = Callable[[str, str, str, bool], Path | None]
"""(namespace, pod, container, previous) to a log file; None when the kubelet knows no such container."""


class LogServer:
    """Serves ``/containerLogs/<namespace>/<pod>/<container>`` as a real kubelet does, in plain HTTP on loopback."""

    def __init__(
        self, find: FindLog, is_running: Callable[[str, str, str], bool], list_pods: Callable[[], list[Json]]
    ) -> None:
        self.is_stopping = False
        self.find, self.is_running, self.list_pods = find, is_running, list_pods
        outer = self

        class Handler(_Handler):
            server_state = outer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.2,), name="kubelet http", daemon=True
        )

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving; readers that follow a log are sent off."""
        self.is_stopping = True
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_state: LogServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parts = [unquote(part) for part in url.path.strip("/").split("/")]
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if parts == ["healthz"]:
                self._answer(200, "text/plain", b"ok")
            elif parts == ["pods"]:
                document = {
                    "apiVersion": "v1",
                    "kind": "PodList",
                    "metadata": {},
                    "items": self.server_state.list_pods(),
                }
                self._answer(200, "application/json", json.dumps(document).encode())
            elif parts[0] == "containerLogs" and len(parts) == 4:
                self._logs(parts[1], parts[2], parts[3], query)
            else:
                self._answer(404, "text/plain", b"404 page not found\n")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        log.debug("request", extra={"request": format % args})

    def _logs(self, namespace: str, pod: str, container: str, query: dict[str, str]) -> None:
        is_previous = query.get("previous") in {"true", "1"}
        path = self.server_state.find(namespace, pod, container, is_previous)
        if path is None:
            text = f'container "{container}" in pod "{pod}" is not available\n'
            if is_previous:
                text = f'previous terminated container "{container}" in pod "{pod}" not found\n'
            self._answer(400 if is_previous else 404, "text/plain", text.encode())
            return
        try:
            tail = int(query["tailLines"]) if "tailLines" in query else None
            limit = int(query["limitBytes"]) if "limitBytes" in query else None
        except ValueError:
            self._answer(400, "text/plain", b"tailLines and limitBytes: expected whole numbers\n")
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        is_followed = query.get("follow") in {"true", "1"} and not is_previous
        left = limit
        with path.open("rb") as file:
            file.seek(offset_of_last_lines(path, tail))
            while left is None or left > 0:
                was_running = is_followed and self.server_state.is_running(namespace, pod, container)
                data = file.read(BLOCK if left is None else min(BLOCK, left))
                if data:
                    self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                    left = None if left is None else left - len(data)
                elif not was_running or self.server_state.is_stopping:
                    break
                else:
                    self.wfile.flush()
                    time.sleep(POLL_SECONDS)
        self.wfile.write(b"0\r\n\r\n")

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def offset_of_last_lines(path: Path, count: int | None) -> int:
    """Where the last ``count`` lines of a file begin; 0 for all of it."""
    if count is None:
        return 0
    data = path.read_bytes()
    position = len(data) - 1 if data.endswith(b"\n") else len(data)
    if count <= 0:
        return len(data)
    for _ in range(count):
        position = data.rfind(b"\n", 0, max(position, 0))
        if position < 0:
            return 0
    return position + 1
