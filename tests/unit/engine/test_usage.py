"""Charging shares, and what a pod holds at its peak."""

from hami_core_py.decisions.usage import add_share, as_usage, minus, pod_usage, total
from hami_core_py.models.devices import IDLE, DeviceId, Share, Usage
from hami_core_py.models.requests import ContainerKind
from hami_core_py.testing.builders import share, usage

INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP
G0, G1 = DeviceId("g0"), DeviceId("g1")


def test_adding_a_share_adds_every_amount() -> None:
    cut = Share(memory_mib=2048, core_units=14, start=2, cells=2, labels=("online",))
    assert add_share(usage(slots=1, memory_mib=1000, occupied=0b1, cells=1), cut) == usage(
        slots=2, memory_mib=3048, core_units=14, cells=3, occupied=0b1101, labels={"online": 1}
    )


def test_removing_a_share_restores_the_usage() -> None:
    before = usage(slots=1, memory_mib=1000, labels={"online": 1})
    given = share(labels=("online", "gold"))
    assert minus(add_share(before, given), as_usage(given), 0) == before


def test_nothing_adds_up_to_idle() -> None:
    assert total([]) == IDLE


def test_init_and_app_container_on_one_device_take_one_slot() -> None:
    held = pod_usage([(INIT, [(G0, share(memory_mib=1000))]), (APP, [(G0, share(memory_mib=1000))])])
    assert held == {G0: usage(slots=1, memory_mib=1000, core_units=10)}


def test_init_containers_take_the_largest_of_each_amount() -> None:
    held = pod_usage(
        [
            (INIT, [(G0, share(memory_mib=9000, core_units=0))]),
            (INIT, [(G0, share(memory_mib=7000, core_units=50))]),
            (APP, [(G0, share(memory_mib=4000, core_units=10))]),
        ]
    )
    assert held == {G0: usage(slots=1, memory_mib=9000, core_units=50)}


def test_app_containers_and_sidecars_add_up() -> None:
    held = pod_usage([(SIDECAR, [(G0, share(memory_mib=1000))]), (APP, [(G0, share(memory_mib=2000))])])
    assert held == {G0: usage(slots=2, memory_mib=3000, core_units=20)}


def test_init_container_counts_beside_the_sidecars_started_before_it_only() -> None:
    held = pod_usage(
        [
            (INIT, [(G0, share(memory_mib=5000))]),
            (SIDECAR, [(G0, share(memory_mib=1000))]),
            (INIT, [(G0, share(memory_mib=4500))]),
            (APP, [(G0, share(memory_mib=2000))]),
        ]
    )
    assert held[G0].memory_mib == 5500


def test_peaks_are_kept_per_device() -> None:
    held = pod_usage([(INIT, [(G1, share(memory_mib=500))]), (APP, [(G0, share(memory_mib=400))])])
    assert held == {
        G1: usage(slots=1, memory_mib=500, core_units=10),
        G0: usage(slots=1, memory_mib=400, core_units=10),
    }


def test_two_cuts_of_one_init_container_count_both() -> None:
    cuts = [(G0, share(start=0, cells=2)), (G0, share(start=2, cells=2))]
    held = pod_usage([(INIT, cuts)])
    assert held == {G0: Usage(slots=2, memory_mib=2048, core_units=20, cells=4, occupied=0b1111)}
