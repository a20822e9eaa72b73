"""``hami certify``: what a case's verdict becomes on a screen, in JSON, and as an exit code."""

import json
import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hami_core_py.cli import main

PASSED = {"case": "one", "sentence": "One holds.", "result": "passed", "expected": "", "seen": "", "seconds": 0.1}
FAILED = {**PASSED, "case": "two", "sentence": "Two holds.", "result": "failed", "expected": "2", "seen": "3"}


@pytest.fixture
def simulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command in the simulator's place: it prints the file `lines` and ends with what `status` says."""
    command = tmp_path / "bin" / "hami-sim"
    command.parent.mkdir()
    command.write_text(
        '#!/bin/sh\necho "$@" > "$0.words"\ncat "$0.lines"\necho "error: broken" >&2\nexit $(cat "$0.status")\n'
    )
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("hami_core_py.commands.certify.find_command", lambda: str(command))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    (tmp_path / "limiter.so").touch()
    return command


def run(simulator: Path, verdicts: list[dict[str, object]], status: int, *words: str) -> Result:
    Path(f"{simulator}.lines").write_text("".join(json.dumps(one) + "\n" for one in verdicts))
    Path(f"{simulator}.status").write_text(str(status))
    return CliRunner().invoke(main, ["certify", *words, str(simulator.parents[1] / "limiter.so")])


def test_a_limiter_that_passes_everything_ends_with_zero(simulator: Path) -> None:
    done = run(simulator, [PASSED], 0)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[-1] == "1 passed"


def test_a_failed_case_is_shown_with_what_was_expected_and_ends_with_one(simulator: Path) -> None:
    done = run(simulator, [PASSED, FAILED], 1)
    assert done.exit_code == 1
    assert "expected 2" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed"


def test_programs_get_a_list(simulator: Path) -> None:
    assert json.loads(run(simulator, [PASSED, FAILED], 1, "-o", "json").stdout) == [PASSED, FAILED]


def test_a_simulator_that_breaks_is_never_taken_for_success(simulator: Path) -> None:
    for status in (1, 2):
        done = run(simulator, [PASSED], status)
        assert done.exit_code == 2
        assert "broken" in done.stderr


def test_options_reach_the_simulator(simulator: Path) -> None:
    run(simulator, [], 0, "--case", "one", "--case", "two", "--told-by", "file")
    words = Path(f"{simulator}.words").read_text().split()
    assert words[:-1] == ["certify", "--case", "one", "--case", "two", "--told-by", "file"]
