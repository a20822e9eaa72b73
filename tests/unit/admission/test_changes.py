"""What admission changes in a pod, and that it changes nothing else."""

from copy import deepcopy
from typing import Any

import jsonpatch
import pytest

from hami_core_py.errors import RequestError
from hami_core_py.models.backends import Admission
from hami_core_py.models.devices import Profile
from hami_core_py.models.families import AdmissionRule, Family, MemoryRule
from hami_core_py.models.views import ContainerView, PodView
from hami_core_py.testing.builders import CORE, COUNT, MEMORY
from tests.unit.admission.acme import (
    OTHER_COUNT,
    Json,
    acme,
    acme_family,
    ask_of,
    container,
    create,
    env_of,
    limits_of,
    other,
    pod,
)

SIZES = tuple(Profile(name="", memory_mib=mib) for mib in (24576, 49152, 98304))


def table(**rule: object) -> Family:
    return acme_family(admission=AdmissionRule(**rule), profiles=SIZES)  # type: ignore[arg-type]


def test_patch_makes_the_pod_of_the_verdict_and_leaves_the_given_one() -> None:
    raw = pod(container("web"), container("train", memory=4000), init=[container("prep")], annotations={"a": "b"})
    before = deepcopy(raw)
    verdict = create(raw)
    assert raw == before
    assert jsonpatch.apply_patch(raw, [dict(op) for op in verdict.patch]) == verdict.pod


def test_fields_nobody_knows_and_other_fields_stay_untouched() -> None:
    raw = pod({**container(count=1, memory=10), "futureThing": {"a": None}}, futureField=[1])
    assert create(raw).patch == ({"op": "replace", "path": "/spec/schedulerName", "value": "hami-scheduler"},)


def test_pod_without_devices_is_not_patched() -> None:
    raw = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "app"}]}}
    assert create(raw).patch == ()


def test_quantity_is_not_rewritten_for_its_spelling() -> None:
    verdict = create(pod(container(count=1, memory="3000")))
    assert [op["path"] for op in verdict.patch] == ["/spec/schedulerName"]


@pytest.mark.parametrize("resources", [None, {}, {"limits": None}, {"requests": {"cpu": 1}}])
def test_missing_parents_are_made_in_one_operation(resources: Json | None) -> None:
    def hami_admit_container() -> Admission:
        return Admission(limits={CORE: "5"}, requests={CORE: "5"}, annotations={"acme.example/note": "x"})

    raw = pod({"name": "main", "resources": {**(resources or {}), "requests": {COUNT: "1"}}}, annotations={})
    del raw["metadata"]["annotations"]
    verdict = create(raw, ask_of(acme(hooks=[hami_admit_container])))
    assert jsonpatch.apply_patch(raw, [dict(op) for op in verdict.patch]) == verdict.pod
    assert limits_of(verdict) == {CORE: "5"}
    assert verdict.pod["metadata"]["annotations"] == {"acme.example/note": "x"}


@pytest.mark.parametrize(
    ("limits", "after"),
    [
        ({"count": 1}, {COUNT: "1", CORE: "100"}),
        ({"count": 1, "memory": 9000}, {COUNT: "1", MEMORY: "9000"}),
        ({"count": 1, "core": 35}, {COUNT: "1", CORE: "35"}),
        ({"memory": 4000}, {COUNT: "1", MEMORY: "4000"}),
    ],
)
def test_defaults_of_table_and_backend(limits: dict[str, Any], after: dict[str, str]) -> None:
    assert limits_of(create(pod(container(**limits)))) == after


def test_amounts_in_requests_get_the_default_count_too() -> None:
    raw = pod({"name": "main", "resources": {"requests": {MEMORY: "100"}}})
    assert limits_of(create(raw)) == {COUNT: "1"}


def test_family_without_a_default_count_adds_none() -> None:
    verdict = create(pod(container(memory=4000)), ask_of(acme(table=acme_family(admission=AdmissionRule()))))
    assert (verdict.allowed, verdict.patch) == (True, ())


def test_count_of_zero_asks_for_nothing() -> None:
    assert create(pod(container(count=0, memory=4000))).patch == ()


def test_backend_is_asked_also_where_no_device_is_asked_for() -> None:
    verdict = create(pod(container(priority=1)))
    assert env_of(verdict) == [("ACME_PRIORITY", "1")]
    assert verdict.pod["spec"]["schedulerName"] == "default-scheduler"


