"""The variables that a pod's spec gives to a container."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from hami_core_py.cluster.errors import ApiError
from hami_core_py.lab.kubelet.environment import ConfigError, of_spec

POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "namespace": "team",
        "uid": "u-1",
        "labels": {"app": "x"},
        "annotations": {"acme.example/a": "1"},
    },
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}]},
}
OBJECTS = {
    "/api/v1/namespaces/team/configmaps/settings": {"data": {"level": "high"}},
    "/api/v1/namespaces/team/secrets/keys": {"data": {"token": base64.b64encode(b"secret").decode()}},
}


def read(path: str) -> dict[str, Any]:
    if path not in OBJECTS:
        raise ApiError(404, "NotFound", f"{path} not found")
    return OBJECTS[path]


def env(*variables: dict[str, Any]) -> dict[str, str]:
    return of_spec(POD, POD["spec"]["containers"][0] | {"env": list(variables)}, "node-a", read)


def source(kind: str, **fields: Any) -> dict[str, str]:
    return env({"name": "V", "valueFrom": {kind: fields}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "x"),
        ("metadata.annotations['acme.example/a']", "1"),
        ("metadata.labels['absent']", ""),
        ("spec.serviceAccountName", "default"),
        ("status.podIP", "127.0.0.1"),
    ],
)
def test_field_of_the_pod_becomes_a_variable(path: str, value: str) -> None:
    assert source("fieldRef", fieldPath=path) == {"V": value}


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"resource": "limits.cpu"}, "2"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "1024"),
        ({"resource": "limits.memory", "divisor": "0"}, "1073741824"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "1500"),
        ({"resource": "limits.absent"}, "0"),
    ],
)
def test_amount_of_the_container_becomes_a_variable(fields: dict[str, str], value: str) -> None:
    assert source("resourceFieldRef", **fields) == {"V": value}


def test_entries_of_config_maps_and_secrets_become_variables() -> None:
    assert source("configMapKeyRef", name="settings", key="level") == {"V": "high"}
    assert source("secretKeyRef", name="keys", key="token") == {"V": "secret"}


def test_what_is_missing_but_optional_is_left_out() -> None:
    assert source("configMapKeyRef", name="absent", key="level", optional=True) == {}
    assert source("configMapKeyRef", name="settings", key="absent", optional=True) == {}


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("configMapKeyRef", {"name": "absent", "key": "a"}, "configmaps/absent not found"),
        ("configMapKeyRef", {"name": "settings", "key": "a"}, "couldn't find key a in configmap team/settings"),
        ("fieldRef", {"fieldPath": "spec.color"}, "unsupported fieldPath: spec.color"),
        ("fileKeyRef", {"path": "x"}, "env V: expected fieldRef"),
    ],
)
def test_what_is_missing_and_needed_says_so(kind: str, fields: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        source(kind, **fields)


def test_references_see_only_what_comes_before() -> None:
    found = env(
        {"name": "A", "value": "$(B)"}, {"name": "B", "value": "b"}, {"name": "C", "value": "$(A) $(B) $$(B) $B"}
    )
    assert found == {"A": "$(B)", "B": "b", "C": "$(B) b $(B) $B"}
