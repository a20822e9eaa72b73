"""Order of trial and combinations."""

import pytest

from hami_core_py.decisions.select import Ranked, by_links, by_together, by_whole_groups, card_score, trial_order
from hami_core_py.models.devices import DeviceId
from hami_core_py.models.requests import Weights
from hami_core_py.testing.builders import device, devices, share, usage

SIX = {
    "d0": Ranked(0, 0, 0, 0, 0),
    "d1": Ranked(7.5, 1, 1, 1, 1),
    "d2": Ranked(2.5, 0, 3, 2, 2),
    "d3": Ranked(0, 1, 0, 3, 3),
    "d4": Ranked(7.5, 0, 2, 4, 4),
    "d5": Ranked(12, 1, 1, 5, 5),
}


@pytest.mark.parametrize(
    ("policies", "numa_bind", "order"),
    [
        (("binpack",), False, "d5 d1 d4 d2 d3 d0"),
        (("binpack",), True, "d4 d2 d0 d5 d1 d3"),
        (("spread",), False, "d3 d0 d2 d1 d4 d5"),
        (("spread",), True, "d3 d1 d5 d0 d2 d4"),
        (("topology-aware",), False, "d3 d0 d2 d1 d4 d5"),
        (("mutex",), False, "d3 d0 d5 d1 d4 d2"),
        (("numa",), False, "d5 d3 d1 d4 d2 d0"),
        (("binpack", "numa"), True, "d5 d1 d3 d4 d2 d0"),
        (("spread", "numa"), False, "d3 d0 d2 d1 d4 d5"),
        (("mutex", "binpack"), False, "d5 d4 d1 d2 d3 d0"),
        (("mutex", "topology-aware"), False, "d3 d0 d2 d4 d1 d5"),
    ],
)
def test_devices_are_tried_in_the_order_of_the_policies(policies: tuple[str, ...], numa_bind: bool, order: str) -> None:
    key = trial_order(policies, numa_bind)
    assert sorted(SIX, key=lambda name: key(SIX[name])) == order.split()


def test_score_is_the_weighted_part_in_use() -> None:
    npu = device(slots=10, core_units=100, memory_mib=8192)
    assert card_score(npu, usage(slots=1, core_units=10, memory_mib=100), Weights()) == pytest.approx(2.1220703)
    assert card_score(npu, usage(slots=1, core_units=10), Weights(slot=0, core=3, memory=1)) == pytest.approx(3)


def test_score_counts_the_request_only_when_told() -> None:
    npu = device(slots=10, core_units=4, memory_mib=8192)
    used = usage(slots=2, core_units=1, memory_mib=2048)
    assert card_score(npu, used, Weights()) == pytest.approx(7)
    assert card_score(npu, used, Weights(), share(memory_mib=1024, core_units=1)) == pytest.approx(11.75)


def test_device_without_memory_has_no_score() -> None:
    assert card_score(device(memory_mib=0), usage(slots=3), Weights()) == 0


def linked(scores: dict[tuple[int, int], int], count: int) -> list[object]:
    """Devices with links in both directions."""
    both = {**scores, **{(b, a): s for (a, b), s in scores.items()}}
    return [
        device(f"npu-{i}", links={DeviceId(f"npu-{b}"): s for (a, b), s in both.items() if a == i})
        for i in range(count)
    ]


def test_several_devices_are_those_with_the_best_links() -> None:
    npus = linked({(0, 1): 10, (2, 3): 100, (0, 2): 50}, 4)
    assert by_links(npus, 2) == (2, 3)  # type: ignore[arg-type]


def test_one_device_is_the_least_linked() -> None:
    npus = linked({(0, 1): 10, (1, 2): 10}, 4)
    assert by_links(npus, 1) == (3,)  # type: ignore[arg-type]


def test_first_tried_combination_wins_ties() -> None:
    assert by_links(devices(4), 2) == (0, 1)


def test_many_linked_devices_are_chosen_without_searching_all_combinations() -> None:
    npus = linked({(i, i + 1): 5 for i in range(0, 32, 2)}, 32)
    chosen = by_links(npus, 16)  # type: ignore[arg-type]
    assert len(set(chosen)) == 16
    assert all(i ^ 1 in chosen for i in chosen)


def test_largest_group_is_filled_first() -> None:
    npus = [device(f"npu-{i}", groups={"net": net}) for i, net in enumerate("abba b".replace(" ", "b"))]
    assert by_together(npus, 3, "net") == (1, 2, 4)


def test_whole_groups_are_complete_or_not_given() -> None:
    npus = [device(f"npu-{i}", groups={"module": str(i // 2)}) for i in range(4)]
    sizes = {"0": 2, "1": 2}
    assert by_whole_groups(npus[1:], 2, "module", sizes) == (1, 2)
    assert by_whole_groups(npus[1:3], 2, "module", sizes) is None
    assert by_whole_groups(npus, 3, "module", sizes) is None
