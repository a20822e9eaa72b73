"""What a request asks for: its path, its query, its body and who sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote

import orjson
import yaml
from starlette.requests import Request

from hami_core_py.lab.apiserver import protobuf
from hami_core_py.lab.apiserver.calls import Caller
from hami_core_py.lab.apiserver.resources import Resource, at_path
from hami_core_py.lab.apiserver.status import Object, StatusError, bad_request, no_such_path, unsupported_media_type

BODY_LIMIT_BYTES = 3 * 2**20
_YAML_TYPES = ("application/yaml", "application/apply-patch+yaml")
_JSON_TYPES = (
    "application/json",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)
_SERVICE_ACCOUNT = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Route:
    """A path to objects: a collection when `name` is empty."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def route(path: str) -> Route:
    """Where `/api/v1/…` and `/apis/<group>/<version>/…` lead. :raises StatusError: 404."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    below_namespace = len(rest) > 2 and rest[0] == "namespaces" and at_path(group, version, rest[2]) is not None
    if below_namespace:
        namespace, rest = rest[1], rest[2:]
    resource = at_path(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path()
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if name and resource.namespaced and not namespace:
        raise no_such_path()
    return Route(resource, namespace, name, subresource)


@dataclass(frozen=True, slots=True)
class Query:
    """A request's query; every name once, the last one counts."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, raw: bytes) -> Query:
        return cls(dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True)))

    def text(self, name: str) -> str:
        return self.values.get(name, "")

    def flag(self, name: str) -> bool:
        return self.values.get(name, "").lower() in ("1", "true", "t")

    def number(self, name: str) -> int | None:
        """:raises StatusError: 400 when it is no number."""
        text = self.values.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError as error:
            raise bad_request(f"query parameter {name}: expected a whole number, got {text!r}") from error


async def read_body(request: Request) -> bytes:
    """:raises StatusError: 413 for a body over the limit."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_LIMIT_BYTES:
            message = f"the body: expected at most {BODY_LIMIT_BYTES} bytes, got more"
            raise StatusError(413, "RequestEntityTooLarge", message)
    return bytes(body)


def decode(body: bytes, content_type: str) -> Any:
    """A body as JSON values. :raises StatusError: 400 when it is malformed, 415 in a format not spoken here."""
    kind = content_type.partition(";")[0].strip()
    if kind in _YAML_TYPES:
        try:
            return yaml.safe_load(body)
        except yaml.YAMLError as error:
            raise bad_request(f"the body is no YAML: {error}") from error
    if kind == protobuf.CONTENT_TYPE:
        return protobuf.decode_protobuf(body)
    if kind and kind not in _JSON_TYPES:
        raise unsupported_media_type(kind, (*_JSON_TYPES, *_YAML_TYPES))
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the body is no JSON: {error}") from error


def decode_object(body: bytes, content_type: str) -> Object:
    """:raises StatusError: 400 also when the body is something else than an object."""
    decoded = decode(body, content_type) if body else {}
    if not isinstance(decoded, dict):
        raise bad_request(f"the body: expected an object, got {type(decoded).__name__}")
    return decoded


def caller_of(headers: Mapping[str, str], query: Query) -> Caller:
    """Who sends the request: the impersonated user, else the bearer token's text, else the lab's administrator.

    Nothing is checked: the server listens on loopback and believes everyone.
    """
    authorization = headers.get("authorization", "")
    user = headers.get("impersonate-user", "") or authorization.removeprefix("Bearer ").strip()
    dry_run = bool(query.text("dryRun"))
    if not user or authorization.startswith("Basic "):
        return Caller(dry_run=dry_run)
    if not user.startswith(_SERVICE_ACCOUNT):
        return Caller(user, ("system:authenticated",), dry_run)
    namespace = user.split(":")[2]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return Caller(user, groups, dry_run)
