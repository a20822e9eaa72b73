"""Rules of `metadata` that every object obeys: names, system fields, annotation size, deletion marks."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from hami_core_py.lab.apiserver.resources import Resource
from hami_core_py.lab.apiserver.status import Cause, Object, bad_request

ANNOTATIONS_LIMIT_BYTES = 262_144
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so that no word comes out
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = rf"({_QUALIFIED})?"
_SYSTEM_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")

SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def timestamp(seconds: float) -> str:
    """Seconds since the epoch as Kubernetes writes a time: UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str) -> float:
    """The opposite of `timestamp`; fractions of a second (as in leases and events) are kept."""
    return datetime.fromisoformat(text).timestamp()


def is_dns_label(text: str) -> bool:
    return len(text) <= 63 and re.fullmatch(_LABEL, text) is not None


def is_subdomain(text: str) -> bool:
    return len(text) <= 253 and re.fullmatch(_SUBDOMAIN, text) is not None


def generated_name(prefix: str, chance: random.Random) -> str:
    """`prefix` and five letters, as generateName promises."""
    return prefix[:58] + "".join(chance.choice(_SUFFIX_LETTERS) for _ in range(5))


def accept(resource: Resource, obj: object, namespace: str) -> Object:
    """A client's object checked for kind, apiVersion and namespace, which are filled in where absent.

    :raises StatusError: 400 when they contradict the path.
    """
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata") or {}, dict):
        raise bad_request("the object provided is unrecognized: expected a JSON object with metadata")
    if obj.setdefault("kind", resource.kind) != resource.kind:
        raise bad_request(
            f'{obj["kind"]} in version "{obj.get("apiVersion", "")}" cannot be handled as a {resource.kind}: '
            f"no kind {obj['kind']!r} at this path"
        )
    if obj.setdefault("apiVersion", resource.group_version) != resource.group_version:
        raise bad_request(
            f"the API version in the data ({obj['apiVersion']}) does not match the expected API version "
            f"({resource.group_version})"
        )
    metadata = obj["metadata"] = obj.get("metadata") or {}
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif (metadata.get("namespace") or namespace) != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        metadata["namespace"] = namespace
    return obj


def fill_system_fields(resource: Resource, obj: Object, *, uid: str, now: float, chance: random.Random) -> None:
    """What only the server decides about a new object."""
    metadata = obj["metadata"]
    for name in (*_SYSTEM_FIELDS, "resourceVersion", "selfLink", "managedFields"):
        metadata.pop(name, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generated_name(metadata["generateName"], chance)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = timestamp(now)
    if resource.counts_generations:
        metadata["generation"] = 1


def keep_system_fields(obj: Object, old: Object) -> None:
    """An update cannot change what only the server decides."""
    metadata, before = obj["metadata"], old["metadata"]
    for name in (*_SYSTEM_FIELDS, "resourceVersion"):
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    for name in ("selfLink", "managedFields"):
        metadata.pop(name, None)


def validate(resource: Resource, obj: Object) -> list[Cause]:
    """What is wrong with an object's metadata."""
    metadata = obj["metadata"]
    causes: list[Cause] = []
    name = metadata.get("name")
    if not name:
        causes.append(Cause.required("metadata.name", "name or generateName is required"))
    elif resource.plural in ("namespaces", "services"):
        if not is_dns_label(name):
            causes.append(Cause.invalid("metadata.name", name, LABEL_MESSAGE))
    elif not is_subdomain(name):
        causes.append(Cause.invalid("metadata.name", name, SUBDOMAIN_MESSAGE))
    causes += _labels(metadata.get("labels") or {})
    causes += annotation_causes("metadata.annotations", metadata.get("annotations") or {})
    return causes


def annotation_causes(field: str, found: Mapping[str, object]) -> list[Cause]:
    """What is wrong with annotations: keys, value types, and their size in all."""
    causes = []
    size = 0
    for key, value in found.items():
        if not isinstance(value, str):
            raise bad_request(f"{field}[{key}]: expected a string, got {value!r}; quote it")
        if not _is_qualified(key.lower()):
            causes.append(Cause.invalid(field, key, _QUALIFIED_MESSAGE))
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT_BYTES:
        message = f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"
        causes.append(Cause(field, "FieldValueTooLong", message))
    return causes


def _labels(found: Mapping[str, object]) -> list[Cause]:
    causes = []
    for key, value in found.items():
        if not isinstance(value, str):
            raise bad_request(f"metadata.labels[{key}]: expected a string, got {value!r}; quote it")
        if not _is_qualified(key):
            causes.append(Cause.invalid("metadata.labels", key, _QUALIFIED_MESSAGE))
        if len(value) > 63 or re.fullmatch(_LABEL_VALUE, value) is None:
            causes.append(Cause.invalid("metadata.labels", value, _LABEL_VALUE_MESSAGE))
    return causes


def _is_qualified(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return 0 < len(name) <= 63 and re.fullmatch(_QUALIFIED, name) is not None
