"""Nobody but the control plane states allocations."""

from dataclasses import replace
from typing import Any

import pytest

from hami_core_py.decisions.admission import PodWrite, Verdict, admit
from hami_core_py.models.backends import Admission
from tests.unit.admission.acme import RULES, acme, ask_of, container, create, pod

FORGED = {"hami.io/acme-devices-allocated": "npu-9,Acme,10,0:;", "hami.io/vgpu-node": "n2"}


def update(before: dict[str, str], after: dict[str, str], user: str = "", **fields: Any) -> Verdict:
    old, new = pod(container(count=1), annotations=before), pod(container(count=1), annotations=after)
    write = PodWrite(pod=new, before=old, namespace="default", operation="UPDATE", user=user, **fields)
    return admit(write, ask_of(), replace(RULES, trusted_users=frozenset({"agent"})))


@pytest.mark.parametrize("scheduler", ["hami-scheduler", "default-scheduler", "volcano", ""])
@pytest.mark.parametrize("limits", [{}, {"count": 1}])
def test_forged_record_is_refused_whatever_the_scheduler(scheduler: str, limits: dict[str, Any]) -> None:
    verdict = create(pod(container(**limits), annotations=FORGED, schedulerName=scheduler))
    assert (verdict.allowed, verdict.code, verdict.reason, verdict.patch) == (False, 403, "Forbidden", ())
    assert "hami.io/acme-devices-allocated, hami.io/vgpu-node" in verdict.message


@pytest.mark.parametrize(
    "key",
    [
        "hami.io/device-allocated",
        "hami.io/device-allocated-proof",
        "hami.io/bind-node",
        "hami.io/device-bind-phase",
        "hami.io/vgpu-node",
        "hami.io/vgpu-time",
        "hami.io/bind-time",
        "hami.io/bind-phase",
        "hami.io/acme-devices-allocated",
        "hami.io/acme-devices-to-allocate",
        "hami.io/stranger-devices-allocated",
        "acme.example/record",
    ],
)
def test_every_bookkeeping_key_is_guarded(key: str) -> None:
    assert key in create(pod(container(), annotations={key: "x"})).message


@pytest.mark.parametrize(
    "key", ["hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy", "acme.example/use-type", "notes"]
)
def test_what_users_may_say_is_admitted(key: str) -> None:
    assert create(pod(container(count=1), annotations={key: "binpack"})).allowed


def test_value_that_admission_itself_gives_is_no_forgery() -> None:
    def hami_admit_container() -> Admission:
        return Admission(annotations={"acme.example/record": "2"})

    ask = ask_of(acme(hooks=[hami_admit_container]))
    first = create(pod(container(count=2)), ask)
    assert first.pod["metadata"]["annotations"] == {"acme.example/record": "2"}
    assert create(dict(first.pod), ask).allowed
    other_value = pod(container(count=2), annotations={"acme.example/record": "3"})
    assert "acme.example/record" in create(other_value, ask).message


def test_update_that_leaves_the_record_as_it_is_passes() -> None:
    verdict = update(FORGED, {**FORGED, "notes": "x"})
    assert (verdict.allowed, verdict.patch) == (True, ())


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, FORGED), (FORGED, {**FORGED, "hami.io/vgpu-node": "n3"}), (FORGED, {})],
    ids=["added", "changed", "removed"],
)
@pytest.mark.parametrize("subresource", ["", "status", "ephemeralcontainers"])
def test_update_of_the_record_is_refused(before: dict[str, str], after: dict[str, str], subresource: str) -> None:
    verdict = update(before, after, subresource=subresource)
    assert not verdict.allowed
    assert "hami.io/vgpu-node" in verdict.message


def test_trusted_user_may_write_the_record() -> None:
    assert update({}, FORGED, user="agent").allowed
    assert not update({}, FORGED, user="someone").allowed


def test_update_defaults_and_checks_nothing_else() -> None:
    new = pod(container(count=1, percent=140), annotations={})
    write = PodWrite(pod=new, before=pod(container(count=1)), namespace="default", operation="UPDATE")
    verdict = admit(write, ask_of(), RULES)
    assert (verdict.allowed, verdict.patch) == (True, ())
