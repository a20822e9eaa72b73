"""The certification of limiters: that a library which limits nothing fails it, and that it says why."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hami_backend_mock import sim
from hami_backend_mock.certify import suite
from hami_backend_mock.certify.elf import exported_names
from hami_backend_mock.certify.stand import Failed


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that does nothing when it is preloaded."""
    os.environ.setdefault(sim.LIBRARIES, str(sim.libraries()))
    folder = tmp_path_factory.mktemp("idle")
    (folder / "idle.c").write_text("int idle(void); int idle(void) { return 1; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "idle.so", folder / "idle.c"], check=True)
    return folder / "idle.so"


def certify(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from hami_backend_mock.command import main; main()", "certify", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_a_library_that_limits_nothing_fails_and_is_told_why(idle: Path) -> None:
    done = certify("--told-by", "environment", "--case", "program-linked", "--case", "umask-kept", str(idle))
    assert done.returncode == 1, done.stderr
    linked, umask = (json.loads(line) for line in done.stdout.splitlines())
    assert (linked["result"], umask["result"]) == ("failed", "passed")
    assert linked["seen"] == "0"
    assert linked["expected"].endswith(": 2")


def test_a_library_that_takes_limits_in_no_known_way_is_not_tried(idle: Path) -> None:
    done = certify(str(idle))
    assert done.returncode == 2
    assert "none of them held" in done.stderr


def test_a_case_that_is_not_known_is_refused(idle: Path) -> None:
    done = certify("--case", "nothing", str(idle))
    assert done.returncode == 2
    assert "'nothing'" in done.stderr


def test_a_case_of_files_is_skipped_where_the_environment_tells(idle: Path) -> None:
    assert suite.play(suite.CASES["scrubbed"], idle, "environment").result == "skipped"


def test_a_program_that_ends_is_a_failure_with_its_last_words(idle: Path, tmp_path: Path) -> None:
    stand = suite.Stand(idle, "environment", tmp_path)
    try:
        program = stand.container(stand.node()).spawn()
        with pytest.raises(Failed, match="no such step"):
            program.ask("fly")
    finally:
        stand.close()


def test_exported_names_are_read_from_a_library(idle: Path) -> None:
    assert "idle" in exported_names(idle)
    assert "printf" not in exported_names(idle)


def test_every_case_says_in_a_sentence_what_holds() -> None:
    for one in suite.CASES.values():
        assert one.sentence.endswith("."), one.name
        assert one.name == one.name.lower().replace("_", "-")
