"""Every question reaches its owner and what a policy put around it, and a failure stays with the plugin that made it."""

import logging
from collections.abc import Generator, Sequence
from types import ModuleType
from typing import Any

import pytest

from hami_core_py.errors import BackendError, RequestError
from hami_core_py.hooks import hookimpl
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.allocations import Allocation, Grant
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.backends import Admission, DeviceRule
from hami_core_py.models.devices import Inventory
from hami_core_py.models.families import Family, Resources
from hami_core_py.models.requests import CoreUnits
from hami_core_py.testing.builders import allocation, candidate, container, device, family, node, pod, request
from hami_core_py.testing.plugins import make_plugin


class Defaults:
    """A core that reads one device out of everything."""

    @hookimpl(trylast=True)
    def hami_read_request(self, family: Family) -> Sequence[Any]:
        return (request(family=family.name),)

    @hookimpl(trylast=True)
    def hami_read_inventory(self, family: Family) -> Inventory:
        return Inventory(devices=(device("from-table", family=family.name),))


def ask(*plugins: tuple[str, ModuleType]) -> Ask:
    return Ask(load_backends(plugins=plugins, defaults=Defaults()))


def acme(*hooks: Any) -> tuple[str, ModuleType]:
    return make_plugin("acme", [family()], hooks=hooks)


def other(*hooks: Any) -> tuple[str, ModuleType]:
    theirs = family("Other", resources=Resources(count="other.example/npu"))
    return make_plugin("other", [theirs], hooks=hooks)


def read(asked: Ask, name: str = "Acme") -> tuple[Any, ...]:
    return asked.read_request(container(), pod(), asked.families[name])


def test_owner_answers_before_the_table() -> None:
    def hami_read_request(family: Family) -> Sequence[Any]:
        return (request(count=7),)

    assert read(ask(acme(hami_read_request))) == (request(count=7),)


def test_table_answers_where_the_owner_does_not() -> None:
    def hami_read_request() -> None:
        return None

    assert read(ask(acme(hami_read_request))) == (request(),)
    assert read(ask(acme())) == (request(),)


def test_empty_answer_of_the_owner_is_an_answer() -> None:
    def hami_read_request() -> Sequence[Any]:
        return ()

    assert read(ask(acme(hami_read_request))) == ()


def test_only_the_owner_of_the_family_is_asked() -> None:
    def hami_read_request() -> Sequence[Any]:
        raise AssertionError("not mine")

    assert read(ask(acme(), other(hami_read_request))) == (request(),)


def test_policy_around_an_owner_hook_sees_and_changes_the_owners_answer() -> None:
    def hami_read_request() -> Sequence[Any]:
        return (request(count=2),)

    def policy_read() -> Generator[None, Any, Any]:
        answer = yield
        return tuple(request(count=2 * r.count) for r in answer)

    policy_read.__name__ = "hami_read_request"
    site = make_plugin("site", wrappers=[policy_read])
    assert read(ask(acme(hami_read_request), site)) == (request(count=4),)


def test_policy_around_an_owner_hook_sees_the_tables_answer_and_the_arguments() -> None:
    seen = []

    def hami_read_request(family: Family) -> Generator[None, Any, Any]:
        answer = yield
        seen.append((family.name, answer))
        return answer

    asked = ask(acme(), other(), make_plugin("site", wrappers=[hami_read_request]))
    read(asked)
    read(asked, "Other")
    assert seen == [("Acme", (request(),)), ("Other", (request(family="Other"),))]


def test_policy_may_answer_for_an_owner_that_leaves_the_choice_to_the_core() -> None:
    def hami_select_devices() -> Generator[None, Any, Any]:
        answer = yield
        return answer or (1,)

    asked = ask(acme(), make_plugin("site", wrappers=[hami_select_devices]))
    assert asked.implements("hami_select_devices", "Acme")
    assert asked.select_devices(request(), (candidate(), candidate(index=1))) == (1,)


def test_policy_may_deny_admission_for_every_backend() -> None:
    def hami_admit_container() -> Generator[None, Any, Any]:
        answers = yield
        return [Admission(denied="not on Fridays"), *answers]

    asked = ask(acme(), make_plugin("site", wrappers=[hami_admit_container]))
    assert asked.admit_container(asked.owner("Acme"), container(), pod()).denied == "not on Fridays"


def test_backend_with_families_cannot_wrap_its_neighbours() -> None:
    def hami_read_request() -> Generator[None, Any, Any]:
        yield
        return ()

    theirs = family("Other", resources=Resources(count="other.example/npu"))
    nosy = make_plugin("nosy", [theirs], wrappers=[hami_read_request])
    assert read(ask(acme(), nosy)) == (request(),)


def test_policy_that_answers_an_owner_hook_without_wrapping_it_is_not_asked() -> None:
    def hami_read_request() -> Sequence[Any]:
        raise AssertionError("a policy owns no family")

    assert read(ask(acme(), make_plugin("site", hooks=[hami_read_request]))) == (request(),)


def test_rules_come_from_the_owner_and_from_policies_by_name() -> None:
    def rules(word: str) -> Any:
        def hami_filter_rules() -> Sequence[Any]:
            return (DeviceRule(reason=Reason.BACKEND_RULE, sentence=word, refuses=bool, reads=()),)

        return hami_filter_rules

    policies = [make_plugin(name, hooks=[rules(name)]) for name in ("zebra", "ant")]
    asked = ask(*policies, acme(rules("owner")), other(rules("stranger")))
    assert [r.sentence for r in asked.filter_rules(request(), pod())] == ["owner", "ant", "zebra"]


