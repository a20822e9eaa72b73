"""Devices by a family's table: from capacity, from text, from JSON."""

import json
from typing import Any

import pytest

from hami_core_py.codecs.inventories import MOST_DEVICES, inventory_by_table
from hami_core_py.errors import InventoryError
from hami_core_py.models.devices import Health
from hami_core_py.models.families import AnnotatedDevices, CapacityDevices, Family, Group, MemoryRule
from hami_core_py.models.views import NodeView
from hami_core_py.testing.builders import CORE, COUNT, MEMORY, family, node

KEY = "hami.io/node-acme-register"
ENTRY = {"id": "a", "count": 10, "devmem": 16384, "devcore": 100, "type": "Acme N1", "mode": "soft", "health": True}


def counted(**table: Any) -> Family:
    fields: dict[str, Any] = {"role": "count", "infix": "acme", "memory_mib": 8192, **table}
    return family("Acme", inventory=CapacityDevices(**fields), memory=MemoryRule(unit_mib=256))


def annotated(**table: Any) -> Family:
    return family("Acme", inventory=AnnotatedDevices(**{"key": KEY, **table}))


def stating(*entries: dict[str, Any], **annotations: str) -> NodeView:
    return node(annotations={KEY: json.dumps(entries), **annotations})


def test_every_unit_of_capacity_is_a_device() -> None:
    devices = inventory_by_table(node("n1", capacity={COUNT: 2}), counted(slots=3)).devices
    assert [(d.id, d.index, d.slots, d.memory_mib) for d in devices] == [
        ("n1-acme-0", 0, 3, 8192),
        ("n1-acme-1", 1, 3, 8192),
    ]
    assert all(d.health is Health.HEALTHY and d.model == d.family == "Acme" for d in devices)


def test_started_block_of_capacity_is_a_device_and_memory_is_shared_evenly() -> None:
    table = counted(role="core", per_device=100, memory_mib=None)
    devices = inventory_by_table(node(capacity={CORE: 250, MEMORY: 100}), table).devices
    assert [d.memory_mib for d in devices] == [100 * 256 * 100 // 250] * 3


@pytest.mark.parametrize(("count", "numa"), [(8, [0] * 4 + [1] * 4), (5, [0] * 2 + [1] * 3), (1, [1])])
def test_devices_fill_numa_nodes_in_equal_blocks(count: int, numa: list[int]) -> None:
    devices = inventory_by_table(node(capacity={COUNT: count}), counted(numa_nodes=2)).devices
    assert [d.numa for d in devices] == numa


@pytest.mark.parametrize("capacity", [{}, {COUNT: 0}])
def test_node_without_capacity_has_nothing(capacity: dict[str, int]) -> None:
    assert inventory_by_table(node(capacity=capacity), counted()).devices == ()


def test_quantity_of_kubernetes_counts_as_the_number_it_is() -> None:
    assert len(inventory_by_table(node(capacity={COUNT: "1k"}), counted()).devices) == 1000


@pytest.mark.parametrize("capacity", ["many", "-1", "1500m", str(MOST_DEVICES + 1), "1Ti"])
def test_capacity_that_is_no_number_of_devices_is_an_error(capacity: str) -> None:
    with pytest.raises(InventoryError, match="node n1"):
        inventory_by_table(node("n1", capacity={COUNT: capacity}), counted())


def test_devices_are_those_of_the_annotation() -> None:
    (device,) = inventory_by_table(stating(ENTRY), annotated()).devices
    assert (device.id, device.family, device.model, device.slots, device.memory_mib, device.core_units) == (
        "a",
        "Acme",
        "Acme N1",
        10,
        16384,
        100,
    )
    assert (device.modes, device.health) == (("soft",), Health.HEALTHY)


def test_text_form_serves_as_well() -> None:
    view = node(annotations={KEY: "a,4,65520,100,Acme N1,0,true:b,4,65520,100,Acme N1,1,false:"})
    devices = inventory_by_table(view, annotated(form="text")).devices
    assert [(d.id, d.numa, d.health) for d in devices] == [("a", 0, Health.HEALTHY), ("b", 1, Health.UNHEALTHY)]


def test_node_without_the_annotation_has_nothing() -> None:
    assert inventory_by_table(node(), annotated()).devices == ()


def test_form_of_its_own_is_left_to_the_backend() -> None:
    assert inventory_by_table(stating(ENTRY), annotated(form="own")).devices == ()


def test_family_that_only_our_agent_reports_has_nothing_here() -> None:
    assert inventory_by_table(stating(ENTRY), family("Acme")).devices == ()


def test_table_may_override_the_core_units() -> None:
    (device,) = inventory_by_table(stating({**ENTRY, "devcore": 0}), annotated(core_units=100)).devices
    assert device.core_units == 100


def test_numa_node_that_the_system_does_not_know_is_the_first() -> None:
    (device,) = inventory_by_table(stating({**ENTRY, "numa": -1}), annotated()).devices
    assert device.numa == 0


def test_devices_are_grouped_by_a_fact_or_by_blocks_of_indexes() -> None:
    groups = (
        Group(name="network", fact="NetworkID"),
        Group(name="module", index_block=2),
        Group(name="card", fact="card", when=("strategy", "die")),
    )
    one = {**ENTRY, "index": 3, "custominfo": {"NetworkID": 0.0, "card": "A", "strategy": "die"}}
    other = {**ENTRY, "id": "b", "custominfo": {"card": "A", "strategy": "whole"}}
    devices = inventory_by_table(stating(one, other), annotated(groups=groups)).devices
    assert [d.groups for d in devices] == [{"network": "0", "module": "1", "card": "A"}, {"module": "0"}]


def test_links_are_read_under_their_key() -> None:
    view = stating(ENTRY, {**ENTRY, "id": "b"}, links='[{"uuid":"a","score":{"b":100}}]')
    devices = inventory_by_table(view, annotated(links_key="links")).devices
    assert [d.links for d in devices] == [{"b": 100}, {}]


def test_profiles_become_cuts_with_starts() -> None:
    cuts = [{"name": "2c", "memoryMB": 4096, "core": 28, "sliceCount": 2, "placements": [{"start": 2, "size": 2}]}]
    (device,) = inventory_by_table(stating({**ENTRY, "cuts": cuts}), annotated(profiles_key="cuts")).devices
    (profile,) = device.profiles
    assert (profile.name, profile.memory_mib, profile.core_units, profile.cells, profile.starts) == (
        "2c",
        4096,
        28,
        2,
        (2,),
    )
    assert device.cells == 4


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"id": ""}, "id"),
        ({"count": -1}, "count"),
        ({"devmem": -1}, "devmem"),
        ({"devcore": -100}, "devcore"),
        ({"index": 2**40}, "index"),
        ({"cuts": [{"placements": [{"start": 0, "size": 1}, {"start": 0, "size": 2}]}]}, "placements"),
        ({"cuts": [{"placements": [{"start": 2000, "size": 1}]}]}, "placements"),
    ],
)
def test_device_that_cannot_be_meant_is_an_error(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InventoryError, match=named):
        inventory_by_table(stating({**ENTRY, **change}), annotated(profiles_key="cuts"))


def test_one_id_for_two_devices_is_an_error() -> None:
    with pytest.raises(InventoryError, match="twice"):
        inventory_by_table(stating(ENTRY, ENTRY), annotated())


def test_links_that_cannot_be_read_are_an_error_of_the_node() -> None:
    with pytest.raises(InventoryError, match="links"):
        inventory_by_table(stating(ENTRY, links="[{"), annotated(links_key="links"))
