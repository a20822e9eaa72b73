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


def test_file_that_is_no_list_of_objects_is_named(made: Path) -> None:
    bad = made / "bad.json"
    bad.write_text("7")

    answer = CliRunner().invoke(
        main,
        ["bench", "filter", "--nodes", str(bad), "--pods", str(made / "pods.json"), "--pod", str(made / "pod.json")],
    )

    assert answer.exit_code == 2
    assert "bad.json" in answer.output


def test_family_that_is_not_installed_is_refused_with_those_that_are(tmp_path: Path) -> None:
    answer = CliRunner().invoke(
        main, ["bench", "generate", "--nodes", "1", "--pods", "0", "--family", "Nobody", "--out", str(tmp_path)]
    )

    assert answer.exit_code == 2
    assert "'Nobody'" in answer.output
