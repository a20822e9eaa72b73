"""The time model against the numbers it was specified with."""

import json
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SIMULATOR = HERE.parents[1] / "simulator"


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    program = tmp_path_factory.mktemp("engine") / "checks"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", f"-I{SIMULATOR}"]
    subprocess.run(["cc", *flags, HERE / "engine_checks.c", SIMULATOR / "engine.c", "-o", program], check=True)
    return dict(json.loads(subprocess.run([program], check=True, capture_output=True).stdout))


def test_a_context_alone_has_the_whole_device(numbers):
    assert numbers["alone"] == pytest.approx(100, abs=0.1)


def test_two_saturating_contexts_share_equally_and_pay_the_switches(numbers):
    assert numbers["two"] == pytest.approx([48.8, 48.8], abs=0.1)


def test_turns_are_per_context_and_not_per_container(numbers):
    assert numbers["four_and_one"] == pytest.approx([78, 19.5], abs=0.3)


def test_a_long_kernel_takes_twice_its_time_beside_a_neighbour(numbers):
    assert numbers["long_kernel_ms"] == pytest.approx(100, abs=4.5)


def test_shares_do_not_depend_on_the_length_of_kernels(numbers):
    assert numbers["tiny_beside"] == pytest.approx([48.8, 48.8], abs=0.1)


def test_longer_turns_waste_less_on_switches(numbers):
    assert numbers["two_6ms"] == pytest.approx([49.6, 49.6], abs=0.1)


def test_nothing_depends_on_when_the_books_are_looked_at(numbers):
    assert numbers["steps"] == 1