def test_backend_is_not_asked_about_containers_that_name_none_of_its_resources() -> None:
    asked = []

    def hami_admit_container(container: ContainerView, pod: PodView) -> Admission:
        asked.append((pod.namespace, container.name))
        return Admission()

    create(pod(container("web"), container("train", count=1)), ask_of(acme(hooks=[hami_admit_container])))
    assert asked == [("default", "train")]


def test_runtime_class_is_given_to_pods_with_devices_that_have_none() -> None:
    ask = ask_of(acme(table=table(runtime_class="acme")))
    assert create(pod(container(count=1)), ask).pod["spec"]["runtimeClassName"] == "acme"
    assert create(pod(container(count=1), runtimeClassName="kata"), ask).pod["spec"]["runtimeClassName"] == "kata"
    assert create(pod(container()), ask).patch == ()


@pytest.mark.parametrize(("asked", "written"), [("1", "24576"), ("24576", "24576"), ("24577", "49152")])
def test_memory_is_written_back_rounded_to_a_size(asked: str, written: str) -> None:
    verdict = create(pod(container(count=1, memory=asked)), ask_of(acme(table=table(write_memory="if-asked"))))
    resources = verdict.pod["spec"]["containers"][0]["resources"]
    assert resources["limits"][MEMORY] == resources["requests"][MEMORY] == written


def test_memory_beyond_the_largest_size_is_refused() -> None:
    verdict = create(pod(container(count=1, memory=98305)), ask_of(acme(table=table(write_memory="if-asked"))))
    assert "at most 98304 MiB of one device" in verdict.message


def test_memory_that_nobody_asked_is_written_only_where_it_always_is() -> None:
    sometimes, always = (ask_of(acme(table=table(write_memory=rule))) for rule in ("if-asked", "always"))
    assert MEMORY not in limits_of(create(pod(container(count=1)), sometimes))
    assert limits_of(create(pod(container(count=1)), always))[MEMORY] == "98304"


def test_memory_is_written_back_in_units_of_the_container() -> None:
    rule = AdmissionRule(write_memory="if-asked")
    shared = acme_family(admission=rule, memory=MemoryRule(unit_mib=512, per="container", step_mib=1024))
    assert limits_of(create(pod(container(count=2, memory=5)), ask_of(acme(table=shared))))[MEMORY] == "6"


def test_limits_and_requests_mirror_each_other() -> None:
    raw = pod({"name": "main", "resources": {"limits": {COUNT: "1"}, "requests": {MEMORY: "100"}}})
    verdict = create(raw, ask_of(acme(table=table(mirror=True), hooks=())))
    both = {COUNT: "1", MEMORY: "100"}
    assert verdict.pod["spec"]["containers"][0]["resources"] == {"limits": both, "requests": both}


def test_containers_that_ask_for_nothing_see_no_device() -> None:
    init = [container("prep"), {**container("proxy"), "restartPolicy": "Always"}]
    verdict = create(pod(container("web"), container("train", count=1), init=init))
    assert env_of(verdict, 0, "initContainers") == env_of(verdict, 1, "initContainers") == [("ACME_VISIBLE", "none")]
    assert env_of(verdict, 0) == [("ACME_VISIBLE", "none")]
    assert env_of(verdict, 1) == []


def test_closing_variable_is_the_last_word() -> None:
    web = container("web", env=[{"name": "ACME_VISIBLE", "value": "all"}])
    sly = container("sly", env=[{"name": "ACME_VISIBLE", "value": "none"}, {"name": "ACME_VISIBLE", "valueFrom": {}}])
    verdict = create(pod(web, sly, container("train", count=1)))
    assert env_of(verdict, 0) == [("ACME_VISIBLE", "all"), ("ACME_VISIBLE", "none")]
    assert env_of(verdict, 1)[-1] == ("ACME_VISIBLE", "none")


def test_pods_without_devices_are_closed_only_where_the_family_says_so() -> None:
    always = acme_family(admission=AdmissionRule(close_always=True))
    assert env_of(create(pod(container("web")), ask_of(acme(table=always)))) == [("ACME_VISIBLE", "none")]
    assert create(pod(container("web"))).patch == ()


def test_container_is_closed_to_the_backend_it_asks_nothing_of() -> None:
    verdict = create(pod(container("a", count=1), container("b", other=1), container("c")), ask_of(acme(), other()))
    assert env_of(verdict, 0) == [("OTHER_VISIBLE", "")]
    assert env_of(verdict, 1) == [("ACME_VISIBLE", "none")]
    assert sorted(env_of(verdict, 2)) == [("ACME_VISIBLE", "none"), ("OTHER_VISIBLE", "")]


