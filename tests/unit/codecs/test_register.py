"""Inventories of v2.10 node plugins, in text and in JSON, and their pair scores."""

import json
from dataclasses import replace
from typing import Any

import pytest

from hami_core_py.codecs.v210.links import parse_links
from hami_core_py.codecs.v210.register import (
    RegisteredDevice,
    RegisteredProfile,
    parse_list,
    parse_text,
    render_list,
    render_text,
)
from hami_core_py.errors import InventoryError

WIDE = "a,10,7680,100,Acme N1,1,true,3,soft:"
DEVICE = RegisteredDevice(
    id="a", index=3, slots=10, memory_mib=7680, core_units=100, model="Acme N1", numa=1, mode="soft", healthy=True
)


def test_wide_record_is_read_as_it_was_written() -> None:
    assert parse_text(WIDE, "node") == (DEVICE,)
    assert render_text([DEVICE]) == WIDE


def test_narrow_record_has_the_first_index_and_the_old_mode() -> None:
    (device,) = parse_text("a,10,7680,100,Acme N1,1,T:", "node")
    assert (device.index, device.mode, device.healthy) == (0, "hami-core", True)


def test_separators_alone_are_no_devices() -> None:
    assert parse_text("::", "node") == ()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "records"),
        ("a,1,2,3,m,0,true", "records"),
        ("garbage:", "fields"),
        ("a,1:", "2"),
        ("a,1,2,3,m,0,true,1:", "8"),
        ("a,x,2,3,m,0,true:", "count"),
        ("a,2147483648,2,3,m,0,true:", "count"),
        ("a,1,2.0,3,m,0,true:", "memory"),
        ("a,1,2,,m,0,true:", "core"),
        ("a,1,2,3,m, 0,true:", "numa"),
        ("a,1,2,3,m,0,yes:", "health"),
        ("a,1,2,3,m,x,yes:", "health"),
        ("a,1,2,3,m,0,true,-1,soft:", "index"),
        ("a,1,2,3,m,0,true,1_0,soft:", "index"),
        (f"a,{'9' * 5000},2,3,m,0,true:", "count"),
    ],
)
def test_one_wrong_record_makes_the_whole_text_wrong(text: str, named: str) -> None:
    with pytest.raises(InventoryError, match=named):
        parse_text(WIDE + text if ":" in text else text, "node")


@pytest.mark.parametrize("change", [{"id": "x:y"}, {"model": "x,y"}, {"mode": "x:y"}])
def test_delimiter_inside_a_field_is_not_written(change: dict[str, Any]) -> None:
    with pytest.raises(InventoryError, match="texts without"):
        render_text([replace(DEVICE, **change)])


def test_list_leaves_out_zeros_and_reads_them_back() -> None:
    bare = RegisteredDevice(id="a")
    assert render_list([bare]) == '[{"id":"a"}]'
    assert parse_list('[{"id":"a"}]', "node") == (bare,)


def test_keys_count_in_any_case_and_unknown_ones_are_skipped() -> None:
    (device,) = parse_list('[{"ID":"a","Count":3,"HEALTH":true,"colour":1}]', "node")
    assert (device.id, device.slots, device.healthy) == ("a", 3, True)


def test_missing_entry_is_a_device_without_id_that_no_inventory_takes() -> None:
    assert parse_list("[null]", "node") == (RegisteredDevice(id=""),)


def test_nothing_at_all_is_no_devices() -> None:
    assert parse_list("null", "node") == parse_list("[]", "node") == ()


def test_profiles_are_read_under_the_key_of_the_family() -> None:
    profile = RegisteredProfile(name="2c", memory_mib=4096, core_units=28, cells=2, placements=((0, 2), (2, 2)))
    cut = RegisteredDevice(id="a", profiles=(profile,))
    text = render_list([cut], profiles_key="cuts")
    assert json.loads(text)[0]["cuts"][0]["placements"] == [{"start": 0, "size": 2}, {"start": 2, "size": 2}]
    assert parse_list(text, "node", profiles_key="cuts") == (cut,)
    assert parse_list(text, "node")[0].profiles == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        "[] x",
        '[{"id":5}]',
        '[{"id":"a","index":-1}]',
        '[{"id":"a","count":1.5}]',
        '[{"id":"a","count":true}]',
        '[{"id":"a","devmem":2147483648}]',
        '[{"id":"a","health":1}]',
        '[{"id":"a","devmem":NaN}]',
        "a,1,2,3,m,0,true:",
    ],
)
def test_text_that_is_no_list_of_devices_is_an_error(text: str) -> None:
    with pytest.raises(InventoryError, match="node"):
        parse_list(text, "node")


def test_links_are_scores_by_peer() -> None:
    text = '[{"uuid":"a","score":{"b":100}},{"uuid":"b","score":{"a":20}}]'
    assert parse_links(text, "node") == {"a": {"b": 100}, "b": {"a": 20}}


@pytest.mark.parametrize("text", ["", "[{]", "{}", '[{"uuid":"a","score":{"b":"x"}}]', '[{"uuid":"a","score":[]}]'])
def test_text_that_is_no_list_of_scores_is_an_error(text: str) -> None:
    with pytest.raises(InventoryError):
        parse_links(text, "node")
