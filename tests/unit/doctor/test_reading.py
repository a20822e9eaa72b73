"""Kubernetes objects become facts, and odd ones do not stop the rest."""

from typing import Any

import pytest

from hami_core_py.decisions.doctor.selectors import selects
from hami_core_py.decisions.doctor.versions import minor_of
from hami_core_py.services.doctor.reading import config_of, seconds_of, service_of, workload_of
from hami_core_py.testing.builders import COUNT


@pytest.mark.parametrize(
    ("text", "seconds"), [("5s", 5.0), ("1m30s", 90.0), ("300ms", 0.3), ("1.5s", 1.5), (2_000_000_000, 2.0)]
)
def test_duration_is_read_as_go_writes_it(text: object, seconds: float) -> None:
    assert seconds_of(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["5", "soon", "5s!", ""])
def test_text_that_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as 5s"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("text", "minor"),
    [
        ("v1.34.2", (1, 34)),
        ("v1.30.4-eks-ae9a62a", (1, 30)),
        ("containerd://2.1.0", (2, 1)),
        ("1.29", (1, 29)),
        ("cri-o://1.33.1", (1, 33)),
        ("latest", None),
        ("", None),
    ],
)
def test_minor_version_is_found(text: str, minor: Any) -> None:
    assert minor_of(text) == minor


def deployment(*command: str, args: tuple[str, ...] = ()) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "command": list(command), "args": list(args)}
    return {"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [container]}}}}


@pytest.mark.parametrize(
    ("command", "role"),
    [
        (("hami", "scheduler"), "scheduler"),
        (("/usr/local/bin/hami", "device-plugin"), "device-plugin"),
        (("python3", "-m", "hami_core_py", "webhook"), "webhook"),
    ],
)
def test_workload_is_known_by_what_it_runs(command: tuple[str, ...], role: str) -> None:
    found = workload_of("Deployment", deployment(*command))
    assert found is not None
    assert found.roles == {role}


def test_workload_of_strangers_is_none_of_ours() -> None:
    assert workload_of("Deployment", deployment("nginx")) is None
    assert workload_of("Deployment", deployment("python3", "-m", "http.server")) is None


def test_backends_of_an_agent_are_read_in_both_spellings() -> None:
    found = workload_of("DaemonSet", deployment("hami", "device-plugin", args=("--backend=a", "--backend", "b")))
    assert found is not None
    assert found.backends == {"a", "b"}


def test_configuration_that_calls_no_extender_of_ours_is_left_alone() -> None:
    other = "extenders: [{filterVerb: filter, managedResources: [{name: stranger.example/x}]}]"
    resources = frozenset({COUNT})
    assert list(config_of(other, "here", resources)) == []
    assert list(config_of("not: [yaml", "here", resources)) == []
    assert list(config_of("- a list", "here", resources)) == []


def test_part_about_extenders_alone_is_a_configuration_too() -> None:
    text = f"extenders: [{{filterVerb: filter, httpTimeout: 30s, managedResources: [{{name: {COUNT}}}]}}]"
    (found,) = config_of(text, "here", frozenset({COUNT}))
    assert (found.profiles, found.extenders[0].timeout_seconds) == (frozenset(), 30.0)


def test_endpoint_counts_unless_it_says_that_it_is_not_ready() -> None:
    labels = {"kubernetes.io/service-name": "s"}
    slices = [
        {
            "metadata": {"namespace": "ns", "labels": labels},
            "endpoints": [{"conditions": {"ready": False}}, {"conditions": {}}, {"conditions": {"ready": True}}],
        },
        {"metadata": {"namespace": "other", "labels": labels}, "endpoints": [{}]},
    ]
    found = service_of({"metadata": {"namespace": "ns", "name": "s"}, "spec": {"ports": [{"port": 443}]}}, slices)
    assert (found.ready, found.ports) == (2, {443})


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "a", "operator": "In", "values": ["1"]}, True),
        ({"key": "a", "operator": "NotIn", "values": ["1"]}, False),
        ({"key": "b", "operator": "NotIn", "values": ["1"]}, True),
        ({"key": "a", "operator": "Exists"}, True),
        ({"key": "a", "operator": "DoesNotExist"}, False),
        ({"key": "a", "operator": "Unheard"}, False),
    ],
)
def test_selector_takes_in_by_kubernetes_rules(expression: dict[str, Any], expected: bool) -> None:
    assert selects({"matchExpressions": [expression]}, {"a": "1"}) is expected
    assert selects({}, {"a": "1"})
    assert not selects({"matchLabels": {"a": "2"}}, {"a": "1"})
