"""Samples of devices and holdings carry the right numbers, labels and units."""

import pytest

from hami_core_py.models.allocations import RecordedShare
from hami_core_py.models.devices import Device, DeviceId, Usage
from hami_core_py.models.families import CoreRule
from hami_core_py.models.requests import ContainerKind
from hami_core_py.models.samples import Sample
from hami_core_py.services.holding import Holding
from hami_core_py.services.measures import node_samples
from hami_core_py.testing.builders import device, family, share

UNITS = {"Acme": family(), "Parts": family("Parts", core=CoreRule(asked_in="percent"))}


def held(*shares: RecordedShare, containers: tuple[tuple[str, ContainerKind], ...] = ()) -> Holding:
    return Holding(uid="u", namespace="ml", name="train", node="n1", shares=shares, containers=containers)


def recorded(container: str = "main", npu: str = "npu-0", **amounts: int) -> RecordedShare:
    return RecordedShare(container=container, family="Acme", device=DeviceId(npu), share=share(**amounts))


def named(name: str, found: tuple[Sample, ...]) -> list[Sample]:
    return [sample for sample in found if sample.name == name]


def percent(npu: Device, used: int) -> list[float]:
    found = node_samples("n1", [npu], {npu.id: Usage(core_units=used)}, [], UNITS)
    return [sample.value for sample in named("hami_gpu_core_allocated_ratio", found)]


@pytest.mark.parametrize(
    ("npu", "used", "expected"),
    [
        (device(core_units=100), 30, 30),
        (device(core_units=150), 75, 75),
        (device(core_units=64), 32, 50),
        (device(core_units=16), 1, 7),
        (device(family="Parts", core_units=304), 152, 50),
    ],
)
def test_compute_is_shown_in_percent_whatever_its_units(npu: Device, used: int, expected: float) -> None:
    assert percent(npu, used) == [expected]


def test_device_without_compute_has_no_compute_ratio() -> None:
    assert percent(device(core_units=0), 0) == []


def test_labels_tell_node_device_and_model() -> None:
    found = node_samples("n1", [device("npu-3", model="N2")], {}, [], UNITS)
    (memory,) = named("hami_device_memory_total_bytes", found)
    assert memory.labels == {
        "node": "n1",
        "device_uuid": "npu-3",
        "device_index": "3",
        "device_type": "N2",
        "family": "Acme",
    }


def test_each_container_has_its_own_limit_and_place_in_the_pod() -> None:
    kinds = (("init", ContainerKind.INIT), ("main", ContainerKind.APP))
    holding = held(recorded("init", memory_mib=1), recorded("main", memory_mib=2), containers=kinds)
    found = node_samples("n1", [device()], {}, [holding], UNITS)
    limits = named("hami_container_memory_limit_bytes", found)
    assert [(s.labels["container"], s.value) for s in limits] == [("init", 2**20), ("main", 2 * 2**20)]
    allocated = named("hami_vgpu_memory_allocated_bytes", found)
    assert [s.labels["container_index"] for s in allocated] == ["0", "1"]


def test_two_shares_of_one_device_in_one_container_are_one_series() -> None:
    found = node_samples("n1", [device()], {}, [held(recorded(memory_mib=3), recorded(memory_mib=4))], UNITS)
    assert [s.value for s in named("hami_container_memory_limit_bytes", found)] == [7 * 2**20]


def test_devices_of_a_container_are_numbered_in_its_order() -> None:
    holding = held(recorded(npu="npu-1"), recorded(npu="npu-0"))
    found = node_samples("n1", [device("npu-0"), device("npu-1")], {}, [holding], UNITS)
    limits = named("hami_vgpu_memory_limit_bytes", found)
    assert [(s.labels["device_uuid"], s.labels["vdevice_index"]) for s in limits] == [("npu-1", "0"), ("npu-0", "1")]


def test_share_of_a_device_that_is_gone_has_a_limit_and_no_ratio() -> None:
    found = node_samples("n1", [], {}, [held(recorded())], UNITS)
    assert len(named("hami_container_memory_limit_bytes", found)) == 1
    assert named("hami_container_core_limit_ratio", found) == []
