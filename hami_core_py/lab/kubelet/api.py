"""A small client of the Kubernetes API: plain JSON over kept connections."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import urllib3

Json = dict[str, Any]
"""A Kubernetes object as it travels."""

STRATEGIC_MERGE = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API server said no; ``status`` is the HTTP status, 0 when it gave no answer at all."""

    def __init__(self, request: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{request}: {status or 'no answer'} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


class Api:
    """Requests to one API server; may be used from several threads."""

    def __init__(self, url: str, user_agent: str, timeout_seconds: float = 5.0) -> None:
        self._url = url.rstrip("/")
        self._timeout = timeout_seconds
        self._headers = {"Accept": "application/json", "User-Agent": user_agent}
        self._pool = urllib3.PoolManager(maxsize=16, retries=False)
        self._watches: set[urllib3.BaseHTTPResponse] = set()
        self._lock = threading.Lock()
        self._closed = False

    def get(self, path: str, **query: str) -> Json:
        """Read an object or a list."""
        return self._call("GET", path, query=query)

    def create(self, path: str, body: Json) -> Json:
        """Create an object."""
        return self._call("POST", path, body)

    def replace(self, path: str, body: Json) -> Json:
        """Replace an object; with a resourceVersion only if nobody else changed it."""
        return self._call("PUT", path, body)

    def patch(self, path: str, body: Json, kind: str = STRATEGIC_MERGE) -> Json:
        """Change parts of an object."""
        return self._call("PATCH", path, body, kind=kind)

    def delete(self, path: str, body: Json | None = None) -> Json:
        """Delete an object; ``body`` are DeleteOptions."""
        return self._call("DELETE", path, body)

    def watch(self, path: str, seconds: int, **query: str) -> Iterator[Json]:
        """Events of a list until the server ends the watch, after about ``seconds``, or ``close`` is called.

        :raises ApiError: the watch was refused, broke, or sent an error event (410: list again).
        """
        query |= {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        timeout = urllib3.Timeout(connect=self._timeout, read=seconds + 2 * self._timeout)
        request = f"WATCH {path}"
        try:
            response = self._pool.request(
                "GET",
                self._url + path,
                fields=query,
                headers=self._headers,
                timeout=timeout,
                preload_content=False,
            )
            try:
                if response.status != 200:
                    raise _refusal(request, response.status, response.read())
                with self._lock:
                    if self._closed:
                        return
                    self._watches.add(response)
                for line in response:
                    event = orjson.loads(line)
                    if event.get("type") == "ERROR":
                        raise _refusal(request, event["object"].get("code", 500), orjson.dumps(event["object"]))
                    yield event
            finally:
                with self._lock:
                    self._watches.discard(response)
                response.close()
        except (urllib3.exceptions.HTTPError, orjson.JSONDecodeError, OSError) as error:
            if self._closed:
                return
            raise ApiError(request, 0, "Unreachable", str(error)) from error

    def close(self) -> None:
        """End the watches that are open, so that whoever reads them goes on."""
        with self._lock:
            self._closed = True
            open_watches = list(self._watches)
        for response in open_watches:
            with contextlib.suppress(Exception):  # the reader may have closed it at this moment
                response.shutdown()
        self._pool.clear()

    def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> Json:
        try:
            response = self._pool.request(
                method,
                self._url + path,
                fields=dict(query) if query else None,
                body=None if body is None else orjson.dumps(body),
                headers=self._headers | ({} if body is None else {"Content-Type": kind}),
                timeout=self._timeout,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(f"{method} {path}", 0, "Unreachable", str(error)) from error
        if response.status >= 300:
            raise _refusal(f"{method} {path}", response.status, response.data)
        try:
            answer: Json = orjson.loads(response.data)
        except orjson.JSONDecodeError as error:
            raise ApiError(f"{method} {path}", 0, "BadAnswer", str(error)) from error
        return answer


def _refusal(request: str, status: int, body: bytes) -> ApiError:
    """The error that a Status object, or any other body, stands for."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        return ApiError(request, status, "Unknown", body[:200].decode(errors="replace"))
    return ApiError(request, status, str(answer.get("reason", "Unknown")), str(answer.get("message", "")))
