"""What a call to the API server can end with, in our own words; the original stays as the cause."""

import orjson

from hami_core_py.errors import HamiError


class ApiError(HamiError):
    """The API server refused a call, or could not be asked.

    :param status: HTTP status; 0 when no answer came.
    :param reason: the API's machine-readable word, such as ``NotFound``; may be empty.
    :param message: one sentence for people.
    :param call: method and path, for logs; empty when unknown.
    """

    outcome_unknown = False
    """Whether the change that was asked for may have happened all the same."""

    def __init__(self, status: int, reason: str, message: str, *, call: str = "") -> None:
        self.status, self.reason, self.message, self.call = status, reason, message, call
        self.retry_after_seconds = 0.0
        super().__init__(f"{call}: {message}" if call else message)


class Unauthorized(ApiError):
    """Our credentials are not accepted (401)."""


class Forbidden(ApiError):
    """We lack a right, or a policy refused the object (403)."""


class NotFound(ApiError):
    """The object does not exist (404)."""


class Conflict(ApiError):
    """A precondition does not hold: the object has changed, is another one, or is already bound (409)."""


class AlreadyExists(Conflict):
    """An object of this name is there already (409 of a create)."""


class Expired(ApiError):
    """The asked resource version is too old; list anew (410)."""


class Invalid(ApiError):
    """The object breaks a rule of the API (400, 413, 415, 422)."""


class Busy(ApiError):
    """The server asks us to come back later (429); ``retry_after_seconds`` says when, 0 when it does not."""


class ServerFailed(ApiError):
    """The server failed while it worked on the call (5xx); a change may or may not have been stored."""

    outcome_unknown = True


class Unreachable(ApiError):
    """No answer came.

    :param sent: whether the call may have reached the server, so that its outcome is unknown; ``False``: no connection
        was made, nothing happened.
    """

    def __init__(self, message: str, *, call: str = "", sent: bool = True) -> None:
        super().__init__(0, "Unreachable", message, call=call)
        self.outcome_unknown = sent


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: Busy,
}


def error_of(status: int, body: bytes, *, call: str = "", retry_after: str | None = None) -> ApiError:
    """The error that an answer with a status of 400 and more states."""
    reason, message = "", ""
    try:
        answer = orjson.loads(body)
        reason, message = str(answer.get("reason") or ""), str(answer.get("message") or "")
    except (orjson.JSONDecodeError, AttributeError):
        message = body[:200].decode("utf-8", "replace").strip()
    kind = _BY_STATUS.get(status, ServerFailed if status >= 500 else ApiError)
    if reason == "AlreadyExists":
        kind = AlreadyExists
    elif reason == "Expired":
        kind = Expired
    error = kind(status, reason, message or f"the API server answered {status}", call=call)
    if retry_after and retry_after.isdigit():
        error.retry_after_seconds = float(retry_after)
    return error
