"""`hami explain`: the answer, its shape, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.commands.conftest import Hami, node, pod


def test_fitting_pod_is_placed_and_described(hami: Hami, saved: Any) -> None:
    nodes = saved("nodes.json", [node("small", 8000), node("big", 32000)])
    answer = hami(
        "explain", saved("pod.json", pod(count="1", memory="10000", cores="30")), "--nodes", nodes, "-o", "json"
    )
    assert answer.exit_code == 0
    told = json.loads(answer.output)
    assert told["pod"] == "ml/train"
    assert told["fits"] is True
    assert told["node"] == "big"
    assert told["devices"] == [
        {"container": "main", "backend": "mock", "id": "big-0", "memory_mib": 10000, "core_percent": 30}
    ]
    assert [n["node"] for n in told["nodes"]] == ["big", "small"]
    assert told["nodes"][1]["refusals"] == [
        {
            "code": "not-enough-memory",
            "device": "small-0",
            "message": "asked 10000 MiB, 8000 of 8000 MiB free",
        }
    ]
    assert json.loads(told["annotations"]["hami.io/device-allocated"])[0]["uuid"] == "big-0"
    assert not [key for key in told["annotations"] if "proof" in key or key.endswith("-time")]


def test_percent_is_resolved_to_mib_of_the_device(hami: Hami, saved: Any) -> None:
    nodes = saved("nodes.json", [node("n", 8001)])
    answer = hami("explain", saved("pod.json", pod(count="1", percent="50")), "--nodes", nodes, "-o", "json")
    assert json.loads(answer.output)["devices"][0]["memory_mib"] == 4000


def test_running_pods_are_counted(hami: Hami, saved: Any) -> None:
    nodes = saved("nodes.json", [node("n", 8000)])
    asked = saved("pod.json", pod(count="1", memory="5000", cores="10"))
    first = json.loads(hami("explain", asked, "--nodes", nodes, "-o", "json").output)
    running = pod("other", count="1", memory="5000", cores="10")
    running["metadata"]["annotations"] = first["annotations"]
    running["spec"]["nodeName"] = "n"
    answer = hami("explain", asked, "--nodes", nodes, "--pods", saved("pods.json", [running]), "-o", "json")
    told = json.loads(answer.output)
    assert answer.exit_code == 1
    assert (told["fits"], told["node"], told["devices"], told["annotations"]) == (False, None, [], {})
    assert told["nodes"][0]["refusals"][0]["message"] == "asked 5000 MiB, 3000 of 8000 MiB free"


def test_text_leads_with_the_answer(hami: Hami, saved: Any) -> None:
    nodes = saved("nodes.json", [node("n", 8000)])
    fits = hami("explain", saved("pod.json", pod(count="1", memory="100")), "--nodes", nodes)
    refused = hami("explain", saved("pod.json", pod(count="1", memory="9000")), "--nodes", nodes)
    assert fits.output.splitlines()[0].startswith("ml/train fits, best on node n")
    assert refused.output.splitlines()[0] == "ml/train fits on none of 1 nodes"
    assert "n-0" in refused.output
    assert "asked 9000 MiB, 8000 of 8000 MiB free" in refused.output


def test_pod_without_devices_fits_everywhere(hami: Hami, saved: Any) -> None:
    answer = hami("explain", saved("pod.json", pod()), "--nodes", saved("nodes.json", [node("n", 1)]), "-o", "json")
    told = json.loads(answer.output)
    assert answer.exit_code == 0
    assert (told["fits"], told["node"], told["devices"]) == (True, None, [])


@pytest.mark.parametrize(
    ("limits", "where"),
    [
        ({"count": "1", "memory": "12Gi"}, "acme.example/npu-memory"),
        ({"count": "1", "memory": "-5"}, "acme.example/npu-memory"),
        ({"count": "half"}, "acme.example/npu"),
    ],
)
def test_bad_quantity_is_bad_input(hami: Hami, saved: Any, limits: dict[str, str], where: str) -> None:
    nodes = saved("nodes.json", [node("n", 8000)])
    answer = hami("explain", saved("pod.json", pod(**limits)), "--nodes", nodes, "-o", "json")
    error = json.loads(answer.output)["error"]
    assert answer.exit_code == 2
    assert set(error) == {"where", "expected", "got", "hint"}
    assert where in error["where"]
    assert "main" in error["where"]


def test_unreadable_files_are_bad_input(hami: Hami, saved: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    nodes = saved("nodes.json", [node("n", 8000)])
    for arguments in ((broken, "--nodes", nodes), (saved("pod.json", pod(count="1")), "--nodes", broken)):
        answer = hami("explain", *arguments, "-o", "json")
        assert answer.exit_code == 2
        assert str(broken) in json.loads(answer.output)["error"]["where"]
    assert hami("explain", "ml/absent", "--nodes", nodes).exit_code == 2
    assert hami("explain", saved("pod.json", {"kind": "Service"}), "--nodes", nodes).exit_code == 2


@pytest.mark.parametrize(
    ("text", "got"), [("[]", "a list"), ("null", "null"), ("5", "a number"), ('{"kind": "Job"}', "Job")]
)
def test_document_that_is_no_pod_is_bad_input(hami: Hami, saved: Any, tmp_path: Path, text: str, got: str) -> None:
    (tmp_path / "odd.json").write_text(text)
    answer = hami("explain", tmp_path / "odd.json", "--nodes", saved("nodes.json", [node("n", 8000)]), "-o", "json")
    assert answer.exit_code == 2
    error = json.loads(answer.output)["error"]
    assert error == {"where": str(tmp_path / "odd.json"), "expected": "a Pod", "got": got, "hint": ""}


@pytest.mark.parametrize("option", ["--nodes", "--pods", "--quotas", "--config"])
def test_file_that_is_not_there_is_an_answer_for_programs(hami: Hami, saved: Any, tmp_path: Path, option: str) -> None:
    absent = tmp_path / "absent.json"
    nodes = saved("nodes.json", [node("n", 8000)])
    answer = hami("explain", saved("pod.json", pod(count="1")), "--nodes", nodes, option, absent, "-o", "json")
    assert answer.exit_code == 2
    assert json.loads(answer.output)["error"]["where"] == str(absent)


@pytest.mark.parametrize(
    "objects", [[{"kind": "Pod", "metadata": {"name": "p"}}], [{"metadata": {}}], [{"kind": "Node"}]]
)
def test_objects_of_another_kind_or_without_a_name_are_bad_input(hami: Hami, saved: Any, objects: Any) -> None:
    nodes = saved("nodes.json", [node("n", 8000), *objects])
    answer = hami("explain", saved("pod.json", pod(count="1")), "--nodes", nodes, "-o", "json")
    assert answer.exit_code == 2
    assert json.loads(answer.output)["error"]["where"] == f"{nodes}: object 2"


@pytest.mark.parametrize("odd", [{"status": "ready"}, {"metadata": {"name": "odd", "annotations": {"a": 1}}}])
def test_node_of_another_shape_is_bad_input_and_no_refusal(hami: Hami, saved: Any, odd: dict[str, Any]) -> None:
    nodes = saved("nodes.json", [node("odd", 8000) | odd])
    answer = hami("explain", saved("pod.json", pod(count="1")), "--nodes", nodes, "-o", "json")
    assert answer.exit_code == 2
    assert "odd" in json.loads(answer.output)["error"]["where"]


def test_bad_node_and_bad_record_stop_nothing_else(hami: Hami, saved: Any) -> None:
    garbled = node("garbled", 8000)
    garbled["metadata"]["annotations"] = dict.fromkeys(garbled["metadata"]["annotations"], "{not json")
    holder = pod("holder", count="1")
    holder["metadata"]["annotations"] = {"hami.io/device-allocated": "][", "hami.io/bind-node": "held"}
    holder["spec"]["nodeName"] = "held"
    nodes = saved("nodes.json", [garbled, node("held", 8000), node("good", 8000)])
    asked = saved("pod.json", pod(count="1", memory="100"))
    answer = hami("explain", asked, "--nodes", nodes, "--pods", saved("pods.json", [holder]), "-o", "json")
    told = json.loads(answer.output)
    assert told["node"] == "good"
    reasons = {n["node"]: {r["code"] for r in n["refusals"]} for n in told["nodes"] if not n["fits"]}
    assert reasons["held"] == {"unreadable-record"}
    assert "garbled" in reasons


def test_quotas_are_never_silently_left_out(hami: Hami, saved: Any) -> None:
    nodes = saved("nodes.json", [node("n", 8000)])
    quotas = saved("quotas.json", [])
    answer = hami("explain", saved("pod.json", pod(count="1")), "--nodes", nodes, "--quotas", quotas, "-o", "json")
    assert "quotas are not counted" in answer.stderr
    assert json.loads(answer.stdout).keys() == {"pod", "fits", "node", "devices", "nodes", "annotations"}


def test_pod_of_the_saved_list_is_named_as_in_a_cluster(hami: Hami, saved: Any) -> None:
    nodes = saved("nodes.json", [node("n", 8000)])
    bound = pod("bound", count="1", memory="8000", cores="10")
    answer = hami("explain", saved("pod.json", bound), "--nodes", nodes, "-o", "json")
    bound["metadata"]["annotations"] = json.loads(answer.output)["annotations"]
    bound["spec"]["nodeName"] = "n"
    pods = saved("pods.json", [pod("other", count="1", memory="9000"), bound])
    told = json.loads(hami("explain", "ml/bound", "--nodes", nodes, "--pods", pods, "-o", "json").output)
    assert (told["pod"], told["node"]) == ("ml/bound", "n"), "its own record does not stand in its way"
    assert hami("explain", "ml/other", "--nodes", nodes, "--pods", pods).exit_code == 1
    assert hami("explain", "ml/absent", "--nodes", nodes, "--pods", pods).exit_code == 2


def test_pod_written_by_hand_without_a_uid_is_counted(hami: Hami, saved: Any) -> None:
    nodes = saved("nodes.json", [node("n", 8000)])
    asked = saved("pod.json", pod(count="1", memory="5000", cores="10"))
    running = pod("other", count="1", memory="5000", cores="10")
    del running["metadata"]["uid"]
    running["metadata"]["annotations"] = json.loads(hami("explain", asked, "--nodes", nodes, "-o", "json").output)[
        "annotations"
    ]
    running["spec"]["nodeName"] = "n"
    answer = hami("explain", asked, "--nodes", nodes, "--pods", saved("pods.json", [running]), "-o", "json")
    assert answer.exit_code == 1


def test_amount_that_the_webhook_refuses_is_told_part_by_part(hami: Hami, saved: Any) -> None:
    manifest = pod(count="1", memory="12Gi")
    del manifest["metadata"]["uid"]
    answer = hami("explain", saved("p.json", manifest), "--nodes", saved("n.json", [node("n", 8000)]), "-o", "json")
    assert answer.exit_code == 2
    error = json.loads(answer.output)["error"]
    assert error["where"].endswith("acme.example/npu-memory")
    assert (error["got"], error["hint"]) == ("'12Gi'", "write 12288: one unit is 1 MiB")


def test_manifest_that_was_never_created_passes_admission_first(hami: Hami, saved: Any) -> None:
    nodes = saved("nodes.json", [node("n", 8000)])
    refused, bare = pod(count="1", percent="140"), pod(count="1", memory="100")
    for manifest in (refused, bare):
        del manifest["metadata"]["uid"]
    answer = hami("explain", saved("refused.json", refused), "--nodes", nodes, "-o", "json")
    assert answer.exit_code == 2
    assert "acme.example/npu-memory-percentage" in json.loads(answer.output)["error"]["got"]
    assert hami("explain", saved("bare.json", bare), "--nodes", nodes).exit_code == 0


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("spec", "containers", "none"),
        ("spec", "priority", "high"),
        ("metadata", "name", 5),
        ("metadata", "uid", 5),
    ],
)
def test_misshapen_pod_is_bad_input(hami: Hami, saved: Any, part: str, field: str, value: Any) -> None:
    broken = pod(count="1")
    broken[part][field] = value
    path = saved("pod.json", broken)
    answer = hami("explain", path, "--nodes", saved("nodes.json", [node("n", 8000)]), "-o", "json")
    assert answer.exit_code == 2
    error = json.loads(answer.output)["error"]
    assert (error["where"], error["got"].split(":")[0]) == (str(path), f"{part}.{field}")


def test_misshapen_status_is_bad_input(hami: Hami, saved: Any) -> None:
    broken = pod(count="1") | {"status": 5}
    nodes, path = saved("nodes.json", [node("n", 8000)]), saved("pod.json", broken)
    assert hami("explain", path, "--nodes", nodes).exit_code == 2
    answer = hami("explain", saved("good.json", pod(count="1")), "--nodes", nodes, "--pods", path, "-o", "json")
    assert json.loads(answer.output)["error"]["got"] == "status: expected an object, got a number"
