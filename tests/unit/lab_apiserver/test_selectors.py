from __future__ import annotations

from typing import Any

import pytest

from hami_core_py.lab.apiserver import StatusError
from hami_core_py.lab.apiserver.resources import find
from hami_core_py.lab.apiserver.selectors import label_selector_object, select


def selected(resource: str, obj: dict[str, Any], labels: str = "", fields: str = "") -> bool:
    wants = select(find(resource), labels, fields)
    return wants is None or wants(obj)


POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "team", "labels": {"app": "web", "tier": "front"}},
    "spec": {"nodeName": "node-a"},
    "status": {"phase": "Running"},
}


@pytest.mark.parametrize(
    ("labels", "matches"),
    [
        ("app=web", True),
        ("app==web", True),
        ("app=db", False),
        ("app!=db", True),
        ("other!=x", True),
        ("app in (db, web),tier=front", True),
        ("app notin (web)", False),
        ("tier", True),
        ("!tier", False),
        ("!other", True),
        ("app=web,other", False),
    ],
)
def test_label_selectors_select_by_value_set_and_presence(labels: str, matches: bool) -> None:
    assert selected("pods", POD, labels=labels) is matches


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ("metadata.name=a", True),
        ("metadata.namespace!=team", False),
        ("spec.nodeName=node-a,status.phase!=Failed,status.phase!=Succeeded", True),
        ("spec.nodeName=", False),
        ("status.phase=Pending", False),
        ("spec.hostNetwork=false", True),
    ],
)
def test_field_selectors_select_by_value(fields: str, matches: bool) -> None:
    assert selected("pods", POD, fields=fields) is matches


def test_an_event_is_selected_by_the_object_it_is_about() -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "a", "uid": "1"}, "type": "Normal"}
    assert selected("events", event, fields="involvedObject.kind=Pod,involvedObject.uid=1,type!=Warning")
    assert not selected("events", event, fields="involvedObject.name=b")


def test_an_unknown_field_is_refused_by_name() -> None:
    with pytest.raises(StatusError, match=r"field label not supported: spec\.color") as caught:
        select(find("pods"), fields="spec.color=red")
    assert caught.value.code == 400


def test_an_unreadable_label_selector_is_refused() -> None:
    with pytest.raises(StatusError, match="unable to parse requirement"):
        select(find("pods"), labels="app=(web")


def test_a_selector_object_combines_labels_and_expressions() -> None:
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front"]},
            {"key": "ignored", "operator": "DoesNotExist"},
        ],
    }
    assert label_selector_object(selector)({"app": "web", "tier": "front"})
    assert not label_selector_object(selector)({"app": "web", "tier": "front", "ignored": ""})
    assert label_selector_object({})({})
