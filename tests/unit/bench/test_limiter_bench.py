"""How the figures of the limiter are put together; the programs that answer are scripts of ours."""

import os
import sys
from pathlib import Path

import pytest

from hami_core_py.bench import limiter
from hami_core_py.commands.bench_limiter import lines

ANSWERS = {"launch": 90, "alloc": 40, "info": 7, "lookup": 25, "contend": 70}


def asker(folder: Path, body: str) -> None:
    program = folder / limiter.ASKER
    program.write_text(f"#!{sys.executable}\nimport os, sys\n{body}\n")
    program.chmod(0o755)


def test_program_that_holds_thousands_of_blocks_is_asked_and_lets_go_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "held", lambda *options: ["env", f"MORE={10 * len(options)}"])
    asker(
        tmp_path,
        f"answers, more, holds = {ANSWERS}, int(os.environ.get('MORE', 0)), 0\n"
        "for line in sys.stdin:\n"
        "    word, _, count = line.strip().partition(' ')\n"
        "    holds = int(count) if word == 'hold' else holds\n"
        "    print(0 if word == 'hold' else answers[word] + more + holds / 20000, flush=True)",
    )
    bare, ours = limiter.costs(tmp_path, dict(os.environ), rounds=2)
    assert bare == {
        "launch_unlimited_ns": 90,
        "launch_limited_ns": 90,
        "alloc_free_ns": 40,
        "alloc_free_20000_blocks_ns": 41,
        "alloc_free_1000000_blocks_ns": 90,
        "alloc_free_contended_ns": 70,
        "memory_info_ns": 7,
        "get_proc_address_ns": 25,
    }
    assert ours == {
        "launch_unlimited_ns": 110,
        "launch_limited_ns": 130,
        "alloc_free_ns": 60,
        "alloc_free_20000_blocks_ns": 61,
        "alloc_free_1000000_blocks_ns": 110,
        "alloc_free_contended_ns": 90,
        "memory_info_ns": 27,
        "get_proc_address_ns": 45,
    }


def test_program_that_ends_is_named_with_what_it_was_asked(tmp_path: Path) -> None:
    asker(tmp_path, "sys.exit(3)")
    with (
        limiter.Asked([str(tmp_path / limiter.ASKER)], dict(os.environ)) as program,
        pytest.raises(limiter.LimiterBenchError, match=r"ended with 3 when it was asked 'launch'"),
    ):
        program.figure(["launch"])


def test_programs_that_do_not_start_are_counted(tmp_path: Path) -> None:
    client = tmp_path / limiter.CLIENT
    client.write_text("#!/bin/sh\necho started\n")
    client.chmod(0o755)
    env = limiter.environment({}, tmp_path)
    assert limiter.start_seconds([], env, 5) >= 0
    client.write_text("#!/bin/sh\necho no card >&2\n")
    with pytest.raises(limiter.LimiterBenchError, match="0 of 5 programs started: no card"):
        limiter.start_seconds([], env, 5)


def test_table_shows_what_the_limiter_adds() -> None:
    told = lines(
        {
            "bare": {"launch_limited_ns": 90.0},
            "ours": {"launch_limited_ns": 104.0},
            "start_300_s": {"bare": 1.0, "ours": 1.5},
            "share_error": [],
        }
    )
    assert told[1].split() == ["launch_limited_ns", "90.0", "104.0", "14.0"]
    assert told[2].split() == ["start_300_s", "1.000", "1.500", "0.500"]


CELL = limiter.Cell(108, 500, 1, "saturating", 30, 1.5)


def measured(monkeypatch: pytest.MonkeyPatch, told: list[list[float]]) -> dict[str, object]:
    """A cell on a card that tells such percentages, one pair a look; its programs are those of a shell."""
    monkeypatch.setattr(limiter, "held", lambda *_: ["env"])
    monkeypatch.setattr(limiter, "CLIENT", "sleep 60 #")
    monkeypatch.setattr(limiter, "WARM_UP_SECONDS", 0.0)
    looks = iter([[1.0, 1.0], *told])
    return limiter.share(CELL, dict(os.environ), "c", 1.0, lambda _tags, _seconds: next(looks))


def test_share_beside_a_neighbour_that_got_no_processor_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(monkeypatch, [[44.0, 20.0], [30.2, 67.0]])
    assert found["measured"] == 30.2
    assert list(found) == ["sms", "kernel_us", "processes", "neighbour", "limit", "allowed", "measured"]


def test_machine_that_is_always_busy_is_measured_when_the_card_was_busiest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured(monkeypatch, [[50.0, 0.0], [33.0, 55.0], [44.0, 20.0]])["measured"] == 33.0
