"""``hami bench``: the real scheduler in a process of its own, on a small cluster."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from hami_core_py.cli import main

FIGURES = {"p50_ms", "p99_ms", "cpu_ms_per_request", "requests_per_s", "rss_mib", "cold_start_s"}


@pytest.fixture
def made(tmp_path: Path) -> Path:
    arguments = ["--nodes", "3", "--devices", "2", "--pods", "5", "--seed", "1", "--out", str(tmp_path)]
    answer = CliRunner().invoke(main, ["bench", "generate", *arguments])
    assert answer.exit_code == 0, answer.output
    return tmp_path


def test_filters_are_measured_while_events_arrive(made: Path) -> None:
    files = [word for name in ("nodes", "pods", "pod") for word in (f"--{name}", str(made / f"{name}.json"))]
    beside = ["--shapes", "5", "--pod-events", "100", "--node-changes", "20"]
    answer = CliRunner().invoke(main, ["bench", "filter", *files, "--requests", "30", *beside, "-o", "json"])

    assert answer.exit_code == 0, answer.output
    measured = json.loads(answer.output)
    assert set(measured) == FIGURES
    assert 0 < measured["p50_ms"] <= measured["p99_ms"]
    assert measured["rss_mib"] > 10


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("nodes", "7"),
        ("nodes", "[]"),
        ("pods", "{"),
        ("pods", "- metadata: {name: a}"),
        ("pod", '{"kind": "Job"}'),
        ("pod", '{"kind": "Pod", "status": 5}'),
        ("pod", None),
    ],
)
def test_file_that_cannot_be_measured_is_named_before_anything_starts(
    made: Path, option: str, text: str | None
) -> None:
    bad = made / ("bad.yaml" if text and text.startswith("-") else "bad.json")
    if text is not None:
        bad.write_text(text)
    files = {name: str(made / f"{name}.json") for name in ("nodes", "pods", "pod")} | {option: str(bad)}
    given = [word for name, path in files.items() for word in (f"--{name}", path)]

    answer = CliRunner().invoke(main, ["bench", "filter", *given, "-o", "json"])

    assert answer.exit_code == 2
    assert json.loads(answer.output)["error"]["where"] == str(bad)


def test_pod_whose_amount_cannot_be_read_is_refused_before_anything_starts(made: Path) -> None:
    pod = json.loads((made / "pod.json").read_text())
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    limits.update(dict.fromkeys(limits, "12Gi"))
    (made / "pod.json").write_text(json.dumps(pod))
    files = [word for name in ("nodes", "pods", "pod") for word in (f"--{name}", str(made / f"{name}.json"))]

    answer = CliRunner().invoke(main, ["bench", "filter", *files, "-o", "json"])

    assert answer.exit_code == 2
    assert json.loads(answer.output)["error"]["got"] == "'12Gi'"


def test_family_that_is_not_installed_is_refused_with_those_that_are(tmp_path: Path) -> None:
    answer = CliRunner().invoke(
        main, ["bench", "generate", "--nodes", "1", "--pods", "0", "--family", "Nobody", "--out", str(tmp_path)]
    )

    assert answer.exit_code == 2
    assert "'Nobody'" in answer.output
