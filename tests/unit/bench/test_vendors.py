"""A dozen generated backends load beside the installed ones, in this process and in one of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.answers import Refusal
from hami_core_py.models.backends import DeviceRule
from hami_core_py.testing.builders import candidate, pod, request
from tests.bench.vendors import SECTIONS, install, plugins

TWELVE = sorted(SECTIONS)


@pytest.fixture(scope="module")
def ask() -> Ask:
    backends = load_backends(plugins=plugins())
    assert not backends.left_out
    return Ask(backends)


def test_there_are_twelve_of_them_with_families_of_all_shapes(ask: Ask) -> None:
    assert [b.info.name for b in ask.backends.loaded] == TWELVE
    assert len(TWELVE) == 12
    assert len(ask.families) == 24


def test_other_processes_find_them_installed(tmp_path: Path) -> None:
    show = "from hami_core_py.hooks.manager import load_backends as l; import json; b = l(); "
    show += "print(json.dumps([[x.info.name for x in b.loaded], b.left_out]))"
    result = subprocess.run(
        [sys.executable, "-c", show], env=install(tmp_path), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    loaded, left_out = json.loads(result.stdout)
    assert set(TWELVE) <= set(loaded)
    assert left_out == {}


def test_rules_of_their_own_refuse_tenants_of_another_size(ask: Ask) -> None:
    (rule,) = ask.filter_rules(request(family="XPU"), pod())
    assert isinstance(rule, DeviceRule)
    seat = candidate()
    assert not rule.refuses(seat)
    crowded = candidate(used_slots=1, used_memory_mib=seat.share.memory_mib + 1)
    assert rule.refuses(crowded)


def test_combinations_come_from_the_fuller_wing(ask: Ask) -> None:
    seats = tuple(candidate(index=i) for i in (0, 1, 2, 3, 5, 6))
    assert ask.select_devices(request(family="kunlun", count=2), seats) == (4, 5)
    assert ask.select_devices(request(family="kunlun", count=4), seats) == (0, 1, 2, 3)
    assert isinstance(ask.select_devices(request(family="kunlun", count=8), seats), Refusal)
