"""Scenario files: what they may say, and how mistakes are pointed at."""

from pathlib import Path

import pytest

from hami_core_py.errors import BadInputError
from hami_core_py.lab.pod_facts import matches, split_name
from hami_core_py.lab.scenario import default_shape, load_scenario
from hami_core_py.lab.steps import ExpectedShare

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.name)
def test_example_scenario_is_read(path: Path) -> None:
    scenario = load_scenario(path)
    assert any(step.kind.startswith("expect") for step in scenario.steps)


LAB = "- lab: {nodes: [{name: a, devices: "


@pytest.mark.parametrize(
    ("text", "where", "expected"),
    [
        ("- say: hello\n- expect: {pod: a, phaze: Running}\n", ":2: expect.phaze", "one of"),
        ("- say: hello\n- expect:\n    phase: Running\n", ":2: expect.pod", "Field required"),
        ("- expect:\n    pod: a\n    withinSeconds: soon\n", ":3: expect.withinSeconds", "a valid number"),
        ("- measure: {cores: {}}\n", ":1: measure.cores", "at least 1"),
        ("- measure: {pod: a}\n", ":1: measure.memoryMibAtMost", "Field required"),
        ("- apiVersion: v1\n  kind: Pod\n", ":1: metadata", "a value"),
        ("- apiVersion: v1\n  kind: Pod\n  metadata: {name: 3}\n", ":1: metadata.name", "a name"),
        ("- shout: hello\n", ":1", "lab, say, expect"),
        ("- say: hello\n- lab: {nodes: [{name: a}]}\n", ":2", "'lab' as the first item"),
        ("- lab: {nodes: []}\n", ":1: lab.nodes", "at least 1"),
        ("- process: {program: toaster, action: kill}\n", ":1: process.program", "device-plugin"),
        ("- say: {a: b}\n", ":1: say", "text"),
        ("- say: a\n  say: b\n", ":2", "YAML"),
        ("- say: a\n- {[x]: y}\n", ":2", "YAML"),
        ("- say: a\n- {1: y}\n", ":2", "YAML"),
        ("- say: a\n- say: !!binary aGVsbG8=\n", ":2: say", "text"),
        ("just text\n", "scenario.yaml:1", "a YAML list"),
        ("", "scenario.yaml:1", "a YAML list"),
        (LAB + "[{memory_mb: 5}]}]}\n", ":1: lab.nodes.0.devices.0.memory_mb", "memory_mib"),
        (LAB + "[{family: Acme,\n  memory_mib: 12Gi}]}]}\n", ":2: lab.nodes.0.devices.0.memory_mib", "a valid integer"),
        (LAB + "[{slots: 2}]}]}\n", ":1: lab.nodes.0.devices.0.family", "Field required"),
        (LAB + "[{family: Acme},\n  {family: Acne}]}]}\n", ":2: lab.nodes.0.devices.1.family", "one of Acme"),
        ("- [unclosed\n", ":2", "YAML"),
        ("- just text\n", ":1", "a mapping"),
    ],
)
def test_mistake_is_named_with_file_line_and_field(tmp_path: Path, text: str, where: str, expected: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BadInputError) as caught:
        load_scenario(path, ["Acme"])
    assert caught.value.where.startswith(str(path))
    assert caught.value.where.endswith(where)
    assert expected in caught.value.expected


def test_invented_family_of_the_scenario_itself_is_known(tmp_path: Path) -> None:
    path = written(tmp_path, LAB + "[{family: Own}]}], families: [{name: Own}]}\n- say: a\n")
    assert load_scenario(path, []).shape.nodes[0].devices[0]["family"] == "Own"


def test_dates_are_texts_as_the_api_server_reads_them(tmp_path: Path) -> None:
    scenario = load_scenario(written(tmp_path, "- say: 2024-01-01\n"), ["Acme"])
    assert scenario.steps[0].value == "2024-01-01"


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="a readable file"):
        load_scenario(tmp_path / "absent.yaml")


def test_name_without_namespace_is_in_default() -> None:
    assert split_name("web") == ("default", "web")
    assert split_name("ml/web") == ("ml", "web")


def test_shares_pair_up_one_to_one() -> None:
    share = {"container": "main", "uuid": "d0", "memory": 100, "cores": 10}
    assert matches([ExpectedShare(memory_mib=100)], [share])
    assert not matches([ExpectedShare(memory_mib=100)], [share, share])
    assert not matches([ExpectedShare(memory_mib=100), ExpectedShare(memory_mib=200)], [share, share])


def test_default_shape_offers_devices_of_the_first_family_only() -> None:
    shape = default_shape(["acme", "other"])
    assert [node.name for node in shape.nodes] == ["node-a", "node-b", "node-c"]
    assert {device["family"] for node in shape.nodes for device in node.devices} == {"acme"}
    assert all(not node.devices for node in default_shape([]).nodes)
