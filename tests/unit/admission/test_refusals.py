"""Pods that are refused, and the sentence their author reads."""

from dataclasses import replace

import pytest

from hami_core_py.hooks.ask import Ask
from hami_core_py.models.families import CoreRule, MemoryRule, Placing
from hami_core_py.testing.builders import COUNT, MEMORY, PERCENT
from tests.unit.admission.acme import RULES, Json, acme, acme_family, ask_of, container, create, pod


def sentence(raw: Json, ask: Ask | None = None) -> str:
    verdict = create(raw, ask)
    assert not verdict.allowed
    assert verdict.patch == ()
    assert verdict.pod is raw
    return verdict.message


def test_privileged_neighbour_refuses_the_pod() -> None:
    raw = pod(container("log", privileged=True), container("train", count=2))
    verdict = create(raw)
    assert (verdict.message, verdict.code, verdict.reason) == ("container log is privileged", 403, "Forbidden")
    assert verdict.patch == ()


def test_privileged_init_container_refuses_the_pod_and_is_named_first() -> None:
    raw = pod(container("train", count=1, privileged=True), init=[container("prep", privileged=True)])
    assert sentence(raw) == "container prep is privileged"


def test_privileged_pod_without_devices_is_untouched() -> None:
    verdict = create(pod(container("log", privileged=True)))
    assert (verdict.allowed, verdict.patch) == (True, ())


def test_pod_with_a_node_is_told_to_use_a_selector() -> None:
    message = sentence(pod(container(count=1), nodeName="n7"))
    assert message.startswith("pod has node assigned")
    assert "spec.nodeSelector" in message


def test_pod_with_a_node_and_no_device_is_untouched() -> None:
    assert create(pod(container(), nodeName="n7")).patch == ()


def test_pod_without_containers_is_refused() -> None:
    verdict = create(pod())
    assert (verdict.allowed, verdict.code, verdict.message) == (False, 403, "pod has no containers")


@pytest.mark.parametrize("value", ["101", "140", "-5", "1500m"])
def test_percentage_out_of_range_is_refused(value: str) -> None:
    verdict = create(pod(container(count=1, percent=value)))
    expected = f"invalid {PERCENT} value {value} in container main: must be an integer between 0 and 100"
    assert (verdict.message, verdict.code, verdict.reason) == (expected, 500, "")


@pytest.mark.parametrize("value", ["0", "1", "100"])
def test_percentage_in_range_is_admitted(value: str) -> None:
    assert create(pod(container(count=1, percent=value))).allowed


@pytest.mark.parametrize(("value", "hint"), [("12Gi", "write 12288"), ("1500m", "write 2"), ("-200", "leave it out")])
def test_memory_that_is_no_number_of_mib_is_refused_with_a_hint(value: str, hint: str) -> None:
    message = sentence(pod(container(count=1, memory=value)))
    assert message.startswith(f"pod default/train, container 'main': {MEMORY}: expected a whole number of MiB")
    assert hint in message


@pytest.mark.parametrize(("value", "mib"), [("1Gi", "1024"), ("512Mi", "512")])
def test_bytes_are_refused_even_where_their_number_would_pass_for_mib(value: str, mib: str) -> None:
    assert f"write {mib}: one unit is 1 MiB" in sentence(pod(container(count=1, memory=value)))


def test_too_much_memory_is_refused() -> None:
    assert "3000000000" in sentence(pod(container(count=1, memory="3000000000")))
    small = ask_of(acme(table=acme_family(memory=MemoryRule(max_mib=24576))))
    assert "one device gives at most 24576 MiB" in sentence(pod(container(count=1, memory=24577)), small)


def test_number_that_the_vendor_does_not_offer_is_refused_with_those_it_does() -> None:
    fixed = MemoryRule(unit_mib=512, per="container", allowed_units=frozenset({2, 4, 96}))
    ask = ask_of(acme(table=acme_family(memory=fixed)))
    assert "expected one of 2, 4, 96 per device, got '3'" in sentence(pod(container(count=1, memory=3)), ask)
    assert create(pod(container(count=2, memory=192)), ask).allowed
    assert not create(pod(container(count=2, memory=5)), ask).allowed


def test_more_compute_than_the_devices_have_is_refused() -> None:
    assert "expected at most 100, got '140'" in sentence(pod(container(count=1, memory=1, core=140)))
    assert create(pod(container(count=2, memory=1, core=140))).allowed


def test_compute_without_a_bound_is_admitted() -> None:
    ask = ask_of(acme(table=acme_family(core=CoreRule(clamp_at=None))))
    assert create(pod(container(count=1, core=140)), ask).allowed


@pytest.mark.parametrize("value", ["-1", "500m", "4294967297"])
def test_count_that_is_no_count_is_refused(value: str) -> None:
    assert f"{COUNT}: expected a whole number" in sentence(pod(container(count=value)))


