"""Admission webhooks: which are asked about a write, in which order, and what their answers do to it.

Mutating webhooks come first, ordered by configuration and then as listed; one with reinvocationPolicy IfNeeded is
asked once more when a later one changed the object. Validating webhooks see the result. Their `matchConditions`,
which are CEL, are not evaluated: such a webhook is asked as if they held, which is said once in the log.
"""

from __future__ import annotations

import base64
import binascii
import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson

from hami_core_py.lab.apiserver.calls import Review
from hami_core_py.lab.apiserver.objects import Objects
from hami_core_py.lab.apiserver.patches import json_patch
from hami_core_py.lab.apiserver.resources import Resource, find
from hami_core_py.lab.apiserver.selectors import LabelTest, label_selector_object, labels_of
from hami_core_py.lab.apiserver.status import Object, StatusError, internal_error
from hami_core_py.lab.apiserver.webhook_client import WebhookClient, WebhookFailure

_LOG = logging.getLogger(__name__)
_NAMESPACES = find("namespaces")
_MUTATING, _VALIDATING = find("mutatingwebhookconfigurations"), find("validatingwebhookconfigurations")
_EXEMPT_GROUP = "admissionregistration.k8s.io"  # or a broken webhook could never be removed


@dataclass(frozen=True, slots=True, eq=False)
class _Webhook:
    name: str
    url: str
    ca_bundle: str
    rules: list[Object]
    in_namespace: LabelTest
    in_object: LabelTest
    fails_open: bool
    timeout_s: float
    is_reinvoked: bool


class WebhookAdmission:
    """Admission by the webhook configurations that are stored beside the objects they judge."""

    def __init__(self, objects: Objects, client: WebhookClient | None = None) -> None:
        self._objects = objects
        self._client = client or WebhookClient()
        self._read: dict[str, tuple[str, list[_Webhook]]] = {}  # configuration's uid: its version and webhooks
        self._told: set[str] = set()

    def concerns(self, resource: Resource) -> bool:
        """Whether any webhook at all might be asked about `resource`; False promises that nothing blocks."""
        if resource.group == _EXEMPT_GROUP:
            return False
        return bool(self._objects.count(_MUTATING) or self._objects.count(_VALIDATING))

    def close(self) -> None:
        self._client.close()

    def mutate(self, review: Review) -> Object | None:
        asked: list[tuple[_Webhook, Object | None]] = []
        current = review
        for webhook in self._matching(_MUTATING, review):
            current = self._mutated(webhook, current)
            asked.append((webhook, current.object))
        for webhook, seen in asked:
            if webhook.is_reinvoked and seen != current.object:
                current = self._mutated(webhook, current)
        return current.object

    def validate(self, review: Review) -> None:
        for webhook in self._matching(_VALIDATING, review):
            self._ask(webhook, review)

    def _mutated(self, webhook: _Webhook, review: Review) -> Review:
        response = self._ask(webhook, review)
        if response is None or not response.get("patch") or review.object is None:
            return review
        try:
            patch = orjson.loads(base64.b64decode(response["patch"], validate=True))
            return replace(review, object=json_patch(review.object, patch))
        except (binascii.Error, orjson.JSONDecodeError, StatusError) as error:
            raise internal_error(f'webhook "{webhook.name}" answered a patch that does not apply: {error}') from error

    def _ask(self, webhook: _Webhook, review: Review) -> Object | None:
        """The response of a webhook that allows; None when it failed and may. :raises StatusError: when it denies."""
        uid = str(uuid.uuid4())
        try:
            body = self._client.post(webhook.url, webhook.ca_bundle, _review_body(review, uid), webhook.timeout_s)
            response = body.get("response")
            if not isinstance(response, dict) or response.get("uid") != uid:
                raise WebhookFailure("the answer has no response with the uid of the request")
        except WebhookFailure as failure:
            if webhook.fails_open:
                _LOG.warning("webhook failed and is ignored", extra={"webhook": webhook.name, "error": str(failure)})
                return None
            raise internal_error(f'failed calling webhook "{webhook.name}": {failure}') from failure
        review.caller.warnings.extend(str(one) for one in response.get("warnings") or ())
        if not response.get("allowed"):
            raise _denied(webhook.name, response.get("status") or {})
        return response

    def _matching(self, kind: Resource, review: Review) -> Iterator[_Webhook]:
        if review.resource.group == _EXEMPT_GROUP:
            return
        for configuration in self._objects.scan(kind)[0]:
            for webhook in self._webhooks(configuration):
                if _rules_match(webhook.rules, review) and self._selected(webhook, review):
                    yield webhook

    def _selected(self, webhook: _Webhook, review: Review) -> bool:
        if not any(webhook.in_object(labels_of(one)) for one in (review.object, review.old_object) if one):
            return False
        if review.resource is _NAMESPACES:
            holder = review.object or review.old_object
        elif review.resource.namespaced:
            holder = self._objects.get(_NAMESPACES, ("", review.namespace))
        else:
            return True
        return holder is not None and webhook.in_namespace(labels_of(holder))

    def _webhooks(self, configuration: Object) -> list[_Webhook]:
        metadata = configuration["metadata"]
        version, webhooks = self._read.get(metadata["uid"], ("", []))
        if version != metadata["resourceVersion"]:
            webhooks = [_read(one) for one in configuration.get("webhooks") or ()]
            self._read[metadata["uid"]] = metadata["resourceVersion"], webhooks
            for one in configuration.get("webhooks") or ():
                self._tell_conditions(one)
        return webhooks

    def _tell_conditions(self, webhook: Object) -> None:
        if webhook.get("matchConditions") and webhook["name"] not in self._told:
            self._told.add(webhook["name"])
            _LOG.warning(
                "matchConditions are not evaluated: the webhook is always asked", extra={"webhook": webhook["name"]}
            )


