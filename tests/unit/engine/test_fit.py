"""The common rules: the first that fails names the reason."""

from typing import Any

import pytest

from hami_core_py.decisions.fit import Question, Standing, closed, fit, kind_refused, mode_offered, model_selected
from hami_core_py.decisions.nodes import Blocked, NodeState
from hami_core_py.models.answers import Candidate, Reason
from hami_core_py.models.backends import DeviceRule
from hami_core_py.models.devices import IDLE, Device, Health, Profile, Share, Usage
from hami_core_py.models.families import CoreRule, Placing
from hami_core_py.models.requests import Cells, CorePercent, CoreUnits, MemoryMib, MemoryPercent, Selection
from hami_core_py.models.views import NodeView
from hami_core_py.testing.builders import device, family, request, share, usage

FREE_CORES = CoreUnits(0)


def answer(
    npu: Device, used: Usage = IDLE, placing: Placing | None = None, rule: CoreRule | None = None, **asked: Any
) -> Share | Reason:
    """What one device answers to a request for 1024 MiB and no cores, unless said otherwise."""
    fields = {"memory": MemoryMib(1024), "core": FREE_CORES, **asked}
    wants_idle = fields.pop("wants_idle", False)
    profiles = fields.pop("profiles", ())
    owner = family(placing=placing or Placing(), core=rule or CoreRule(), profiles=profiles)
    question = Question(request=request(**fields), family=owner, wants_idle=wants_idle)
    return fit(question, Standing(device=npu, before=used, now=used))


def test_idle_device_gives_what_is_asked() -> None:
    assert answer(device(), core=CoreUnits(30), labels=("gold",)) == Share(
        memory_mib=1024, core_units=30, labels=("gold",)
    )


@pytest.mark.parametrize(
    ("used", "asked", "reason"),
    [
        (usage(slots=10), {}, Reason.NO_FREE_SLOT),
        (usage(slots=1), {"wants_idle": True}, Reason.NOT_IDLE),
        (usage(slots=1, memory_mib=15361), {}, Reason.NOT_ENOUGH_MEMORY),
        (usage(slots=1, core_units=71), {"core": CoreUnits(30)}, Reason.NOT_ENOUGH_CORES),
        (usage(slots=1), {"core": CoreUnits(100)}, Reason.EXCLUSIVE),
        (usage(slots=1, core_units=100), {}, Reason.CORES_EXHAUSTED),
        (usage(slots=10, memory_mib=16384, core_units=100), {"core": CoreUnits(100)}, Reason.NO_FREE_SLOT),
        (usage(slots=1, memory_mib=16384, core_units=100), {"core": CoreUnits(100)}, Reason.NOT_ENOUGH_MEMORY),
    ],
)
def test_first_rule_that_fails_names_the_reason(used: Usage, asked: dict[str, Any], reason: Reason) -> None:
    assert answer(device(), used, **asked) is reason


def test_device_over_committed_after_a_shrink_gives_nothing() -> None:
    assert (
        answer(device(memory_mib=4096), usage(slots=1, memory_mib=8000), memory=MemoryMib(1))
        is Reason.NOT_ENOUGH_MEMORY
    )


def test_percent_of_memory_is_rounded_down() -> None:
    assert answer(device(memory_mib=8191), memory=MemoryPercent(50)) == share(memory_mib=4095, core_units=0)


def test_core_asks_above_the_clamp_are_lowered() -> None:
    assert answer(device(core_units=200), core=CoreUnits(140)) == share(core_units=100)
    assert answer(device(core_units=200), rule=CoreRule(clamp_at=None), core=CoreUnits(140)) == share(core_units=140)


def test_percent_of_cores_gives_at_least_one_unit() -> None:
    assert answer(device(core_units=64), core=CorePercent(1)) == share(core_units=1)


def test_exclusive_family_serves_one_share_at_a_time() -> None:
    assert answer(device(slots=1), usage(slots=1), Placing(exclusive=True)) is Reason.EXCLUSIVE


def test_amounts_that_are_not_accounted_are_not_held_against_capacity() -> None:
    only_slots = Placing(accounts=frozenset())
    assert answer(device(), usage(slots=1, memory_mib=16384, core_units=100), only_slots) == share(core_units=0)


PROFILES = (
    Profile(name="1c", memory_mib=2048, core_units=14, cells=1, starts=(3, 2, 1, 0)),
    Profile(name="2c", memory_mib=4096, core_units=28, cells=2, starts=(0, 2)),
    Profile(name="4c", memory_mib=8192, core_units=100, cells=4, starts=(0,)),
)


def cuttable(**fields: Any) -> Device:
    """A device of four cells."""
    return device(memory_mib=8192, cells=4, profiles=PROFILES, **fields)


def test_smallest_profile_that_covers_the_ask_is_cut_at_its_first_free_start() -> None:
    used = usage(slots=1, memory_mib=2048, core_units=14, cells=1, occupied=0b1000)
    assert answer(cuttable(), used) == Share(memory_mib=2048, core_units=14, profile="1c", start=2, cells=1)


def test_larger_profile_is_cut_when_the_smallest_has_no_place() -> None:
    profiles = (Profile(name="tiny", memory_mib=1024, cells=1, starts=(0,)), PROFILES[1])
    npu = device(memory_mib=8192, cells=4, profiles=profiles)
    assert answer(npu, usage(slots=1, cells=1, occupied=0b1)) == Share(
        memory_mib=4096, core_units=28, profile="2c", start=2, cells=2
    )