def test_count_that_is_never_given_is_refused() -> None:
    ask = ask_of(acme(table=acme_family(placing=Placing(counts=frozenset({1, 2, 4})))))
    assert f"{COUNT}: expected one of 1, 2, 4 devices, got 3" in sentence(pod(container(count=3)), ask)
    assert create(pod(container(count=4)), ask).allowed


def test_policy_nobody_knows_is_refused_with_the_known_ones() -> None:
    message = sentence(pod(container(count=1), annotations={"hami.io/gpu-scheduler-policy": "spred"}))
    assert "hami.io/gpu-scheduler-policy: expected one of binpack, spread" in message
    assert "did you mean 'spread'?" in message


def test_policy_of_a_pod_without_devices_is_not_ours_to_judge() -> None:
    assert create(pod(container(), annotations={"hami.io/gpu-scheduler-policy": "spred"})).allowed


@pytest.mark.parametrize(
    "variable",
    [{"name": "ACME_VISIBLE", "value": "all"}, {"name": "ACME_LIMIT", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
)
def test_container_with_devices_may_not_set_its_backend_s_variables(variable: Json) -> None:
    message = sentence(pod(container("web"), container("train", count=1, env=[variable])))
    assert "container train sets the variable " + variable["name"] in message
    assert "backend 'acme'" in message


def test_variable_with_the_value_that_admission_gives_is_no_offence() -> None:
    mine = {"name": "ACME_PRIORITY", "value": "1"}
    assert create(pod(container(count=1, priority=1, env=[mine]))).allowed
    for theirs in ({"name": "ACME_PRIORITY", "value": "0"}, {"name": "ACME_PRIORITY", "valueFrom": {}}):
        assert not create(pod(container(count=1, priority=1, env=[theirs, mine]))).allowed


def test_container_with_devices_may_set_other_variables() -> None:
    assert create(pod(container(count=1, env=[{"name": "OTHER_VISIBLE", "value": "all"}]))).allowed


def test_annotations_that_leave_no_room_for_the_record_are_refused() -> None:
    notes = {"acme.example/notes": "ä" * (121 * 1024)}
    message = sentence(pod(container(count=1), annotations=notes))
    assert "annotations take 247826 bytes; a pod with devices may use 245760" in message
    assert create(pod(container(), annotations=notes)).allowed
    assert create(
        pod(container(count=1), annotations=notes), rules=replace(RULES, min_annotation_room_bytes=8192)
    ).allowed


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("metadata",), [], "metadata: expected an object, got a list"),
        (("metadata", "annotations"), {"a": 1}, "metadata.annotations: expected texts, got a number for 'a'"),
        (("spec",), "x", "spec: expected an object, got a text"),
        (("spec", "schedulerName"), 1, "spec.schedulerName: expected a text, got a number"),
        (("spec", "containers"), {}, "spec.containers: expected a list, got an object"),
        (("spec", "containers"), [1], "spec.containers[0]: expected an object, got a number"),
        (("spec", "containers"), [{"name": 1}], "spec.containers[0].name: expected a text, got a number"),
        (("spec", "initContainers"), [{"env": {}}], "spec.initContainers[0].env: expected a list, got an object"),
        (
            ("spec", "containers"),
            [{"env": [{"value": "x"}]}],
            "spec.containers[0].env[0]: expected an object with a name",
        ),
        (
            ("spec", "containers"),
            [{"env": [{"name": "A", "value": 1}]}],
            "spec.containers[0].env[0].value: expected a text, got a number",
        ),
        (("spec", "containers"), [{"resources": 1}], "spec.containers[0].resources: expected an object, got a number"),
        (
            ("spec", "containers"),
            [{"resources": {"limits": []}}],
            "spec.containers[0].resources.limits: expected an object, got a list",
        ),
        (
            ("spec", "containers"),
            [{"resources": {"requests": {"cpu": True}}}],
            "spec.containers[0].resources.requests: expected quantities, got a truth value for 'cpu'",
        ),
        (
            ("spec", "containers"),
            [{"securityContext": "x"}],
            "spec.containers[0].securityContext: expected an object, got a text",
        ),
        (("kind",), "Binding", "kind: expected Pod, got 'Binding'"),
    ],
)
def test_object_of_another_shape_is_refused_with_the_place(path: tuple[str, ...], value: object, problem: str) -> None:
    raw = pod(container(count=1))
    parent = raw
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    verdict = create(raw)
    assert (verdict.allowed, verdict.code) == (False, 400)
    assert verdict.message.startswith(f"cannot read the pod: {problem}")


@pytest.mark.parametrize("raw", [None, [], "pod", 1])
def test_something_that_is_no_object_is_refused(raw: object) -> None:
    assert create(raw).code == 400  # type: ignore[arg-type]