def _read(webhook: Object) -> _Webhook:
    client = webhook["clientConfig"]
    return _Webhook(
        name=webhook["name"],
        url=client["url"],
        ca_bundle=client.get("caBundle") or "",
        rules=webhook.get("rules") or [],
        in_namespace=label_selector_object(webhook.get("namespaceSelector")),
        in_object=label_selector_object(webhook.get("objectSelector")),
        fails_open=webhook.get("failurePolicy") == "Ignore",
        timeout_s=webhook["timeoutSeconds"],
        is_reinvoked=webhook.get("reinvocationPolicy") == "IfNeeded",
    )


def _rules_match(rules: list[Object], review: Review) -> bool:
    resource = review.resource
    scope = "Namespaced" if resource.namespaced else "Cluster"
    checks: tuple[tuple[str, Callable[[Any], bool]], ...] = (
        ("operations", lambda wanted: wanted in ("*", review.operation)),
        ("apiGroups", lambda wanted: wanted in ("*", resource.group)),
        ("apiVersions", lambda wanted: wanted in ("*", resource.version)),
        ("resources", lambda wanted: _resource_matches(wanted, resource.plural, review.subresource)),
    )
    return any(
        rule.get("scope", "*") in ("*", scope)
        and all(any(check(wanted) for wanted in rule.get(name) or ()) for name, check in checks)
        for rule in rules
    )


def _resource_matches(wanted: str, plural: str, subresource: str) -> bool:
    name, slash, below = wanted.partition("/")
    if name not in ("*", plural):
        return False
    return below in ("*", subresource) if slash else not subresource


def _denied(name: str, status: Object) -> StatusError:
    message, reason = status.get("message"), status.get("reason")
    told = message or reason
    text = f'admission webhook "{name}" denied the request' + (f": {told}" if told else " without explanation")
    code = status.get("code")
    details = status.get("details") if isinstance(status.get("details"), dict) else None
    return StatusError(
        code if isinstance(code, int) and code >= 400 else 403, reason or "Forbidden", text, details=details
    )


def _review_body(review: Review, uid: str) -> Object:
    group, version, kind = review.kind
    gvk = {"group": group, "version": version, "kind": kind}
    gvr = {"group": review.resource.group, "version": review.resource.version, "resource": review.resource.plural}
    options = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}[review.operation]
    request: Object = {
        "uid": uid,
        "kind": gvk,
        "resource": gvr,
        "requestKind": gvk,
        "requestResource": gvr,
        "operation": review.operation,
        "userInfo": {"username": review.caller.user, "groups": list(review.caller.groups)},
        "object": review.object,
        "oldObject": review.old_object,
        "dryRun": review.caller.dry_run,
        "options": {"kind": options, "apiVersion": "meta.k8s.io/v1"},
    }
    if review.subresource:
        request["subResource"] = request["requestSubResource"] = review.subresource
    if review.name:
        request["name"] = review.name
    if review.namespace:
        request["namespace"] = review.namespace
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
