"""The runner of golden vectors itself: that it sees a difference, and what it prints."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.compare import differences
from tests.vectors.files import ROOT, Ours, Vector, changed, read_vectors
from tests.vectors.runner import judge, run

RIGHT = {"id": "w-right", "kind": "weights-parse", "input": {"value": "slot=1,core=2,memory=3"}}
ANSWER = {"value": {"slot": 1, "core": 2, "memory": 3}}
PATCH = {"nodeNames": ["n1"], "patch": {"metadata": {"annotations": {"a": "1", "b": "2"}}}}


def vector(**fields: Any) -> Vector:
    return Vector(**{"id": "v", "kind": "k", "input": {}, "expected": {"value": 1}, **fields})


def everything(_: Vector, answer: Any) -> Any:
    return answer


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ({"a": 1.0}, {"a": 1}),
        ({"a": 0.1}, {"a": 0.1000000001}),
        ({"t": "<time:10>"}, {"t": "1788084000"}),
        ({"t": '[{"a": 1}]'}, {"t": '[{"a":1}]'}),
        ({"error": "invalid core field: x"}, {"error": "node: core: expected a number"}),
        ({"spec": {"limits": {"r": "3k"}}}, {"spec": {"limits": {"r": "3000"}}}),
    ],
)
def test_answers_that_say_the_same_do_not_differ(expected: Any, got: Any) -> None:
    assert not list(differences(expected, got))


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, {}),
        ({}, {"a": 1}),
        ({"a": [1]}, {"a": [1, 2]}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"t": "<time:10>"}, {"t": "178808400"}),
        ({"t": '[{"a": 1}]'}, {"t": '[{"a":2}]'}),
        ({"error": "invalid core field: x"}, {"error": "node: memory: expected a number"}),
        ({"error": "x"}, {}),
        ({"spec": {"limits": {"r": "3k"}}}, {"spec": {"limits": {"r": "3001"}}}),
        ({"name": "3k"}, {"name": "3000"}),
    ],
)
def test_answers_that_say_something_else_differ(expected: Any, got: Any) -> None:
    assert list(differences(expected, got))


def test_corrected_annotations_replace_those_of_v210() -> None:
    asked = vector(expected=PATCH, corrected={"a": "9", "b": None}, differs_ok=True)
    right = {"nodeNames": ["n1"], "patch": {"metadata": {"annotations": {"a": "9"}}}}
    assert not judge(asked, right, None, everything)
    assert judge(asked, PATCH, None, everything)


def test_alternative_is_as_right_as_the_answer() -> None:
    asked = vector(alternative={"value": 2})
    assert not judge(asked, {"value": 1}, None, everything)
    assert not judge(asked, {"value": 2}, None, everything)
    assert judge(asked, {"value": 3}, None, everything)


def test_difference_that_is_allowed_needs_an_answer_of_ours(tmp_path: Path) -> None:
    allowed = {**RIGHT, "expected": {"value": {}}, "differs_ok": True, "why": "v2.10 is wrong here"}
    path = write(tmp_path / "v.jsonl", allowed)
    undecided = run(read_vectors(path), {})
    assert (str(undecided), list(undecided.undecided)) == ("0 passed, 0 failed, 1 skipped", ["w-right"])
    assert "v2.10 is wrong here" in undecided.undecided["w-right"][-1]
    assert str(run(read_vectors(path), {"w-right": Ours("as asked", ANSWER)})) == "1 passed, 0 failed, 0 skipped"
    assert str(run(read_vectors(path), {"w-right": Ours("as asked", {})})) == "0 passed, 1 failed, 0 skipped"


def test_our_answer_counts_instead_of_that_of_v210() -> None:
    assert judge(vector(), {"value": 1}, Ours("two is right", {"value": 2}), everything)


def test_configuration_is_merged_and_null_removes() -> None:
    base = {"a": {"b": 1, "c": [1, 2]}, "d": 1}
    assert changed(base, {"a": {"b": None, "c": [3]}, "e": 2}) == {"a": {"c": [3]}, "d": 1, "e": 2}


def write(path: Path, *vectors: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in vectors), encoding="utf-8")
    return path


def test_broken_answer_counts_as_a_difference_and_stops_nothing(tmp_path: Path) -> None:
    path = write(
        tmp_path / "v.jsonl", {**RIGHT, "id": "broken", "input": {}, "expected": {}}, {**RIGHT, "expected": ANSWER}
    )
    tally = run(read_vectors(path), {})
    assert (tally.passed, list(tally.differing)) == (1, ["broken"])


def test_command_prints_differences_and_last_the_counts(tmp_path: Path) -> None:
    path = write(
        tmp_path / "v.jsonl",
        {**RIGHT, "expected": ANSWER},
        {**RIGHT, "id": "w-wrong", "expected": {"value": {"slot": 9, "core": 2, "memory": 3}}},
        {**RIGHT, "id": "later", "kind": "not-built-yet", "expected": {}},
    )
    command = [sys.executable, "-m", "tests.vectors", str(path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = ended.stdout.splitlines()
    assert ended.returncode == 1
    assert lines[0] == "w-wrong:"
    assert "value.slot: expected 9, got 1" in lines[1]
    assert lines[-2].split() == ["not", "covered", "yet:", "1", "not-built-yet"]
    assert lines[-1] == "1 passed, 1 failed, 1 skipped"


def test_command_names_a_file_that_is_not_there() -> None:
    command = [sys.executable, "-m", "tests.vectors", "nowhere.jsonl"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "no such file" in ended.stdout
