"""Label and field selectors: text in, a predicate over objects out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hami_core_py.lab.apiserver.resources import Resource
from hami_core_py.lab.apiserver.status import Object, StatusError, bad_request

Predicate = Callable[[Object], bool]
LabelTest = Callable[[Mapping[str, str]], bool]

_COMPARISON = re.compile(r"([^\s=!,()]+)\s*(==|=|!=)\s*([^\s=!,()]*)\Z")
_MEMBERSHIP = re.compile(r"([^\s=!,()]+)\s+(in|notin)\s*\(([^()]*)\)\Z")
_PRESENCE = re.compile(r"(!?)\s*([^\s=!,()]+)\Z")
_FIELD = re.compile(r"([\w.]+)\s*(==|=|!=)\s*(.*)\Z")
_ALIASES = {"source": "source.component"}


def select(resource: Resource, labels: str = "", fields: str = "") -> Predicate | None:
    """A predicate for both selectors, or None when they select everything.

    :raises StatusError: 400, for a selector that cannot be read or a field this resource cannot be selected by.
    """
    label_test = label_selector(labels) if labels else None
    field_test = _field_selector(resource, fields) if fields else None
    if label_test is None:
        return field_test
    chosen = label_test
    if field_test is None:
        return lambda obj: chosen(labels_of(obj))
    also = field_test
    return lambda obj: also(obj) and chosen(labels_of(obj))


def labels_of(obj: Object) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def label_selector(text: str) -> LabelTest:
    """The test of a selector in its query form, such as `app=web,tier in (a, b),!old`."""
    tests = [_label_requirement(part.strip()) for part in _split(text) if part.strip()]
    return lambda labels: all(test(labels) for test in tests)


def label_selector_object(selector: Object | None) -> LabelTest:
    """The test of a `LabelSelector` object (matchLabels, matchExpressions); an absent or empty one selects all."""
    tests: list[LabelTest] = [_equal(key, value) for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    for one in (selector or {}).get("matchExpressions") or ():
        tests.append(_expression(one["key"], one["operator"], one.get("values") or ()))
    return lambda labels: all(test(labels) for test in tests)


def field_of(obj: Object, path: str) -> str:
    """A field as selectors compare it: the text of its value, empty when absent."""
    value: Any = obj
    for part in _ALIASES.get(path, path).split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return "false" if path in ("spec.unschedulable", "spec.hostNetwork") else ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _split(text: str) -> list[str]:
    """Parts between commas that are not inside parentheses."""
    return re.split(r",(?![^(]*\))", text)


def _label_requirement(part: str) -> LabelTest:
    if match := _COMPARISON.match(part):
        key, operator, value = match.groups()
        return _expression(key, "NotIn", (value,)) if operator == "!=" else _equal(key, value)
    if match := _MEMBERSHIP.match(part):
        key, operator, values = match.groups()
        members = [value.strip() for value in values.split(",")]
        return _expression(key, "In" if operator == "in" else "NotIn", members)
    if match := _PRESENCE.match(part):
        return _expression(match[2], "DoesNotExist" if match[1] else "Exists", ())
    raise bad_request(f"unable to parse requirement: found {part!r}, expected key=value, key in (a, b), key or !key")


def _equal(key: str, value: str) -> LabelTest:
    return lambda labels: labels.get(key) == value


def _expression(key: str, operator: str, values: Sequence[str]) -> LabelTest:
    members = frozenset(values)
    match operator:
        case "In":
            return lambda labels: labels.get(key) in members
        case "NotIn":
            return lambda labels: labels.get(key) not in members
        case "Exists":
            return lambda labels: key in labels
        case "DoesNotExist":
            return lambda labels: key not in labels
    raise StatusError(
        400, "BadRequest", f'"{operator}" is not a valid label selector operator; use In, NotIn, Exists, DoesNotExist'
    )


def _field_selector(resource: Resource, text: str) -> Predicate | None:
    tests: list[tuple[str, bool, str]] = []
    for part in text.split(","):
        if not part:
            continue
        match = _FIELD.match(part)
        if match is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        path, operator, value = match.groups()
        if path not in ("metadata.name", "metadata.namespace") and path not in resource.fields:
            raise bad_request(
                f'Unable to find "{resource.group_version}, Resource={resource.plural}" that match '
                f'field selector "{text}": field label not supported: {path}'
            )
        tests.append((path, operator != "!=", value))
    if not tests:
        return None
    return lambda obj: all((field_of(obj, path) == value) is wanted for path, wanted, value in tests)
