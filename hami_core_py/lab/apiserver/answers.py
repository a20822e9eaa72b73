"""Answers in the form a client accepts: plain JSON, a table, or metadata alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import orjson
from starlette.responses import Response

from hami_core_py.lab.apiserver.calls import Caller
from hami_core_py.lab.apiserver.history import Event
from hami_core_py.lab.apiserver.pages import Page
from hami_core_py.lab.apiserver.resources import Resource
from hami_core_py.lab.apiserver.status import Object, StatusError
from hami_core_py.lab.apiserver.tables import partial, table

Form = Literal["plain", "table", "partial"]
JSON = "application/json"


def form_of(accept: str) -> Form:
    """The first form in an Accept header that is spoken here."""
    for wanted in accept.split(","):
        parts = [part.strip() for part in wanted.split(";")]
        if parts[0] not in (JSON, "application/*", "*/*"):
            continue
        if "as=Table" in parts:
            return "table"
        if "as=PartialObjectMetadata" in parts or "as=PartialObjectMetadataList" in parts:
            return "partial"
        return "plain"
    return "plain"


def json_answer(body: Any, *, code: int = 200, caller: Caller | None = None) -> Response:
    response = Response(orjson.dumps(body), code, media_type=JSON)
    for warning in caller.warnings if caller else ():
        told = warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        response.headers.append("Warning", f'299 - "{told}"'.encode("ascii", "replace").decode())
    return response


def error_answer(error: StatusError) -> Response:
    response = json_answer(error.body(), code=error.code)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    return response


def object_answer(
    resource: Resource,
    obj: Object,
    form: Form,
    now: float,
    include: str,
    *,
    code: int = 200,
    caller: Caller | None = None,
) -> Response:
    if form == "table":
        body = table(resource, [obj], now, include=include, metadata=_version(obj))
    else:
        body = partial(obj) if form == "partial" else obj
    return json_answer(body, code=code, caller=caller)


def list_answer(resource: Resource, page: Page, form: Form, now: float, include: str) -> Response:
    metadata: Object = {"resourceVersion": str(page.version)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
        if page.remaining is not None:
            metadata["remainingItemCount"] = page.remaining
    if form == "table":
        return json_answer(table(resource, page.items, now, include=include, metadata=metadata))
    if form == "partial":
        listed: Object = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
        return json_answer({**listed, "metadata": metadata, "items": [partial(one) for one in page.items]})
    kind = {"kind": f"{resource.kind}List", "apiVersion": resource.group_version}
    return json_answer({**kind, "metadata": metadata, "items": page.items})


def event_encoder(resource: Resource, form: Form, clock: Callable[[], float], include: str) -> Callable[[Event], bytes]:
    """How the events of a watch are written."""
    if form == "plain":
        return Event.line

    def encode(event: Event) -> bytes:
        if event.type == "ERROR":
            return event.line()
        if form == "table" and event.type != "BOOKMARK":
            shown = table(resource, [event.object], clock(), include=include, metadata=_version(event.object))
        elif form == "table":
            shown = table(resource, [], clock(), include=include, metadata=event.object["metadata"])
        else:
            shown = partial(event.object)
        return orjson.dumps({"type": event.type, "object": shown}) + b"\n"

    return encode


def _version(obj: Object) -> Object:
    return {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
