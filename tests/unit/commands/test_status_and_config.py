"""`hami status` and `hami config check`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.commands.conftest import Hami, node, pod


def test_status_shows_devices_and_shares(hami: Hami, saved: Any) -> None:
    nodes = saved("nodes.json", [node("n", 8000), node("bare")])
    asked = saved("pod.json", pod(count="1", memory="5000", cores="10"))
    written = json.loads(hami("explain", asked, "--nodes", nodes, "-o", "json").output)["annotations"]
    running = pod("other", count="1")
    running["metadata"]["annotations"] = written
    running["spec"]["nodeName"] = "n"
    pods = saved("pods.json", [running])
    told = json.loads(hami("status", "--nodes", nodes, "--pods", pods, "-o", "json").output)
    assert [n["node"] for n in told["nodes"]] == ["bare", "n"]
    assert told["nodes"][1]["devices"][0]["memory_mib"] == {"used": 5000, "total": 8000}
    assert told["pods"] == [
        {
            "pod": "ml/other",
            "node": "n",
            "shares": [{"container": "main", "device": "n-0", "memory_mib": 5000, "core_units": 10}],
        }
    ]
    text = hami("status", "--nodes", nodes, "--pods", pods).output
    assert "5000/8000" in text
    assert "ml/other" in text


def test_names_with_brackets_are_shown_as_they_are(hami: Hami, saved: Any) -> None:
    asked = pod(count="1", memory="100")
    asked["spec"]["containers"][0]["name"] = "m[/b]"
    nodes, path = saved("nodes.json", [node("n[/b]", 8000)]), saved("pod.json", asked)
    for answer in (hami("status", "--nodes", nodes), hami("explain", path, "--nodes", nodes)):
        assert answer.exit_code == 0
        assert "n[/b]-0" in answer.output


def test_status_without_any_source_says_what_to_give(hami: Hami) -> None:
    answer = hami("status")
    assert answer.exit_code == 2
    assert "--kubeconfig" in answer.output


def test_good_configuration_is_ok(hami: Hami, tmp_path: Path) -> None:
    path = tmp_path / "hami.yaml"
    path.write_text("placement: {nodePolicy: spread}\nmock: {pollSeconds: 1}\nstranger: {a: b}\n")
    answer = hami("config", "check", path, "-o", "json")
    told = json.loads(answer.output)
    assert answer.exit_code == 0
    assert told["ok"] is True
    assert told["unchecked"] == ["stranger"]
    assert "acme.example/npu" in told["backends"]["mock"]


@pytest.mark.parametrize(
    ("text", "where", "hint"),
    [
        ("placement: {nodePolcy: spread}", "placement.nodePolcy", "nodePolicy"),
        ("placement: {nodePolicy: pack}", "placement.nodePolicy", ""),
        ("placement: {devicePolicy: pack}", "placement.devicePolicy", ""),
        ("placment: {}", "placment", "placement"),
        ("mock: {pollSecond: 1}", "hami.yaml: mock.pollSecond", "pollSeconds"),
        ("mock: {pollSeconds: -1}", "hami.yaml: mock.pollSeconds", ""),
        ("placement: [", "", ""),
        ("- a list", "", ""),
        ("1: x", "hami.yaml", ""),
        ("placement: 5", "placement", ""),
        ("backends: {enabled: [nope]}", "backend 'nope'", ""),
        ("scheduler: {reconcileSeconds: -1}", "scheduler.reconcileSeconds", ""),
    ],
)
def test_mistake_in_a_configuration_is_named(hami: Hami, tmp_path: Path, text: str, where: str, hint: str) -> None:
    path = tmp_path / "hami.yaml"
    path.write_text(text)
    answer = hami("config", "check", path, "-o", "json")
    error = json.loads(answer.output)["error"]
    assert answer.exit_code == 2
    assert where in error["where"]
    assert hint in error["hint"]


def test_environment_and_an_empty_section_go_together(
    hami: Hami, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HAMI_PLACEMENT__NODE_POLICY", "spread")
    path = tmp_path / "hami.yaml"
    path.write_text("placement:\n")
    assert hami("config", "check", path).exit_code == 0
    path.write_text("placement: 5\n")
    assert hami("config", "check", path).exit_code == 2
