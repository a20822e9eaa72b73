from __future__ import annotations

import pytest

from hami_core_py.lab.apiserver import Call, Fault, Faults, StatusError, Store, consult
from hami_core_py.lab.apiserver.faults import fault_from_json
from hami_core_py.lab.apiserver.resources import find

from .pods import pod

BIND = Call("create", find("pods"), "default", "train", "binding", "scheduler")


@pytest.mark.parametrize(
    ("fault", "meets"),
    [
        (Fault(), True),
        (Fault(verbs=("create", "patch"), resource="pods"), True),
        (Fault(verbs=("get",)), False),
        (Fault(resource="nodes"), False),
        (Fault(subresource="binding"), True),
        (Fault(subresource=""), False),
        (Fault(namespace="other"), False),
        (Fault(name="train", user="scheduler"), True),
        (Fault(user="kubelet"), False),
    ],
)
def test_a_fault_meets_the_requests_it_names(fault: Fault, meets: bool) -> None:
    faults = Faults()
    faults.add(fault)
    assert (faults.strike(BIND, "before") is not None) is meets


def test_a_fault_strikes_as_often_as_told() -> None:
    faults = Faults()
    faults.add(Fault(times=2))
    assert [faults.strike(BIND, "before") is not None for _ in range(3)] == [True, True, False]
    assert faults.all() == []


def test_a_fault_strikes_at_its_moment() -> None:
    faults = Faults()
    faults.add(Fault(when="after"))
    assert faults.strike(BIND, "before") is None
    assert faults.strike(BIND, "after") is not None


def test_chance_repeats_with_its_seed() -> None:
    def strikes(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.add(Fault(probability=0.5))
        return [faults.strike(BIND, "before") is not None for _ in range(50)]

    assert strikes(1) == strikes(1) != strikes(2)
    assert 10 < sum(strikes(1)) < 40


def test_a_removed_fault_strikes_no_more() -> None:
    faults = Faults()
    number = faults.add(Fault())
    assert faults.remove(number)
    assert not faults.remove(number)
    assert faults.strike(BIND, "before") is None


def test_an_unknown_field_of_a_fault_is_named() -> None:
    with pytest.raises(StatusError, match="unknown field 'statsu'"):
        fault_from_json({"statsu": 503})
    assert fault_from_json({"status": 503, "verbs": ["get"]}).error() is not None


def test_faults_strike_a_store_used_in_one_process(store: Store) -> None:
    faults, slept = Faults(), list[float]()
    store.before, store.after = consult(faults, "before", slept.append), consult(faults, "after", slept.append)
    faults.add(Fault(verbs=("create",), resource="pods", stall_s=3, drop=True, when="after", times=1))
    with pytest.raises(ConnectionError, match="create pods"):
        store.create("pods", pod(), "default")
    assert slept == [3]
    faults.add(Fault(verbs=("get",), status=503, times=1))
    with pytest.raises(StatusError, match="injected fault"):
        store.get("pods", "train", "default")
    assert store.get("pods", "train", "default")["metadata"]["name"] == "train"
