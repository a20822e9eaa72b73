"""What each verb does: from a request to the store, and from the store to an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hami_core_py.lab.apiserver import answers, reviews
from hami_core_py.lab.apiserver.admission import WebhookAdmission
from hami_core_py.lab.apiserver.calls import Call, Caller
from hami_core_py.lab.apiserver.deletion import Preconditions
from hami_core_py.lab.apiserver.logs import LogFile, container_of, log_path, read_log
from hami_core_py.lab.apiserver.requests import Query, Route, decode, decode_object, read_body
from hami_core_py.lab.apiserver.status import Object, bad_request, method_not_allowed, success
from hami_core_py.lab.apiserver.store import Store
from hami_core_py.lab.apiserver.watching import WatchStream

_BLOCKING_CALLS = 32
_DEFAULT_WATCH_S = 1800
_ANSWERS_WITH_OBJECT = ("Pod", "Namespace", "Service", "PersistentVolumeClaim", "ServiceAccount")
T = TypeVar("T")


class Handlers:
    """Carries out requests; keeps the open watches. Lives on one event loop."""

    def __init__(
        self, store: Store, admission: WebhookAdmission | None, logs: LogFile | None, bookmark_s: float
    ) -> None:
        self.ending = asyncio.Event()  # set: streams end as soon as they can
        self.streams: set[WatchStream] = set()
        self.store = store
        self._admission = admission
        self._logs = logs
        self._bookmark_s = bookmark_s
        self._pool = ThreadPoolExecutor(_BLOCKING_CALLS, "apiserver")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._admission is not None:
            self._admission.close()

    async def carry_out(self, request: Request, call: Call, where: Route, query: Query, caller: Caller) -> Response:
        match call.verb:
            case "get":
                return await self._get(request, where, query, caller)
            case "list":
                return await self._list(request, where, query, caller)
            case "watch":
                return await self._watch(request, where, query, caller)
            case "create":
                return await self._create(request, where, query, caller)
            case "update" | "patch":
                return await self._change(request, where, query, caller)
            case "delete":
                return await self._delete(request, where, query, caller)
        return await self._delete_collection(request, where, query, caller)

    async def _get(self, request: Request, where: Route, query: Query, caller: Caller) -> Response:
        if where.subresource == "log":
            return await self._log(where, query, caller)
        resource, below = where.resource, where.subresource

        def read() -> Object:
            return self.store.get(resource, where.name, where.namespace, subresource=below, shared=True, caller=caller)

        return self._shown(request, where, query, caller, await self._run(where, read, writes=False))

    async def _list(self, request: Request, where: Route, query: Query, caller: Caller) -> Response:
        page = await self._run(
            where,
            lambda: self.store.list(
                where.resource,
                where.namespace,
                labels=query.text("labelSelector"),
                fields=query.text("fieldSelector"),
                limit=query.number("limit") or 0,
                continue_token=query.text("continue"),
                resource_version=query.text("resourceVersion"),
                exact=query.text("resourceVersionMatch") == "Exact",
                shared=True,
                caller=caller,
            ),
            writes=False,
        )
        form = answers.form_of(request.headers.get("accept", ""))
        return answers.list_answer(where.resource, page, form, self.store.clock(), _include(query))

    async def _watch(self, request: Request, where: Route, query: Query, caller: Caller) -> Response:
        stream = WatchStream(asyncio.get_running_loop())
        wants_initial = query.text("sendInitialEvents")
        bookmarks = query.flag("allowWatchBookmarks")
        if wants_initial and query.text("resourceVersionMatch") != "NotOlderThan":
            raise bad_request("sendInitialEvents: expected resourceVersionMatch=NotOlderThan beside it")
        initial = query.flag("sendInitialEvents") if wants_initial else None
        watch = await self._run(
            where,
            lambda: self.store.watch(
                where.resource,
                where.namespace,
                labels=query.text("labelSelector"),
                fields=query.text("fieldSelector"),
                resource_version=query.text("resourceVersion"),
                initial=initial,
                wake=stream.wake,
                caller=caller,
            ),
            writes=False,
        )
        form = answers.form_of(request.headers.get("accept", ""))
        encode = answers.event_encoder(where.resource, form, self.store.clock, _include(query))
        lines = stream.lines(
            watch,
            encode,
            timeout_s=query.number("timeoutSeconds") or _DEFAULT_WATCH_S,
            bookmark_s=self._bookmark_s if bookmarks else None,
            tells_initial_end=bool(initial) and bookmarks,
        )
        self.streams.add(stream)
        if self.ending.is_set():
            stream.end()

        async def body() -> AsyncIterator[bytes]:
            try:
                async with aclosing(lines):
                    async for line in lines:
                        yield line
            finally:
                self.streams.discard(stream)

        return StreamingResponse(body(), media_type=answers.JSON)

    async def _create(self, request: Request, where: Route, query: Query, caller: Caller) -> Response:
        obj = decode_object(await read_body(request), request.headers.get("content-type", ""))
        if not where.resource.is_stored and where.resource.kind != "Binding":
            return answers.json_answer(reviews.answer(where.resource, obj, caller), code=201)
        if where.resource.kind == "Binding" or where.subresource:
            name = where.name or str((obj.get("metadata") or {}).get("name") or "")
            act = self.store.evict if where.subresource == "eviction" else self.store.bind
            await self._run(where, lambda: act(where.namespace, name, obj, caller=caller), writes=True)
            return answers.json_answer(success(201), code=201, caller=caller)
        if where.resource.namespaced and not where.namespace:
            raise method_not_allowed()
        created = await self._run(
            where, lambda: self.store.create(where.resource, obj, where.namespace, caller=caller), writes=True
        )
        return self._shown(request, where, query, caller, created, code=201)

    async def _change(self, request: Request, where: Route, query: Query, caller: Caller) -> Response:
        content_type = request.headers.get("content-type", "")
        decoded = decode(await read_body(request), content_type)
        if request.method == "PUT":
            changed = await self._run(where, lambda: self._update(where, decoded, caller), writes=True)
        else:
            kind = content_type.partition(";")[0].strip()
            changed = await self._run(
                where,
                lambda: self.store.patch(
                    where.resource,
                    where.name,
                    decoded,
                    kind,
                    where.namespace,
                    subresource=where.subresource,
                    caller=caller,
                ),
                writes=True,
            )
        return self._shown(request, where, query, caller, changed)

    def _update(self, where: Route, obj: Any, caller: Caller) -> Object:
        if not isinstance(obj, dict):
            raise bad_request(f"the body: expected an object, got {type(obj).__name__}")
        name = (obj.get("metadata") or {}).get("name")
        if name != where.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({where.name})")
        return self.store.update(where.resource, obj, where.namespace, subresource=where.subresource, caller=caller)

    async def _delete(self, request: Request, where: Route, query: Query, caller: Caller) -> Response:
        options = decode_object(await read_body(request), request.headers.get("content-type", ""))
        last, gone = await self._run(where, lambda: self._delete_one(where, options, query, caller), writes=True)
        if gone and last["kind"] not in _ANSWERS_WITH_OBJECT:
            about = {"name": where.name, "group": where.resource.group, "kind": where.resource.plural}
            about["uid"] = last["metadata"]["uid"]
            body = success(details={key: value for key, value in about.items() if value})
            return answers.json_answer(body, caller=caller)
        return self._shown(request, where, query, caller, last)

    def _delete_one(self, where: Route, options: Object, query: Query, caller: Caller) -> tuple[Object, bool]:
        wanted = options.get("preconditions") or {}
        grace = options.get("gracePeriodSeconds")
        propagation = options.get("propagationPolicy") or query.text("propagationPolicy")
        return self.store.delete(
            where.resource,
            where.name,
            where.namespace,
            grace_seconds=grace if grace is not None else query.number("gracePeriodSeconds"),
            preconditions=Preconditions(wanted.get("uid") or "", wanted.get("resourceVersion") or ""),
            orphan=propagation == "Orphan" or bool(options.get("orphanDependents")) or query.flag("orphanDependents"),
            caller=caller,
        )

    async def _delete_collection(self, request: Request, where: Route, query: Query, caller: Caller) -> Response:
        options = decode_object(await read_body(request), request.headers.get("content-type", ""))

        def delete_all() -> Object:
            labels, fields = query.text("labelSelector"), query.text("fieldSelector")
            page = self.store.list(where.resource, where.namespace, labels=labels, fields=fields, shared=True)
            deleted = []
            for one in page.items:
                metadata = one["metadata"]
                target = Route(where.resource, metadata.get("namespace", ""), metadata["name"])
                deleted.append(self._delete_one(target, options, query, caller)[0])
            kind = {"kind": f"{where.resource.kind}List", "apiVersion": where.resource.group_version}
            return {**kind, "metadata": {"resourceVersion": str(page.version)}, "items": deleted}

        return answers.json_answer(await self._run(where, delete_all, writes=True), caller=caller)

    async def _log(self, where: Route, query: Query, caller: Caller) -> Response:
        pod = self.store.get(where.resource, where.name, where.namespace, subresource="log", caller=caller)
        container = container_of(pod, query.text("container"))
        path = log_path(self._logs, pod, container, previous=query.flag("previous"))
        key = (where.namespace, where.name)

        def is_over() -> bool:
            now = self.store.objects.get(where.resource, key)
            phase = (now or {}).get("status", {}).get("phase")
            return self.ending.is_set() or now is None or phase in ("Succeeded", "Failed")

        text = read_log(
            path,
            tail_lines=query.number("tailLines"),
            limit_bytes=query.number("limitBytes"),
            is_over=is_over if query.flag("follow") else None,
        )
        return StreamingResponse(text, media_type="text/plain")

    def _shown(
        self, request: Request, where: Route, query: Query, caller: Caller, obj: Object, *, code: int = 200
    ) -> Response:
        form = answers.form_of(request.headers.get("accept", ""))
        now, include = self.store.clock(), _include(query)
        return answers.object_answer(where.resource, obj, form, now, include, code=code, caller=caller)

    async def _run(self, where: Route, action: Callable[[], T], *, writes: bool) -> T:
        """Run a store operation: at once when nothing in it can block, in a worker thread otherwise."""
        asks_webhooks = writes and self._admission is not None and self._admission.concerns(where.resource)
        if not asks_webhooks and self.store.before is None and self.store.after is None:
            return action()
        return await asyncio.get_running_loop().run_in_executor(self._pool, action)


def _include(query: Query) -> str:
    return query.text("includeObject") or "Metadata"