def test_failure_of_a_backend_is_counted_for_it_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def hami_read_request() -> Sequence[Any]:
        raise ZeroDivisionError("oops")

    asked = ask(acme(hami_read_request), other())
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            with pytest.raises(BackendError, match="backend 'acme', hami_read_request: ZeroDivisionError: oops"):
                read(asked)
    assert asked.errors == {"acme": 3}
    assert len(caplog.records) == 1
    assert read(asked, "Other") == (request(family="Other"),)


def test_failure_of_a_policy_is_counted_for_the_policy_not_for_the_owner_it_wraps() -> None:
    def hami_read_request() -> Generator[None, Any, Any]:
        yield
        raise ValueError("policy broke")

    asked = ask(acme(), make_plugin("site", wrappers=[hami_read_request]))
    with pytest.raises(BackendError, match="backend 'site'"):
        read(asked)
    assert asked.errors == {"site": 1}


def test_failure_of_an_owner_is_the_owners_although_a_policy_wraps_it() -> None:
    def hami_read_request() -> Sequence[Any]:
        raise ValueError("owner broke")

    def policy() -> Generator[None, Any, Any]:
        return (yield)

    policy.__name__ = "hami_read_request"
    asked = ask(acme(hami_read_request), make_plugin("site", wrappers=[policy]))
    with pytest.raises(BackendError, match="backend 'acme'"):
        read(asked)


def test_bad_request_of_a_pod_is_no_failure_of_the_backend() -> None:
    def hami_read_request() -> Sequence[Any]:
        raise RequestError("main: acme.example/npu", "a whole number", "'x'")

    asked = ask(acme(hami_read_request))
    with pytest.raises(RequestError):
        read(asked)
    assert asked.errors == {}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (("npu",), "expected DeviceRequest, got str"),
        ((request(family="Other"),), "expected requests of family 'Acme'"),
        ((request(count=0),), "expected requests of family 'Acme'"),
    ],
)
def test_answer_that_is_no_request_of_the_family_is_a_failure(answer: Any, problem: str) -> None:
    def hami_read_request() -> Any:
        return answer

    with pytest.raises(BackendError, match=problem):
        read(ask(acme(hami_read_request)))


@pytest.mark.parametrize("answer", [(0,), (0, 0), (0, 2), (-1, 0)])
def test_selection_must_name_as_many_distinct_positions_as_asked(answer: Any) -> None:
    def hami_select_devices() -> Any:
        return answer

    with pytest.raises(BackendError, match="expected 2 distinct positions"):
        ask(acme(hami_select_devices)).select_devices(request(count=2), (candidate(), candidate(index=1)))


def test_selection_may_refuse_and_may_leave_the_choice_to_the_core() -> None:
    def refusing() -> Any:
        return Refusal(reason=Reason.NO_COMBINATION)

    def silent() -> None:
        return None

    refusing.__name__ = silent.__name__ = "hami_select_devices"
    assert ask(acme(refusing)).select_devices(request(), (candidate(),)) == Refusal(reason=Reason.NO_COMBINATION)
    assert ask(acme(silent)).select_devices(request(), (candidate(),)) is None
    assert not ask(acme()).implements("hami_select_devices", "Acme")


@pytest.mark.parametrize("score", [-0.1, 1.1, float("nan")])
def test_score_outside_its_range_is_a_failure(score: float) -> None:
    from hami_core_py.models.views import PlacementView

    def hami_score_placement() -> float:
        return score

    with pytest.raises(BackendError, match="expected 0–1"):
        ask(acme(hami_score_placement)).score_placement(PlacementView(family="Acme", chosen=(), before=()))


def test_allocate_without_an_answer_is_a_failure() -> None:
    with pytest.raises(BackendError, match="would start without its devices"):
        ask(acme()).allocate(allocation())


def test_grant_of_the_owner_is_handed_on() -> None:
    def hami_allocate(allocation: Allocation) -> Grant:
        return Grant(env={"NPU": allocation.container})

    assert ask(acme(hami_allocate)).allocate(allocation()) == Grant(env={"NPU": "main"})


def test_annotation_that_a_backend_did_not_announce_is_a_failure() -> None:
    from hami_core_py.models.allocations import PlacedPod

    def hami_write_record() -> Any:
        return {"acme.example/index": "0", "acme.example/secret": "1"}

    placed = PlacedPod(uid="u", namespace="d", name="p", node="n", family="Acme", at_ns=0, containers=())
    plugin = make_plugin("acme", [family()], hooks=[hami_write_record], annotations=("acme.example/index",))
    with pytest.raises(BackendError, match=r"key 'acme\.example/secret' is not in BackendInfo\.annotations"):
        ask(plugin).write_record(placed)


def test_discovery_must_answer_devices() -> None:
    def hami_discover_devices() -> Any:
        return ["npu-0"]

    asked = ask(acme(hami_discover_devices))
    with pytest.raises(BackendError, match="expected Device, got str"):
        asked.discover_devices(asked.owner("Acme"))


def test_inventory_comes_from_the_table_where_the_owner_is_silent() -> None:
    asked = ask(acme())
    assert asked.read_inventory(node(), asked.families["Acme"]).devices == (device("from-table"),)


def test_settings_are_handed_to_those_who_name_them() -> None:
    from hami_core_py.hooks import BackendSettings

    class Settings(BackendSettings):
        units: int = 1

    def hami_read_request(settings: Settings) -> Any:
        return (request(core=CoreUnits(settings.units)),)

    plugin = make_plugin("acme", [family()], hooks=[hami_read_request], settings=Settings)
    backends = load_backends(plugins=[plugin], sections={"acme": {"units": 5}})
    assert read(Ask(backends)) == (request(core=CoreUnits(5)),)
