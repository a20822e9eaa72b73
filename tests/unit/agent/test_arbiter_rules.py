"""What pods may hold of a device together."""

from hypothesis import given
from hypothesis import strategies as st

from hami_core_py.decisions.arbiter import HeldShare, Holder, refusal_of
from hami_core_py.decisions.totals import node_totals
from hami_core_py.models.devices import Health, Share
from hami_core_py.models.families import CoreRule, MemoryRule, Placing
from hami_core_py.models.requests import ContainerKind
from hami_core_py.testing.builders import CORE, FAMILY, MEMORY, PERCENT, device, family, share

NPU = device(memory_mib=1000, slots=3)
DEVICES = {NPU.id: NPU}
FAMILIES = {FAMILY: family()}
INIT, SIDECAR, APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP


def held(memory_mib, container="main", kind=APP, core_units=1):
    given_share = share(memory_mib=memory_mib, core_units=core_units)
    return HeldShare(container=container, kind=kind, family=FAMILY, device=NPU.id, share=given_share)


def pod(uid, *shares, **more):
    return Holder(uid=uid, shares=shares, **more)


def test_pods_that_fit_start():
    assert refusal_of(pod("a", held(400)), [pod("b", held(600), has_started=True)], DEVICES, FAMILIES) is None


def test_pod_beyond_the_device_waits_with_the_numbers():
    sentence = refusal_of(pod("a", held(401)), [pod("b", held(600), has_started=True)], DEVICES, FAMILIES)
    assert sentence is not None
    assert "600 of 1000 MiB are taken and 401 needed" in sentence


def test_init_and_app_containers_of_one_pod_do_not_add_up():
    two = (held(600, "init", INIT), held(600))
    assert refusal_of(pod("a", *two), [pod("b", held(400), has_started=True)], DEVICES, FAMILIES) is None


def test_sidecar_adds_to_init_and_app_containers():
    three = (held(300, "side", SIDECAR), held(500, "init", INIT), held(100))
    other = pod("b", held(300), has_started=True)
    assert refusal_of(pod("a", *three), [other], DEVICES, FAMILIES) is not None


def test_what_a_family_does_not_account_is_not_judged():
    families = {FAMILY: family(placing=Placing(accounts=frozenset()))}
    assert refusal_of(pod("a", held(900)), [pod("b", held(900), has_started=True)], DEVICES, families) is None


def test_slots_are_always_judged():
    others = [pod(uid, held(0, core_units=0), has_started=True) for uid in "bcd"]
    assert "3 of 3 slots" in (refusal_of(pod("a", held(1)), others, DEVICES, FAMILIES) or "")


def test_of_two_that_wait_the_older_record_comes_first():
    younger, older = pod("a", held(600), at_ns=2), pod("b", held(600), at_ns=1)
    assert refusal_of(older, [younger], DEVICES, FAMILIES) is None
    assert refusal_of(younger, [older], DEVICES, FAMILIES) is not None


def test_cells_may_be_cut_for_one_pod_only():
    cuttable = device(memory_mib=1000, slots=3, cells=4)
    first, same, beside = (
        HeldShare(
            container="main",
            kind=APP,
            family=FAMILY,
            device=cuttable.id,
            share=Share(memory_mib=100, profile="1c", start=start, cells=1),
        )
        for start in (2, 2, 3)
    )
    others = [pod("b", first, has_started=True)]
    assert "cells [2] are taken" in (refusal_of(pod("a", same), others, {cuttable.id: cuttable}, FAMILIES) or "")
    assert refusal_of(pod("a", beside), others, {cuttable.id: cuttable}, FAMILIES) is None


def test_restarted_container_of_a_started_pod_is_not_held_by_younger_ones():
    others = [pod("b", held(600), has_started=True, at_ns=2)]
    assert refusal_of(pod("a", held(600), has_started=True, at_ns=1), others, DEVICES, FAMILIES) is None


@given(st.lists(st.tuples(st.integers(0, 1000), st.booleans(), st.integers(0, 3)), max_size=6), st.randoms())
def test_pods_that_may_start_together_always_fit(amounts, chance):
    pods = [
        pod(f"u{n}", held(memory, core_units=0), has_started=started, at_ns=at)
        for n, (memory, started, at) in enumerate(amounts)
    ]
    chance.shuffle(pods)
    free = {FAMILY: family(placing=Placing(accounts=frozenset({"memory"})))}
    allowed = [one for one in pods if refusal_of(one, pods, DEVICES, free) is None]
    assert sum(one.shares[0].share.memory_mib for one in allowed) <= NPU.memory_mib


def test_totals_are_in_the_units_pods_ask_in_and_leave_out_lost_devices():
    families = {FAMILY: family(memory=MemoryRule(unit_mib=256), core=CoreRule(asked_in="percent"))}
    devices = [device("npu-0", core_units=16), device("npu-1", core_units=16), device("npu-2", health=Health.UNHEALTHY)]
    assert node_totals(devices, families) == {CORE: 200, MEMORY: 128, PERCENT: 200}
