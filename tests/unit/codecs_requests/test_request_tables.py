"""A family's tables turn container resources into requests; each case is the rule of some vendor."""

from typing import Any

import pytest

from hami_core_py.codecs.requests import read_by_table
from hami_core_py.errors import RequestError
from hami_core_py.models.devices import Profile
from hami_core_py.models.families import CoreRule, Family, MemoryRule, Resources, Selectors
from hami_core_py.models.requests import (
    WHOLE_DEVICE,
    CoreAsk,
    CorePercent,
    CoreUnits,
    DeviceRequest,
    MemoryAsk,
    MemoryMib,
    MemoryPercent,
    Selection,
)
from hami_core_py.testing.builders import CORE, COUNT, MEMORY, PERCENT, container, family, pod

PLAIN = family()


def read(table: Family = PLAIN, requests: dict[str, Any] | None = None, **limits: Any) -> DeviceRequest | None:
    """The request of a container; ``memory=4000`` stands for the resource of that role."""
    names = {"count": COUNT, "memory": MEMORY, "percent": PERCENT, "core": CORE}
    found = read_by_table(
        container(
            limits={names[k]: v for k, v in limits.items()}, requests={names[k]: v for k, v in (requests or {}).items()}
        ),
        pod(),
        table,
    )
    assert len(found) <= 1
    return found[0] if found else None


def memory_of(table: Family = PLAIN, **limits: Any) -> MemoryAsk:
    asked = read(table, **{"count": 1, **limits})
    assert asked is not None
    return asked.memory


def core_of(table: Family = PLAIN, **limits: Any) -> CoreAsk:
    asked = read(table, **{"count": 1, **limits})
    assert asked is not None
    return asked.core


def refused(table: Family = PLAIN, **limits: Any) -> RequestError:
    with pytest.raises(RequestError) as error:
        read(table, **limits)
    return error.value


def test_bare_count_asks_for_whole_devices_by_default() -> None:
    assert read(count=2) == DeviceRequest(family="Acme", count=2, memory=WHOLE_DEVICE, core=CoreUnits(100))


@pytest.mark.parametrize("limits", [{}, {"count": 0}, {"memory": 4000, "core": 30}])
def test_container_without_a_count_asks_for_nothing(limits: dict[str, Any]) -> None:
    assert read(**limits) is None


@pytest.mark.parametrize("text", ["-1", "500m", "1.0", "4294967297", "one"])
def test_count_that_is_no_whole_number_is_refused(text: str) -> None:
    error = refused(count=text)
    assert error.where == f"pod default/train, container 'main': {COUNT}"
    assert error.got == repr(text)


def test_amounts_may_stand_in_requests() -> None:
    asked = read(requests={"count": 2, "memory": 1000})
    assert asked is not None
    assert (asked.count, asked.memory) == (2, MemoryMib(1000))


def test_limits_win_over_requests() -> None:
    asked = read(requests={"count": 3, "memory": 300, "core": 50}, count=1, memory=100, core=5)
    assert asked == DeviceRequest(family="Acme", count=1, memory=MemoryMib(100), core=CoreUnits(5))


def test_family_may_read_limits_alone() -> None:
    only = family(resources=Resources(count=COUNT, memory=MEMORY, read_from="limits"))
    assert read(only, requests={"count": 1}) is None
    asked = read(only, requests={"memory": 300}, count=1)
    assert asked is not None
    assert asked.memory == WHOLE_DEVICE


@pytest.mark.parametrize(("text", "mib"), [("6k", 6000), ("1Ki", 1024), ("2147483647", 2147483647)])
def test_memory_is_counted_in_units(text: str, mib: int) -> None:
    assert memory_of(memory=text) == MemoryMib(mib)


@pytest.mark.parametrize("text", ["12Gi", "1500m", "-200", "3000000000", "16.0Gi", "much"])
def test_memory_that_cannot_be_is_refused(text: str) -> None:
    error = refused(count=1, memory=text)
    assert error.where == f"pod default/train, container 'main': {MEMORY}"
    assert error.got == repr(text)


def test_bytes_for_mib_are_refused_with_the_right_number() -> None:
    assert refused(count=1, memory="12Gi").hint == "write 12288: one unit is 1 MiB"


def test_no_memory_is_the_family_default() -> None:
    assert memory_of(family(memory=MemoryRule(default=MemoryMib(512)))) == MemoryMib(512)
    assert memory_of(family(memory=MemoryRule(default=MemoryMib(512))), memory=0) == MemoryMib(512)


def test_unit_scales_memory_and_its_bound() -> None:
    blocks = family(memory=MemoryRule(unit_mib=256))
    assert memory_of(blocks, memory=1000) == MemoryMib(256000)
    assert memory_of(blocks, memory=8388607) == MemoryMib(2147483392)
    assert refused(blocks, count=1, memory=8388608).expected == "a whole number of units of 256 MiB from 0 to 8388607"


def test_default_is_not_scaled() -> None:
    assert memory_of(family(memory=MemoryRule(unit_mib=2, default=MemoryMib(512)))) == MemoryMib(512)


