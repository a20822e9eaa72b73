"""One AdmissionReview in, one out: the envelope around the decision, in the versions v1 and v1beta1.

The HTTP answer is always 200; the outcome stands inside the review, also for a body that is none.
"""

import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from hami_core_py.decisions.admission import PodWrite, Rules, Verdict, admit
from hami_core_py.hooks.ask import Ask

log = logging.getLogger(__name__)

JSON: Final = "application/json"
KIND: Final = "AdmissionReview"
VERSIONS: Final = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
DEFAULT_MAX_BODY_BYTES: Final = 7 * 1024 * 1024
NO_CONTENT: Final = "there is no content to decode"

Outcome = Literal["allowed", "patched", "denied", "unreadable", "failed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an answer, and what it amounts to, for metrics."""

    body: bytes
    outcome: Outcome


class AdmissionService:
    """Answers reviews; may be asked from several threads at once.

    :param max_body_bytes: a body of this size or more is not read.
    """

    def __init__(self, ask: Ask, rules: Rules, *, max_body_bytes: int = DEFAULT_MAX_BODY_BYTES) -> None:
        self.ask = ask
        self.rules = rules
        self.max_body_bytes = max_body_bytes

    def missing(self) -> str | None:
        """What keeps this process from judging all pods; ``None``: nothing."""
        return "; ".join(f"backend {name!r} did not load: {why}" for name, why in self.ask.missing.items()) or None

    def review(self, body: bytes, content_type: str) -> Answer:
        """Answer the body of a request; never raises."""
        if not body:
            return _unreadable({}, 400, "request body is empty")
        if len(body) >= self.max_body_bytes:
            return self.too_large()
        if content_type != JSON:
            return _unreadable({}, 400, f"contentType={content_type}, expected {JSON}")
        try:
            review = orjson.loads(body)
        except orjson.JSONDecodeError as problem:
            return _unreadable({}, 400, f"couldn't get version/kind; json parse error: {problem}")
        if not isinstance(review, dict):
            return _unreadable({}, 400, "couldn't get version/kind; expected a JSON object")
        return self._review(review)

    def too_large(self) -> Answer:
        """The answer to a body that is not read because of its size."""
        return _unreadable({}, 413, f"request entity is too large; limit is {self.max_body_bytes} bytes")

    def _review(self, review: Mapping[str, Any]) -> Answer:
        head = {"kind": review.get("kind") or KIND, "apiVersion": review.get("apiVersion") or VERSIONS[0]}
        request = review.get("request")
        if head["kind"] != KIND or not isinstance(request, Mapping):
            return _unreadable(head, 400, NO_CONTENT)
        uid = request.get("uid")
        uid = uid if isinstance(uid, str) else ""
        if head["apiVersion"] not in VERSIONS:
            return _unreadable(head, 400, f"apiVersion: expected one of {', '.join(VERSIONS)}", uid)
        try:
            return self._answer(head, uid, request)
        except Exception as problem:  # the API server must hear an answer, whatever went wrong here
            log.exception("admission failed", extra={"uid": uid})
            answer = _response(uid, allowed=False, code=500, message=f"panic: {problem} [recovered]")
            return Answer(_render(head, answer), "failed")

    def _answer(self, head: Mapping[str, Any], uid: str, request: Mapping[str, Any]) -> Answer:
        operation = _text(request, "operation") or "CREATE"
        if operation not in ("CREATE", "UPDATE"):
            return Answer(_render(head, _response(uid, allowed=True)), "allowed")  # nothing is written
        pod = request.get("object")
        if pod is None:
            return _unreadable(head, 400, NO_CONTENT, uid)
        user = request.get("userInfo")
        write = PodWrite(
            pod=pod,
            before=(request.get("oldObject") or {}) if operation == "UPDATE" else {},
            namespace=_text(request, "namespace"),
            operation=operation,
            subresource=_text(request, "subResource"),
            user=_text(user, "username") if isinstance(user, Mapping) else "",
        )
        verdict = admit(write, self.ask, self.rules)
        if not verdict.allowed:
            log.info("pod denied", extra={"uid": uid, "namespace": write.namespace, "reason": verdict.message})
        return Answer(_render(head, _of_verdict(uid, verdict)), _outcome(verdict))


def _outcome(verdict: Verdict) -> Outcome:
    if not verdict.allowed:
        return "unreadable" if verdict.code == 400 else "denied"
    return "patched" if verdict.patch else "allowed"


def _of_verdict(uid: str, verdict: Verdict) -> dict[str, Any]:
    answer = _response(uid, allowed=verdict.allowed, code=verdict.code, message=verdict.message, reason=verdict.reason)
    if verdict.patch:
        answer["patch"] = base64.b64encode(orjson.dumps(verdict.patch)).decode()
        answer["patchType"] = "JSONPatch"
    if verdict.warnings:
        answer["warnings"] = list(verdict.warnings)
    return answer


def _unreadable(head: Mapping[str, Any], code: int, message: str, uid: str = "") -> Answer:
    return Answer(_render(head, _response(uid, allowed=False, code=code, message=message)), "unreadable")


def _response(uid: str, *, allowed: bool, code: int = 200, message: str = "", reason: str = "") -> dict[str, Any]:
    status: dict[str, Any] = {"metadata": {}}
    if message:
        status["message"] = message
    if reason:
        status["reason"] = reason
    status["code"] = code
    return {"uid": uid, "allowed": allowed, "status": status}


def _render(head: Mapping[str, Any], answer: Mapping[str, Any]) -> bytes:
    return orjson.dumps({**head, "response": answer}, option=orjson.OPT_APPEND_NEWLINE)


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
