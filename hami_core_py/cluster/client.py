"""Calls to the Kubernetes API: paths and decoded JSON, kept connections, bounded time, errors in our own words.

The official client's configuration, credentials and TLS are used; its models are not, because decoding an object into
them costs some forty times of what ``orjson`` takes.
"""

import contextlib
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

import orjson
from urllib3 import BaseHTTPResponse, Timeout
from urllib3.exceptions import ConnectTimeoutError, HTTPError, MaxRetryError, NewConnectionError, SSLError

from hami_core_py.cluster.connection import Connection
from hami_core_py.cluster.errors import Unreachable, error_of

Params = Mapping[str, str | int | bool]
JsonObject = dict[str, Any]
Page = tuple[list[JsonObject], str]
"""Some objects of a list, and the resource version of the whole list."""

PAGE = 500
"""Objects per page of a list: small enough that decoding one page never holds up other threads for long."""

_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
# No connection was made: nothing can have happened on the server.
_NOT_SENT = (NewConnectionError, ConnectTimeoutError, SSLError)


def join_path(*parts: str) -> str:
    """An API path from its parts; names are quoted, so that none can reach beyond its place."""
    return "/" + "/".join(quote(part, safe="") for part in parts)


class Client:
    """One connection to one API server; all methods may be called from several threads.

    Every call raises a child of ``ApiError``; ``Unreachable`` and ``ServerFailed`` tell by ``outcome_unknown`` whether the
    change may have happened.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = 3.0, agent: str = "hami") -> None:
        self.url = connection.url
        self.timeout_seconds = timeout_seconds
        self._connection = connection
        self._agent = agent

    @classmethod
    def from_kubeconfig(
        cls,
        path: Path | str | None,
        *,
        timeout_seconds: float = 3.0,
        agent: str = "hami",
        call_connections: int = 64,
    ) -> "Client":
        """A client of the cluster that a kubeconfig names; ``None``: the one this process runs in.

        :param agent: name of the process, shown in the API server's audit log.
        :raises BadInputError: the file cannot be used.
        """
        connection = Connection.from_kubeconfig(path, call_connections=call_connections)
        return cls(connection, timeout_seconds=timeout_seconds, agent=agent)

    def get(self, path: str, params: Params | None = None) -> JsonObject:
        """One object."""
        return self._call("GET", path, params)

    def list(self, path: str, params: Params | None = None) -> Page:
        """All objects, and the resource version of the list. Read page by page."""
        pages = [*self.pages(path, params)]
        return [item for items, _ in pages for item in items], pages[-1][1]

    def pages(self, path: str, params: Params | None = None, *, size: int = PAGE) -> Iterator[Page]:
        """All objects, one page at a time, each with the resource version of the list.

        :raises Expired: the list grew too old while it was read; begin anew.
        """
        position: Params = {}
        while True:
            answer = self._call("GET", path, {**(params or {}), "limit": size, **position})
            metadata = answer.get("metadata") or {}
            yield answer.get("items") or [], metadata.get("resourceVersion") or ""
            if not (following := metadata.get("continue")):
                return
            position = {"continue": following}

    def create(self, path: str, body: Any, params: Params | None = None) -> JsonObject:
        """Post an object; the answer is the stored object, or a ``Status`` for sub-resources such as ``binding``."""
        return self._call("POST", path, params, orjson.dumps(body), "application/json")

    def replace(self, path: str, body: Any, params: Params | None = None) -> JsonObject:
        """Put an object; with a ``resourceVersion`` in it only if it has not changed since."""
        return self._call("PUT", path, params, orjson.dumps(body), "application/json")

    def patch(
        self,
        path: str,
        body: Any,
        kind: Literal["merge", "json", "strategic"] = "merge",
        params: Params | None = None,
    ) -> JsonObject:
        """Change parts of an object. ``metadata.resourceVersion`` in a merge patch is a precondition."""
        return self._call("PATCH", path, params, orjson.dumps(body), _PATCHES[kind])

    def delete(self, path: str, body: Any = None, params: Params | None = None) -> JsonObject:
        """Delete an object. :param body: ``DeleteOptions`` with preconditions."""
        return self._call("DELETE", path, params, None if body is None else orjson.dumps(body), "application/json")

    def watch(
        self, path: str, resource_version: str, params: Params | None = None, *, silence_seconds: float = 90.0
    ) -> "WatchStream":
        """Follow changes after a resource version. See ``WatchStream``.

        :param silence_seconds: a connection that says nothing for so long, bookmarks included, is given up.
        """
        asked = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version, **(params or {})}
        response = self._open("GET", path, asked, timeout=Timeout(connect=self.timeout_seconds, read=silence_seconds))
        return WatchStream(response, f"WATCH {path}")

    def text(self, path: str, params: Params | None = None) -> str:
        """The answer's body as text, for paths that do not speak JSON."""
        response = self._open("GET", path, params, timeout=Timeout(total=self.timeout_seconds), preload=True)
        return response.data.decode("utf-8", "replace")

    def close(self) -> None:
        """Close idle connections."""
        self._connection.close()

    def _call(
        self, method: str, path: str, params: Params | None, body: bytes | None = None, content: str = ""
    ) -> JsonObject:
        timeout = Timeout(connect=self.timeout_seconds, read=self.timeout_seconds)
        response = self._open(method, path, params, body, content, timeout=timeout, preload=True)
        try:
            answer: JsonObject = orjson.loads(response.data)
        except orjson.JSONDecodeError as problem:
            raise Unreachable("the answer is not JSON; is this an API server?", call=f"{method} {path}") from problem
        return answer

    def _open(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: bytes | None = None,
        content: str = "",
        *,
        timeout: Timeout,
        preload: bool = False,
    ) -> BaseHTTPResponse:
        call = f"{method} {path}"
        headers = {"accept": "application/json", "user-agent": self._agent, **self._connection.headers()}
        if content:
            headers["content-type"] = content
        pool = self._connection.calls if preload else self._connection.watches
        url = f"{path}?{_query(params)}" if params else path
        try:
            response: BaseHTTPResponse = pool.urlopen(
                method,
                url,
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                timeout=timeout,
                preload_content=preload,
                decode_content=False,
            )
            if response.status >= 300:
                error = error_of(
                    response.status, response.data, call=call, retry_after=response.headers.get("retry-after")
                )
                response.release_conn()
                raise error
        except (HTTPError, OSError) as problem:
            cause = problem.reason if isinstance(problem, MaxRetryError) else problem
            sent = not isinstance(cause, _NOT_SENT)
            raise Unreachable(f"no answer from {self.url}: {cause}", call=call, sent=sent) from problem
        return response


