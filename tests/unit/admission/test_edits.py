"""Edits of an object and their JSON patch say the same."""

from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core_py.decisions.edits import Edits

KEYS = st.sampled_from(["a", "b/c", "d~e", "~1"])


@given(
    given_object=st.dictionaries(KEYS, st.dictionaries(KEYS, st.dictionaries(KEYS, st.integers(0, 2))) | st.none()),
    edits=st.lists(st.tuples(KEYS, KEYS, KEYS, st.integers(0, 2)), max_size=4),
)
def test_patch_turns_the_given_object_into_the_edited_one(
    given_object: dict[str, Any], edits: list[tuple[str, str, str, int]]
) -> None:
    edited = Edits(given_object)
    for *path, value in edits:
        edited.set(path, value)
    assert jsonpatch.apply_patch(given_object, edited.operations) == edited.object
    assert all(_at(edited.object, path) is not None for *path, _ in edits)


def _at(found: Any, path: list[str]) -> Any:
    for key in path:
        found = found[key]
    return found


def test_equal_value_is_no_edit() -> None:
    given_object = {"spec": {"name": "x"}}
    edits = Edits(given_object)
    edits.set(("spec", "name"), "x")
    assert edits.operations == []
    assert edits.object is given_object


def test_missing_parents_are_made_in_one_operation() -> None:
    edits = Edits({"spec": {}})
    edits.set(("spec", "resources", "limits", "acme.example/npu"), "1")
    assert edits.operations == [
        {"op": "add", "path": "/spec/resources", "value": {"limits": {"acme.example/npu": "1"}}}
    ]


def test_later_edits_do_not_reach_back_into_earlier_operations() -> None:
    edits = Edits({})
    edits.set(("a", "b"), 1)
    edits.set(("a", "c"), 2)
    assert edits.operations == [
        {"op": "add", "path": "/a", "value": {"b": 1}},
        {"op": "add", "path": "/a/c", "value": 2},
    ]


@pytest.mark.parametrize("env", [None, [], [{"name": "A"}]])
def test_elements_are_appended_to_a_list_that_may_be_missing(env: list[Any] | None) -> None:
    raw = {"containers": [{} if env is None else {"env": env}]}
    edits = Edits(raw)
    edits.append(("containers", 0, "env"), [{"name": "B"}, {"name": "C"}])
    names = [variable["name"] for variable in edits.object["containers"][0]["env"]]
    assert names == [*(variable["name"] for variable in env or ()), "B", "C"]
    assert jsonpatch.apply_patch(raw, edits.operations) == edits.object


def test_nothing_appended_is_no_edit() -> None:
    edits = Edits({"a": []})
    edits.append(("a",), [])
    assert edits.operations == []