def test_memory_is_rounded_up_to_the_step() -> None:
    steps = family(memory=MemoryRule(step_mib=512))
    assert memory_of(steps, memory=513) == MemoryMib(1024)
    assert memory_of(steps, memory=1024) == MemoryMib(1024)
    refused(steps, count=1, memory=2147483647)


def test_memory_beyond_one_device_is_refused() -> None:
    small = family(memory=MemoryRule(max_mib=24576))
    assert memory_of(small, memory=24576) == MemoryMib(24576)
    assert "24576" in refused(small, count=1, memory=24577).hint


def test_memory_of_a_container_is_shared_among_its_devices() -> None:
    shared = family(memory=MemoryRule(unit_mib=512, per="container"), core=CoreRule(per="container"))
    asked = read(shared, count=2, memory=64, core=16)
    assert asked is not None
    assert (asked.memory, asked.core) == (MemoryMib(16384), CoreUnits(8))


def test_little_memory_for_many_devices_does_not_become_all() -> None:
    assert memory_of(family(memory=MemoryRule(per="container")), count=3, memory=2) == MemoryMib(1)


@pytest.mark.parametrize(
    ("text", "mib"), [("16", 16384), ("2k", 2048000), ("1024Mi", 1024), ("16Gi", 16384), ("1500Ki", 1), ("2M", 1)]
)
def test_suffix_turns_units_into_bytes_where_the_family_says_so(text: str, mib: int) -> None:
    gib = family(memory=MemoryRule(unit_mib=1024, bytes_with_suffix=True))
    assert memory_of(gib, memory=text) == MemoryMib(mib)


@pytest.mark.parametrize("text", ["1Ki", "-1Gi", "9Ei"])
def test_bytes_below_a_mib_or_beyond_all_bounds_are_refused(text: str) -> None:
    refused(family(memory=MemoryRule(unit_mib=1024, bytes_with_suffix=True)), count=1, memory=text)


@pytest.mark.parametrize(("text", "percent"), [("1", 1), ("50", 50), ("100", 100)])
def test_percentage_of_memory(text: str, percent: int) -> None:
    assert memory_of(percent=text) == MemoryPercent(percent)


@pytest.mark.parametrize("text", ["0", "-5"])
def test_percentage_of_nothing_is_none(text: str) -> None:
    assert memory_of(percent=text) == WHOLE_DEVICE


def test_more_than_everything_is_everything() -> None:
    assert memory_of(percent=140) == MemoryPercent(100)
    assert memory_of(percent=2**32 + 50) == MemoryPercent(100)


def test_percentage_that_is_no_whole_number_is_refused() -> None:
    assert refused(count=1, percent="12500m").hint == "write 13"


def test_memory_wins_over_a_percentage() -> None:
    assert memory_of(memory=2000, percent=50) == MemoryMib(2000)


def test_memory_of_nothing_leaves_the_percentage() -> None:
    assert memory_of(memory=0, percent=50) == MemoryPercent(50)


def test_core_default_is_the_family_s() -> None:
    assert core_of(family(core=CoreRule(default=CoreUnits(25)))) == CoreUnits(25)


@pytest.mark.parametrize(("text", "units"), [("0", 0), ("30", 30), ("2k", 2000)])
def test_cores_are_read_as_written(text: str, units: int) -> None:
    assert core_of(core=text) == CoreUnits(units)


@pytest.mark.parametrize("text", ["-5", "500m", "2147483648"])
def test_cores_that_cannot_be_are_refused(text: str) -> None:
    assert refused(count=1, core=text).where.endswith(CORE)


def test_cores_may_be_percent_within_bounds() -> None:
    percent = family(core=CoreRule(asked_in="percent", lowest=1, highest=100))
    assert core_of(percent, core=33) == CorePercent(33)
    assert refused(percent, count=1, core=0).expected == "a whole number from 1 to 100"
    refused(percent, count=1, core=101)


def test_family_without_resources_for_amounts_reads_the_count_alone() -> None:
    bare = family(resources=Resources(count=COUNT), core=CoreRule(default=CoreUnits(0)))
    assert read(bare, count=4, memory=5, core=6) == DeviceRequest(family="Acme", count=4, core=CoreUnits(0))


def test_family_with_sizes_of_its_own_is_cut() -> None:
    sizes = family(profiles=(Profile(name="half", memory_mib=8192),))
    asked = read(sizes, count=1)
    assert asked is not None
    assert asked.profiled


def test_pod_annotations_add_mode_selection_and_numa() -> None:
    keys = Selectors(ids=("acme.example/use",), mode=("acme.example/mode",), numa_bind=("acme.example/numa",))
    annotations = {"acme.example/use": "npu-1", "acme.example/mode": "mig", "acme.example/numa": "true"}
    (asked,) = read_by_table(container(limits={COUNT: 1}), pod(annotations=annotations), family(selectors=keys))
    assert (asked.mode, asked.numa_bind) == ("mig", True)
    assert asked.selection == Selection(ids=frozenset({"npu-1"}))