class WatchStream:
    """Events of one watch, in order: pairs of type (``ADDED``, ``MODIFIED``, ``DELETED``, ``BOOKMARK``) and object.

    Iteration ends when the server ends the watch or ``close`` is called. :raises Expired: the server no longer knows the
    resource version. :raises Unreachable: the connection broke.
    """

    def __init__(self, response: BaseHTTPResponse, call: str) -> None:
        self._response = response
        self._call = call
        self._closed = False
        # Taken now: the response forgets its connection once it has ended.
        connection = response.connection
        self._socket: socket.socket | None = getattr(connection, "sock", None)

    def __iter__(self) -> Iterator[tuple[str, JsonObject]]:
        rest = b""
        try:
            for chunk in self._response.stream(None, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                for line in lines:
                    if line:
                        yield self._decode(line)
        except (HTTPError, OSError, ValueError, AttributeError) as problem:
            if not self._closed:
                raise Unreachable(f"the watch broke: {problem}", call=self._call) from problem
        finally:
            self._response.close()

    def close(self) -> None:
        """End the watch now; may be called from another thread, whose iteration then ends."""
        self._closed = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _decode(self, line: bytes) -> tuple[str, JsonObject]:
        event = orjson.loads(line)
        kind, found = event["type"], event["object"]
        if kind == "ERROR":
            raise error_of(int(found.get("code") or 500), orjson.dumps(found), call=self._call)
        return kind, found


def _query(params: Params) -> str:
    return urlencode({k: ("true" if v else "false") if isinstance(v, bool) else v for k, v in params.items()})