def test_container_is_not_closed_with_a_variable_its_own_backend_speaks_in() -> None:
    ask = ask_of(acme(), other(closing_env={"ACME_VISIBLE": "none"}))
    verdict = create(pod(container("a", count=1), container("b", other=1)), ask)
    assert env_of(verdict, 0) == env_of(verdict, 1) == []


def test_equal_wishes_of_two_backends_merge() -> None:
    def hami_admit_container() -> Admission:
        return Admission(env={"SHARED": "1"}, annotations={"note": "x"}, runtime_class="shared")

    ask = ask_of(acme(hooks=[hami_admit_container]), other(hooks=[hami_admit_container]))
    verdict = create(pod(container(count=1, other=1)), ask)
    assert env_of(verdict) == [("SHARED", "1")]
    assert verdict.pod["spec"]["runtimeClassName"] == "shared"


def test_different_wishes_for_one_place_are_refused_naming_both_backends() -> None:
    def wants(value: str) -> Admission:
        return Admission(env={"SHARED": value})

    def first(container: ContainerView) -> Admission:
        return wants("1")

    def second(container: ContainerView) -> Admission:
        return wants("2")

    first.__name__ = second.__name__ = "hami_admit_container"
    verdict = create(pod(container(count=1, other=1)), ask_of(acme(hooks=[first]), other(hooks=[second])))
    assert not verdict.allowed
    assert "env SHARED: backend 'acme' wants '1' and backend 'other' wants '2'" in verdict.message


def test_two_runtime_classes_are_refused_naming_both_backends() -> None:
    ask = ask_of(acme(table=table(runtime_class="a")), other(table={"admission": AdmissionRule(runtime_class="o")}))
    message = create(pod(container("a", count=1), container("b", other=1)), ask).message
    assert "runtimeClassName: backend 'acme' wants 'a' and backend 'other' wants 'o'" in message


def test_backend_has_the_last_word_over_its_own_table() -> None:
    def hami_admit_container() -> Admission:
        return Admission(limits={COUNT: "3"})

    verdict = create(pod(container(memory=100)), ask_of(acme(hooks=[hami_admit_container])))
    assert limits_of(verdict)[COUNT] == "3"


def test_denial_of_a_backend_is_its_sentence() -> None:
    def hami_admit_container() -> Admission:
        return Admission(denied="two halves of one device are not for one container", warnings=("w",))

    verdict = create(pod(container(count=1)), ask_of(acme(hooks=[hami_admit_container])))
    assert (verdict.allowed, verdict.message) == (False, "two halves of one device are not for one container")


def test_memory_asked_twice_is_warned_about_and_the_amount_counts() -> None:
    verdict = create(pod(container(count=1, memory=2000, percent=50)))
    said = "container 'main': both acme.example/npu-memory and acme.example/npu-memory-percentage are given"
    assert verdict.allowed
    assert verdict.warnings == (f"{said}; only acme.example/npu-memory counts",)


@pytest.mark.parametrize("limits", [{"memory": 0, "percent": 50}, {"memory": 2000, "percent": 0}, {"percent": 50}])
def test_memory_asked_once_is_not_warned_about(limits: dict[str, Any]) -> None:
    assert create(pod(container(count=1, **limits))).warnings == ()


def test_warnings_of_backends_reach_the_author_once() -> None:
    def hami_admit_container() -> Admission:
        return Admission(warnings=("slow today",))

    verdict = create(pod(container("a", count=1), container("b", count=1)), ask_of(acme(hooks=[hami_admit_container])))
    assert verdict.warnings == ("slow today",)


def test_failing_backend_refuses_its_pods_by_name_and_no_others() -> None:
    def hami_admit_container() -> Admission:
        raise ZeroDivisionError("oops")

    ask = ask_of(acme(hooks=[hami_admit_container]), other())
    verdict = create(pod(container(count=1)), ask)
    assert (verdict.allowed, verdict.code) == (False, 500)
    assert "backend 'acme', hami_admit_container: ZeroDivisionError: oops" in verdict.message
    assert create(pod(container(other=1)), ask).allowed
    assert ask.errors["acme"] == 1


def test_backend_s_own_reading_of_a_request_counts() -> None:
    def hami_read_request(container: ContainerView) -> None:
        raise RequestError(OTHER_COUNT, "fewer", container.limits[OTHER_COUNT])

    verdict = create(pod(container(other=9)), ask_of(acme(), other(hooks=[hami_read_request])))
    assert verdict.message == "other.example/tpu: expected fewer, got 9"
