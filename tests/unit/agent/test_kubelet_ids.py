"""The kubelet's ids of slots."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core_py.decisions.kubelet_ids import device_of, kubelet_ids, preferred_ids
from hami_core_py.testing.builders import device


@given(st.text(min_size=1, max_size=20), st.integers(1, 12))
def test_every_id_leads_back_to_its_device(name, slots):
    ids = kubelet_ids(device(name, slots=slots))
    assert len(set(ids)) == slots
    assert {device_of(one) for one in ids} == {name}


@pytest.mark.parametrize(
    "text", ["", "npu-0", "npu-0-1", "::1", "npu-0::", "npu-0::x", "npu-0::01", "npu-0::-1", "a::²"]
)
def test_ids_of_others_are_not_guessed_at(text):
    assert device_of(text) is None


AVAILABLE = [f"npu-{d}::{s}" for d in range(3) for s in range(2)]


def test_ids_are_on_the_wanted_devices():
    assert preferred_ids(AVAILABLE, [], 2, [device("npu-2").id, device("npu-1").id]) == ("npu-2::0", "npu-1::0")


def test_ids_that_must_be_included_count_for_their_device():
    wanted = [device("npu-2").id, device("npu-1").id]
    assert preferred_ids(AVAILABLE, ["npu-1::1"], 2, wanted) == ("npu-1::1", "npu-2::0")


def test_no_opinion_when_a_wanted_device_has_no_id_left():
    assert preferred_ids(["npu-0::0"], [], 1, [device("npu-2").id]) == ()


def test_unknown_devices_are_spread():
    assert preferred_ids(AVAILABLE, [], 4, None) == ("npu-0::0", "npu-1::0", "npu-2::0", "npu-0::1")


@given(
    st.frozensets(st.sampled_from(AVAILABLE)),
    st.integers(0, 6),
    st.none() | st.lists(st.sampled_from([device(f"npu-{n}").id for n in range(3)]), max_size=4),
)
def test_answer_is_empty_or_as_many_distinct_available_ids_as_asked(available, size, wanted):
    chosen = preferred_ids(available, [], size, wanted)
    assert len(chosen) in (0, size)
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= available
