"""Bodies in Kubernetes' protobuf, of the few kinds that kubectl sends so: `create namespace`, `drain` and the like.

kubectl's typed clients write protobuf where the kind is built in, whatever the server prefers, so that
`kubectl create namespace` would fail without this. Manifests (`apply -f`, `create -f`) always travel as JSON.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from hami_core_py.lab.apiserver.status import Object, StatusError, bad_request

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Of each message its fields by number: their JSON name and type. `*` marks a list, `%` a map from text to that type,
# and an empty name a field that only the server writes, which is skipped.
_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "ObjectMeta": {
        1: ("name", "text"),
        2: ("generateName", "text"),
        3: ("namespace", "text"),
        4: ("", ""),
        5: ("", ""),
        6: ("", ""),
        7: ("", ""),
        8: ("", ""),
        11: ("labels", "%text"),
        12: ("annotations", "%text"),
        14: ("finalizers", "*text"),
    },
    "Namespace": {1: ("metadata", "ObjectMeta"), 2: ("", ""), 3: ("", "")},
    "ConfigMap": {1: ("metadata", "ObjectMeta"), 2: ("data", "%text"), 4: ("immutable", "flag")},
    "Secret": {1: ("metadata", "ObjectMeta"), 2: ("data", "%base64"), 3: ("type", "text"), 5: ("immutable", "flag")},
    "ServiceAccount": {1: ("metadata", "ObjectMeta")},
    "PriorityClass": {
        1: ("metadata", "ObjectMeta"),
        2: ("value", "number"),
        3: ("globalDefault", "flag"),
        4: ("description", "text"),
        5: ("preemptionPolicy", "text"),
    },
    "ResourceQuota": {1: ("metadata", "ObjectMeta"), 2: ("spec", "ResourceQuotaSpec"), 3: ("", "")},
    "ResourceQuotaSpec": {1: ("hard", "%Quantity"), 2: ("scopes", "*text")},
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "number"),
        2: ("preconditions", "Preconditions"),
        3: ("orphanDependents", "flag"),
        4: ("propagationPolicy", "text"),
        5: ("dryRun", "*text"),
    },
    "Preconditions": {1: ("uid", "text"), 2: ("resourceVersion", "text")},
}
_UNREAD = frozenset({"SelfSubjectAccessReview", "SelfSubjectReview", "SubjectAccessReview"})  # answered unseen


def decode_protobuf(body: bytes) -> Object:
    """The object in a body. :raises StatusError: 400 for a malformed one, 415 for a kind or field not known here."""
    if not body.startswith(_MAGIC):
        raise bad_request("the body: expected Kubernetes protobuf, which begins with 'k8s' and a zero byte")
    try:
        envelope = dict(_fields(body[len(_MAGIC) :]))
        api_version, kind = (_text(dict(_fields(_part(envelope[1]))).get(number, b"")) for number in (1, 2))
        content = {} if kind in _UNREAD else _message(kind, _part(envelope.get(2, b"")))
    except (IndexError, KeyError, ValueError) as error:
        raise bad_request(f"the body is malformed protobuf: {error!r}") from error
    return {"apiVersion": api_version, "kind": kind, **content}


def _message(kind: str, data: bytes) -> Object:
    known = _MESSAGES.get(kind)
    if known is None:
        raise _unknown(kind)
    result: Object = {}
    for number, value in _fields(data):
        if number not in known:
            raise _unknown(f"field {number} of {kind}")
        name, form = known[number]
        if not name:
            continue
        if form.startswith("*"):
            result.setdefault(name, []).append(_value(form[1:], value))
        elif form.startswith("%"):
            entry = dict(_fields(_part(value)))
            result.setdefault(name, {})[_text(entry.get(1, b""))] = _value(form[1:], entry.get(2, b""))
        elif (decoded := _value(form, value)) not in ("", {}):
            result[name] = decoded
    return result


def _value(form: str, value: int | bytes) -> Any:
    if form == "text":
        return _text(value)
    if form == "base64":
        return base64.b64encode(_part(value)).decode()
    if form == "flag":
        return bool(value)
    if form == "number":
        return value - 2**64 if isinstance(value, int) and value >= 2**63 else value
    if form == "Quantity":
        return _text(dict(_fields(_part(value))).get(1, b""))
    return _message(form, _part(value))


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Fields in the order of the bytes. :raises IndexError, ValueError: when they end early or are of no known form."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, form = tag >> 3, tag & 7
        if form == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if form == _BYTES:
            length, at = _varint(data, at)
        elif form in (_FIXED64, _FIXED32):
            length = 8 if form == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {form}")
        if at + length > len(data):
            raise IndexError("a field ends beyond the message")
        yield number, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _part(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("expected a message, got a number")
    return value


def _text(value: int | bytes) -> str:
    return _part(value).decode()


def _unknown(what: str) -> StatusError:
    message = f"{what} in protobuf is not understood here; send JSON, as kubectl apply -f and create -f do"
    return StatusError(415, "UnsupportedMediaType", message)