def test_whole_of_a_device_that_is_cut_is_its_largest_profile() -> None:
    assert answer(cuttable(), memory="whole-device") == Share(
        memory_mib=8192, core_units=100, profile="4c", start=0, cells=4
    )


def test_cells_of_strangers_are_taken() -> None:
    assert answer(cuttable(blocked_cells=0b0011), memory=Cells(4)) is Reason.NOT_ENOUGH_CELLS
    assert answer(cuttable(blocked_cells=0b0011), memory=Cells(2)) == Share(
        memory_mib=4096, core_units=28, profile="2c", start=2, cells=2
    )


def test_cuts_that_this_container_took_already_use_up_the_slots() -> None:
    npu = cuttable(slots=1)
    question = Question(request=request(memory=MemoryMib(2048)), family=family(profiles=PROFILES))
    taken = usage(slots=1, memory_mib=2048, core_units=14, cells=1, occupied=0b1000)
    assert fit(question, Standing(device=npu, before=IDLE, now=IDLE)) == Share(
        memory_mib=2048, core_units=14, profile="1c", start=3, cells=1
    )
    assert fit(question, Standing(device=npu, before=IDLE, now=taken)) is Reason.NO_FREE_SLOT


def test_ask_beyond_every_profile_is_refused() -> None:
    profiles = (PROFILES[0],)
    assert answer(device(cells=4, profiles=profiles), memory=MemoryMib(3000)) is Reason.NO_PROFILE


def test_family_sizes_bind_requests_that_want_to_be_cut() -> None:
    steps = (Profile(name="", memory_mib=4096), Profile(name="", memory_mib=8192))
    assert answer(device(), profiles=steps, profiled=True) == share(memory_mib=4096, core_units=0)
    assert answer(device(), profiles=steps) == share(memory_mib=1024, core_units=0)


def test_own_rule_is_asked_once_per_combination_of_what_it_reads() -> None:
    asked = []

    def refuses(seat: Candidate) -> bool:
        asked.append(seat.used_slots)
        return seat.used_slots > 1

    rule = DeviceRule(reason=Reason.BACKEND_RULE, sentence="two at most", refuses=refuses, reads=("used_slots",))
    question = Question(request=request(memory=MemoryMib(1), core=FREE_CORES), family=family(), rules=(rule,))
    for slots in (0, 1, 2, 1, 2):
        used = usage(slots=slots, memory_mib=slots)
        assert (fit(question, Standing(device=device(), before=used, now=used)) is Reason.BACKEND_RULE) == (slots > 1)
    assert asked == [0, 1, 2]


def test_own_rule_that_raises_strikes_its_devices_only() -> None:
    def raises(seat: Candidate) -> bool:
        raise ZeroDivisionError

    rule = DeviceRule(reason=Reason.BACKEND_RULE, sentence="broken", refuses=raises, reads=("index",))
    question = Question(request=request(memory=MemoryMib(1)), family=family(), rules=(rule,))
    assert fit(question, Standing(device=device(), before=IDLE, now=IDLE)) is Reason.BACKEND_FAILED


@pytest.mark.parametrize(
    ("words", "unwanted", "selected"),
    [
        (("a10",), None, ["NVX A10", "NVX A100-80GB"]),
        (("A10",), ("A100",), ["NVX A10"]),
        (None, ("T4",), ["NVX A10", "NVX A100-80GB"]),
        (("=A10",), None, ["NVX A10"]),
        (("=NVX A10",), None, []),
        (("=Tesla T4",), None, ["NVX-Tesla T4"]),
        (None, None, ["NVX A10", "NVX A100-80GB", "NVX-Tesla T4"]),
    ],
)
def test_words_select_models_by_part_or_as_a_whole(
    words: tuple[str, ...] | None, unwanted: tuple[str, ...] | None, selected: list[str]
) -> None:
    models = {"NVX A10": "A10", "NVX A100-80GB": "NVX-NVX A100-80GB", "NVX-Tesla T4": "NVX-Tesla T4"}
    wish = Selection(models=words, not_models=unwanted)
    assert [name for name, model in models.items() if model_selected(model, wish, "NVX")] == selected


def test_device_without_modes_serves_every_mode() -> None:
    assert mode_offered((), "cut")
    assert mode_offered(("cut",), "shared,cut")
    assert not mode_offered(("cut",), "shared")


def test_kind_is_refused_for_its_model_before_its_mode() -> None:
    question = Question(request=request(mode="shared", selection=Selection(models=("N2",))), family=family())
    assert kind_refused(device(modes=("cut",)), question) is Reason.MODEL
    assert kind_refused(device(model="Acme N2", modes=("cut",)), question) is Reason.MODE


def test_closed_devices_say_why() -> None:
    npu = device()
    node = NodeState(name="n", view=NodeView(name="n"), devices=(npu,))
    assert closed(node, Blocked(), npu) is None
    assert closed(node, Blocked(devices=frozenset({npu.id})), npu) is Reason.UNREADABLE_RECORD
    assert closed(node, Blocked(whole_node=True), npu) is Reason.UNREADABLE_RECORD
    assert closed(node, Blocked(), device(health=Health.UNHEALTHY)) is Reason.UNHEALTHY
    cordoned = NodeState(name="n", view=NodeView(name="n"), cordoned=frozenset({npu.id}))
    assert closed(cordoned, Blocked(), npu) is Reason.CORDONED
    assert closed(cordoned, Blocked(), device(health=Health.UNHEALTHY)) is Reason.UNHEALTHY
    away = NodeState(name="n", view=NodeView(name="n"), closed={npu.family: Reason.AGENT_AWAY})
    assert closed(away, Blocked(), npu) is Reason.AGENT_AWAY
