"""Failures of the API server, in the shape and wording that Kubernetes clients read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hami_core_py.lab.apiserver.resources import Resource

Object = dict[str, Any]
"""A Kubernetes object as plain JSON values."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One field that is wrong; `reason` is Kubernetes' machine-readable word, `message` its sentence."""

    field: str
    reason: str
    message: str

    @classmethod
    def invalid(cls, field: str, value: object, message: str) -> Cause:
        shown = f'"{value}"' if isinstance(value, str) else str(value)
        return cls(field, "FieldValueInvalid", f"Invalid value: {shown}: {message}")

    @classmethod
    def required(cls, field: str, message: str = "") -> Cause:
        return cls(field, "FieldValueRequired", f"Required value: {message}" if message else "Required value")

    @classmethod
    def forbidden(cls, field: str, message: str) -> Cause:
        return cls(field, "FieldValueForbidden", f"Forbidden: {message}")

    @classmethod
    def duplicate(cls, field: str, value: str) -> Cause:
        return cls(field, "FieldValueDuplicate", f'Duplicate value: "{value}"')

    @classmethod
    def unsupported(cls, field: str, value: str, supported: Sequence[str]) -> Cause:
        known = ", ".join(f'"{one}"' for one in supported)
        return cls(field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {known}')


class StatusError(Exception):
    """A request that ends in a `Status` of kind Failure instead of an object."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Object | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details = dict(details or {})
        self.retry_after_s = retry_after_s
        if retry_after_s is not None:
            self.details["retryAfterSeconds"] = retry_after_s

    def body(self) -> Object:
        """The `Status` object that is the answer's body."""
        status: Object = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status


def success(code: int = 200, *, details: Object | None = None) -> Object:
    """The `Status` object of a request that has nothing else to answer."""
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    if code != 200:
        status["code"] = code
    return status


def _about(resource: Resource, name: str, *, kind: str = "") -> Object:
    details: Object = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in details.items() if value}


def not_found(resource: Resource, name: str) -> StatusError:
    message = f'{resource.qualified} "{name}" not found'
    return StatusError(404, "NotFound", message, details=_about(resource, name))


def no_such_path() -> StatusError:
    return StatusError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: Resource, name: str) -> StatusError:
    message = f'{resource.qualified} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details=_about(resource, name))


def conflict(resource: Resource, name: str, why: str, *, subresource: str = "") -> StatusError:
    plural = f"{resource.qualified}/{subresource}" if subresource else resource.qualified
    message = f'Operation cannot be fulfilled on {plural} "{name}": {why}'
    return StatusError(409, "Conflict", message, details=_about(resource, name, kind=plural if subresource else ""))


class StaleError(StatusError):
    """Another write came first: 409 for a client that named a version, one more try for one that did not."""

    @classmethod
    def of(cls, resource: Resource, name: str) -> StaleError:
        why = "the object has been modified; please apply your changes to the latest version and try again"
        told = conflict(resource, name, why)
        return cls(told.code, told.reason, told.message, details=told.details)


def forbidden(resource: Resource, name: str, why: str) -> StatusError:
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return StatusError(403, "Forbidden", message, details=_about(resource, name))


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def invalid(resource: Resource, name: str, causes: Sequence[Cause]) -> StatusError:
    """An object that breaks rules; every broken rule is told, in Kubernetes' format."""
    told = [f"{cause.field}: {cause.message}" for cause in causes]
    text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = _about(resource, name, kind=resource.kind)
    details["causes"] = [{"reason": one.reason, "message": one.message, "field": one.field} for one in causes]
    return StatusError(422, "Invalid", f'{kind} "{name}" is invalid: {text}', details=details)


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_old(version: int, oldest: int) -> StatusError:
    return expired(f"too old resource version: {version} ({oldest})")


def too_large(version: int, current: int) -> StatusError:
    """A client has seen the future, as after a lost store: it is asked to come back, never served older state."""
    message = f"Too large resource version: {version}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return StatusError(504, "Timeout", message, details={"causes": [cause]}, retry_after_s=1)


def method_not_allowed() -> StatusError:
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def unsupported_media_type(got: str, accepted: Sequence[str]) -> StatusError:
    message = (
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}; "
        f"got {got or 'none'}"
    )
    return StatusError(415, "UnsupportedMediaType", message)


def internal_error(message: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {message}")
