"""Calls admission webhooks over TLS, trusting just the bundle that their configuration names."""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
from functools import lru_cache
from urllib.parse import urlsplit

import orjson

from hami_core_py.lab.apiserver.status import Object

_KEPT_CONNECTIONS = 4  # idle ones of each webhook
_ANSWER_LIMIT_BYTES = 8 * 2**20


class WebhookFailure(Exception):
    """A webhook that could not be asked, or whose answer means nothing."""


class WebhookClient:
    """Connections to webhooks, kept open between calls. Safe for threads; calls block."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, str], list[http.client.HTTPSConnection]] = {}

    def post(self, url: str, ca_bundle: str, body: Object, timeout_s: float) -> Object:
        """The JSON a webhook answers.

        :param ca_bundle: base64 of the PEM certificates to trust; empty for the system's.
        :raises WebhookFailure: when there is no answer in `timeout_s`, or none that is JSON and 200.
        """
        payload = orjson.dumps(body)
        kept = self._take(url, ca_bundle)
        connection = kept or _connection(url, ca_bundle)
        try:
            return self._exchange(connection, url, ca_bundle, payload, timeout_s)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if kept is not None and not isinstance(error, TimeoutError):
                # The webhook closed it while idle, as after its restart; sooner or later a fresh one is tried.
                return self.post(url, ca_bundle, body, timeout_s)
            why = "context deadline exceeded" if isinstance(error, TimeoutError) else str(error) or repr(error)
            raise WebhookFailure(f'failed to call webhook: Post "{url}?timeout={timeout_s:g}s": {why}') from error

    def close(self) -> None:
        with self._lock:
            for connections in self._idle.values():
                for connection in connections:
                    connection.close()
            self._idle.clear()

    def _exchange(
        self, connection: http.client.HTTPSConnection, url: str, ca_bundle: str, payload: bytes, timeout_s: float
    ) -> Object:
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        parts = urlsplit(url)
        query = f"{parts.query}&" if parts.query else ""
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        connection.request("POST", f"{parts.path or '/'}?{query}timeout={timeout_s:g}s", payload, headers)
        response = connection.getresponse()
        answer = response.read(_ANSWER_LIMIT_BYTES)
        if response.status != 200:
            connection.close()
            text = answer[:200].decode(errors="replace").strip()
            raise WebhookFailure(f"failed to call webhook: the server answered {response.status}: {text}")
        self._give_back(url, ca_bundle, connection)
        try:
            decoded = orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise WebhookFailure(f"failed to call webhook: the answer is no JSON: {error}") from error
        if not isinstance(decoded, dict):
            raise WebhookFailure("failed to call webhook: the answer is no JSON object")
        return decoded

    def _take(self, url: str, ca_bundle: str) -> http.client.HTTPSConnection | None:
        with self._lock:
            idle = self._idle.get((url, ca_bundle))
            return idle.pop() if idle else None

    def _give_back(self, url: str, ca_bundle: str, connection: http.client.HTTPSConnection) -> None:
        with self._lock:
            idle = self._idle.setdefault((url, ca_bundle), [])
            if len(idle) < _KEPT_CONNECTIONS:
                idle.append(connection)
                return
        connection.close()


def _connection(url: str, ca_bundle: str) -> http.client.HTTPSConnection:
    parts = urlsplit(url)
    try:
        context = _context(ca_bundle)
    except (ValueError, ssl.SSLError) as error:
        raise WebhookFailure(f"unable to load root certificates: clientConfig.caBundle: {error}") from error
    return http.client.HTTPSConnection(parts.hostname or "", parts.port or 443, context=context)


@lru_cache(maxsize=32)
def _context(ca_bundle: str) -> ssl.SSLContext:
    if not ca_bundle:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode("ascii"))
