"""The Kubernetes API over HTTP: an ASGI application around a store."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from hami_core_py.lab.apiserver import answers, discovery
from hami_core_py.lab.apiserver.admission import WebhookAdmission
from hami_core_py.lab.apiserver.calls import Call, Caller
from hami_core_py.lab.apiserver.control import Control
from hami_core_py.lab.apiserver.faults import Fault, Faults
from hami_core_py.lab.apiserver.handlers import Handlers
from hami_core_py.lab.apiserver.logs import LogFile
from hami_core_py.lab.apiserver.requests import Query, Route, caller_of, read_body, route
from hami_core_py.lab.apiserver.resources import SUBRESOURCES
from hami_core_py.lab.apiserver.status import StatusError, bad_request, method_not_allowed
from hami_core_py.lab.apiserver.store import Store

_LOG = logging.getLogger(__name__)
TRANSPORT = "hami.transport"  # the scope's key for the connection, so that a fault can cut it
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_HEALTH = ("/healthz", "/livez", "/readyz")


class Api:
    """Answers requests, faults included. Lives on one event loop.

    Faults meet requests for objects; discovery, health and the lab's own paths always answer.
    """

    def __init__(
        self,
        store: Store,
        *,
        admission: WebhookAdmission | None = None,
        faults: Faults | None = None,
        logs: LogFile | None = None,
        bookmark_s: float = 30.0,
    ) -> None:
        """
        :param admission: the store's own, when it is one that calls webhooks, so that only what may block leaves the loop.
        :param bookmark_s: pause between bookmarks of a watch that asked for them.
        """
        self._faults = faults or Faults()
        self._handlers = Handlers(store, admission, logs, bookmark_s)
        self._control = Control(store, self._faults, self.end_watches)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except StatusError as error:
            response = answers.error_answer(error)
        except ClientDisconnect:
            return
        if response is None:
            await _cut(scope)
        else:
            await response(scope, receive, send)

    @property
    def open_watches(self) -> int:
        return len(self._handlers.streams)

    def end_watches(self, *, is_expired: bool = False) -> int:
        """Close every open watch, with a 410 when `is_expired`; answers how many there were. Any thread."""
        streams = list(self._handlers.streams)
        for stream in streams:
            stream.end(is_expired=is_expired)
        return len(streams)

    def end(self) -> None:
        """Close all watches for good: new ones end at once, so that the server can stop. On the event loop."""
        self._handlers.ending.set()
        self.end_watches()

    def close(self) -> None:
        self._handlers.close()

    async def _answer(self, request: Request) -> Response | None:
        """The response, or None when the connection is to be cut."""
        path: str = request.scope["path"]
        if path.startswith("/lab/"):
            return self._control.answer(request.method, path, await read_body(request))
        if (document := discovery.document(path, request.headers.get("host", ""))) is not None:
            return answers.json_answer(document)
        if path in _HEALTH:
            return PlainTextResponse("ok")
        where = route(path)
        query = Query.of(request.scope["query_string"])
        caller = caller_of(request.headers, query)
        call = self._call(request.method, where, query, caller)
        fault = self._faults.strike(call, "before")
        if fault is not None and await self._suffer(fault):
            return None
        try:
            response = await self._handlers.carry_out(request, call, where, query, caller)
        except StatusError as error:
            response = answers.error_answer(error)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # Objects have no schema here: one of a wrong shape is found where it is first used.
            _LOG.warning("an object of a wrong shape", exc_info=error, extra={"path": request.scope["path"]})
            told = f"{where.resource.kind}: the object has a value of a wrong type: {error}"
            response = answers.error_answer(bad_request(told))
        if call.verb == "watch":
            return response
        fault = self._faults.strike(call, "after")
        if fault is not None and await self._suffer(fault):
            return None
        return response

    def _call(self, method: str, where: Route, query: Query, caller: Caller) -> Call:
        verb = _VERBS.get(method, "")
        if verb == "get" and not where.name:
            verb = "watch" if query.flag("watch") else "list"
        elif verb == "delete" and not where.name:
            verb = "deletecollection"
        allowed = SUBRESOURCES[where.subresource].verbs if where.subresource else where.resource.verbs
        if verb not in allowed or (verb in ("update", "patch") and not where.name):
            raise method_not_allowed()
        return Call(verb, where.resource, where.namespace, where.name, where.subresource, caller.user)

    async def _suffer(self, fault: Fault) -> bool:
        """Let a fault do its harm; true when the connection is to be cut. :raises StatusError: its answer."""
        if fault.stall_s > 0:
            with suppress(TimeoutError):  # a server that stops does not wait for its faults
                await asyncio.wait_for(self._handlers.ending.wait(), fault.stall_s)
        if fault.drop:
            return True
        if (error := fault.error()) is not None:
            raise error
        return False


async def _cut(scope: Scope) -> None:
    transport = scope.get(TRANSPORT)
    if transport is not None:
        transport.abort()
    # The server learns of the lost connection in a later turn of the loop; before, it would answer 500 instead.
    for _ in range(3):
        await asyncio.sleep(0)
