"""`hami admit`: the answer, its shape, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.commands.conftest import CORE, Hami, pod

EXAMPLE = Path(__file__).parents[3] / "examples" / "pods" / "share.yaml"


def told(hami: Hami, *arguments: str | Path, code: int) -> dict[str, Any]:
    answer = hami("admit", *arguments, "-o", "json")
    assert answer.exit_code == code, answer.output
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_allowed_pod_comes_with_its_patch_and_patched(hami: Hami, saved: Any) -> None:
    given = pod(count="1", memory="4000")
    answer = told(hami, saved("pod.json", given), code=0)
    assert answer.keys() == {"allowed", "message", "warnings", "patch", "pod"}
    assert (answer["allowed"], answer["message"], answer["warnings"]) == (True, "", [])
    assert answer["patch"] == [{"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"}]
    assert answer["pod"] == {**given, "spec": {**given["spec"], "schedulerName": "hami-scheduler"}}


def test_refused_pod_comes_as_it_was_with_a_sentence(hami: Hami, saved: Any) -> None:
    given = pod(count="1", memory="12Gi")
    answer = told(hami, saved("pod.json", given), code=1)
    assert (answer["allowed"], answer["patch"], answer["pod"]) == (False, [], given)
    assert "pod ml/train, container 'main'" in answer["message"]
    assert "write 12288" in answer["message"]


def test_foreign_scheduler_is_warned_about(hami: Hami, saved: Any) -> None:
    given = pod(count="1")
    given["spec"]["schedulerName"] = "volcano"
    answer = told(hami, saved("pod.json", given), code=0)
    assert answer["message"] == "pod already has different scheduler assigned"
    assert "not managed by HAMi" in answer["warnings"][0]


def test_first_pod_of_a_manifest_counts(hami: Hami, tmp_path: Path) -> None:
    manifest = tmp_path / "all.yaml"
    service = {"kind": "Service", "metadata": {"name": "s"}}
    manifest.write_text(yaml.safe_dump_all([service, pod("one", count="1"), pod("two", count="2")]))
    assert told(hami, manifest, code=0)["pod"]["metadata"]["name"] == "one"


def test_namespace_may_be_given(hami: Hami, saved: Any) -> None:
    given = pod(count="x")
    assert "pod ml/train" in told(hami, saved("pod.json", given), code=1)["message"]
    assert "pod lab/train" in told(hami, saved("pod.json", given), "--namespace", "lab", code=1)["message"]
    del given["metadata"]["namespace"]
    assert "pod default/train" in told(hami, saved("pod.json", given), code=1)["message"]


def test_settings_of_a_file_hold(hami: Hami, saved: Any, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({"webhook": {"schedulerName": "acme-sched"}}))
    answer = told(hami, saved("pod.json", pod(count="1")), "--config", config, code=0)
    assert answer["pod"]["spec"]["schedulerName"] == "acme-sched"


@pytest.mark.parametrize(
    ("content", "expected", "got"),
    [
        ('{"kind": "Pod", "metadata": []}', "a pod as the API spells it", "metadata: expected an object, got a list"),
        ('{"kind": "Service"}', "a Pod", "Service"),
        ("{", "JSON or YAML", ""),
    ],
)
def test_manifest_that_cannot_be_read_is_bad_input(
    hami: Hami, tmp_path: Path, content: str, expected: str, got: str
) -> None:
    manifest = tmp_path / "pod.json"
    manifest.write_text(content)
    error = told(hami, manifest, code=2)["error"]
    assert error.keys() == {"where", "expected", "got", "hint"}
    assert (str(manifest) in error["where"], error["expected"]) == (True, expected)
    assert got in error["got"]


MANIFEST = """
kind: Pod
metadata: {name: p, creationTimestamp: 2024-01-01T00:00:00Z, labels: {day: 2024-01-01}}
spec: &spec
  containers: [{name: main, image: x}]
"""


def test_dates_of_a_manifest_are_texts(hami: Hami, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    metadata = told(hami, tmp_path / "pod.yaml", code=0)["pod"]["metadata"]
    assert (metadata["creationTimestamp"], metadata["labels"]["day"]) == ("2024-01-01T00:00:00Z", "2024-01-01")


@pytest.mark.parametrize("odd", ["self: *spec", "data: !!binary aGVsbG8=", "1: x", "some: !!set {a, b}"])
def test_value_that_json_cannot_hold_is_bad_input(hami: Hami, tmp_path: Path, odd: str) -> None:
    (tmp_path / "pod.yaml").write_text(f"{MANIFEST}  {odd}\n")
    assert told(hami, tmp_path / "pod.yaml", code=2)["error"]["where"] == str(tmp_path / "pod.yaml")


def test_pod_that_is_nowhere_is_bad_input(hami: Hami) -> None:
    assert told(hami, "missing.yaml", code=2)["error"]["where"] == "missing.yaml"
    assert "cluster" in told(hami, "ml/train", code=2)["error"]["expected"]


def test_text_for_people_leads_with_the_answer(hami: Hami, saved: Any) -> None:
    allowed = hami("admit", saved("pod.json", pod(count="1")))
    assert allowed.output.splitlines()[0].endswith("pod.json: allowed")
    assert 'add     /spec/schedulerName = "hami-scheduler"' in allowed.output
    refused = hami("admit", saved("pod.json", pod(count="1", cores="140")))
    assert refused.exit_code == 1
    assert f"refused: pod ml/train, container 'main': {CORE}: expected at most 100, got '140'" in refused.output
    plain = hami("admit", saved("pod.json", pod()))
    assert plain.output.splitlines()[1].strip() == "nothing is changed"


def test_pod_of_the_examples_is_admitted_and_asks_for_a_share(hami: Hami) -> None:
    assert {"op": "add", "path": "/spec/schedulerName", "value": "hami-scheduler"} in told(hami, EXAMPLE, code=0)[
        "patch"
    ]
