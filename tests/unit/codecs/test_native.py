"""The native dialect: inventories, shares and proofs."""

import json

import pytest

from hami_core_py.codecs.native import (
    MAX_CELLS,
    Proof,
    inventory_key,
    parse_inventory,
    parse_proof,
    parse_shares,
    readable_devices,
    render_inventory,
    render_proof,
    render_shares,
)
from hami_core_py.errors import InventoryError, RecordError
from hami_core_py.models.allocations import RecordedShare
from hami_core_py.models.devices import DeviceId, Health, Profile, Share
from hami_core_py.testing.builders import device

WHERE = "node n1: hami.io/node-acme-inventory"
SHARE = {
    "container": "main",
    "type": "Acme",
    "model": "Acme N1",
    "uuid": "npu-0",
    "memory": 4000,
    "cores": 30,
    "slots": 1,
    "numa": 0,
}


def inventory_text(**changes: object) -> str:
    entry = {"id": "npu-0", "family": "Acme", "index": 0, "slots": 10, "memory": 16384, "cores": 100, **changes}
    return json.dumps({"version": 1, "backend": "acme", "identity": "late", "devices": [entry]})


def record_text(**changes: object) -> str:
    return json.dumps([{**SHARE, **changes}])


def test_inventory_key_names_the_backend() -> None:
    assert inventory_key("acme") == "hami.io/node-acme-inventory"


def test_device_with_everything_is_read_as_it_was_written() -> None:
    everything = device(
        numa=1,
        health=Health.UNHEALTHY,
        modes=("soft",),
        groups={"board": "b"},
        links={DeviceId("npu-1"): 100},
        facts={"network": 3},
        cells=7,
        blocked_cells=0b1100000,
        profiles=(Profile(name="2c", memory_mib=4096, core_units=28, cells=2, starts=(4, 2, 0)),),
    )
    read = parse_inventory(render_inventory("acme", [everything], "ordered"), WHERE)
    assert read.devices == (everything,)
    assert (read.identity, read.backend) == ("ordered", "acme")


def test_equal_devices_in_any_order_give_the_same_text() -> None:
    one, other = device("npu-0"), device("npu-1")
    assert render_inventory("acme", [one, other], "late") == render_inventory("acme", [other, one], "late")


def test_texts_hold_neither_blanks_nor_line_breaks_between_parts() -> None:
    text = render_inventory("acme", [device(model="N1")], "late")
    assert not set(text) & set(" \n\t")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '{"version":2,"backend":"acme","identity":"late","devices":[]}',
        '{"version":true,"backend":"acme","identity":"late","devices":[]}',
        '{"backend":"acme","identity":"late","devices":[]}',
        '{"version":1,"backend":"acme","identity":"never","devices":[]}',
        '{"version":1,"identity":"late","devices":[]}',
        '{"version":1,"backend":"acme","identity":"late","devices":{}}',
    ],
)
def test_text_that_is_no_inventory_of_this_version_is_an_error(text: str) -> None:
    with pytest.raises(InventoryError, match="node n1"):
        parse_inventory(text, WHERE)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory", -1),
        ("memory", 2**31),
        ("memory", 1.5),
        ("memory", "4000"),
        ("memory", None),
        ("slots", True),
        ("cores", -5),
        ("id", ""),
        ("id", 5),
        ("healthy", 1),
        ("modes", "soft"),
        ("links", {"npu-1": True}),
        ("groups", {"board": 1}),
        ("cells", MAX_CELLS + 1),
        ("blocked", "80"),
        ("blocked", "zz"),
        ("profiles", [{"memory": 1, "starts": [-1]}]),
    ],
)
def test_device_out_of_bounds_is_an_error_that_names_the_field(field: str, value: object) -> None:
    with pytest.raises(InventoryError, match=field.removesuffix("s")):
        parse_inventory(inventory_text(**{"cells": 7, field: value}), WHERE)


def test_one_id_for_two_devices_is_an_error() -> None:
    with pytest.raises(InventoryError, match="twice"):
        parse_inventory(render_inventory("acme", [device(), device()], "late"), WHERE)


def test_device_that_says_nothing_of_its_health_is_not_healthy() -> None:
    (read,) = parse_inventory(inventory_text(), WHERE).devices
    assert read.health is Health.UNHEALTHY


def test_fields_of_a_later_writer_are_skipped() -> None:
    (read,) = parse_inventory(inventory_text(colour="red"), WHERE).devices
    assert read.id == "npu-0"


def test_share_states_what_the_container_holds() -> None:
    share = RecordedShare(
        container="main",
        family="Acme",
        device=DeviceId("npu-0"),
        model="Acme N1",
        share=Share(memory_mib=4000, core_units=30),
    )
    assert json.loads(render_shares([share])) == [SHARE]
    assert parse_shares(render_shares([share]), "record") == (share,)


def test_share_of_a_cut_device_keeps_its_place() -> None:
    cut = Share(memory_mib=4096, core_units=28, profile="2c", start=0, cells=2, labels=("gold",))
    (read,) = parse_shares(
        render_shares([RecordedShare(container="main", family="Acme", device=DeviceId("npu-0"), share=cut)]), "record"
    )
    assert read.share == cut


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory", -1),
        ("memory", 2**31),
        ("memory", False),
        ("memory", None),
        ("memory", 10.0),
        ("cores", -1),
        ("slots", 2),
        ("slots", True),
        ("uuid", ""),
        ("type", ""),
        ("type", 1),
        ("numa", -1),
        ("start", -1),
        ("labels", [1]),
    ],
)
def test_share_out_of_bounds_is_an_error_that_names_the_field(field: str, value: object) -> None:
    with pytest.raises(RecordError, match=f"share 0: {field}"):
        parse_shares(record_text(**{field: value}), "record")


@pytest.mark.parametrize("text", ["", "{}", "null", "[[]]", "[1]", "[", "NaN"])
def test_text_that_is_no_list_of_shares_is_an_error(text: str) -> None:
    with pytest.raises(RecordError):
        parse_shares(text, "record")


def test_two_shares_of_one_seat_are_an_error() -> None:
    with pytest.raises(RecordError, match="twice"):
        parse_shares(json.dumps([SHARE, SHARE]), "record")


def test_two_cuts_of_one_device_are_two_seats() -> None:
    cuts = [{**SHARE, "start": start, "cells": 2} for start in (0, 2)]
    assert len(parse_shares(json.dumps(cuts), "record")) == 2


def test_devices_of_a_broken_record_can_still_be_read() -> None:
    assert readable_devices(record_text(memory=-1)) == {"npu-0"}
    assert readable_devices("[{") == frozenset()
    assert readable_devices('[{"uuid":5},{"uuid":"a"},7]') == {"a"}


def test_proof_says_when_and_by_whom() -> None:
    proof = Proof(at_ns=1_788_084_000_500_000_000, epoch=7)
    assert parse_proof(render_proof(proof), "proof") == proof
    assert json.loads(render_proof(proof)) == {"version": 1, "time": "2026-08-30T10:00:00.5Z", "epoch": 7}


@pytest.mark.parametrize(
    "text", ['{"version":2,"time":"2026-08-30T10:00:00Z","epoch":0}', '{"version":1,"epoch":0}', "{}", '{"version":1}']
)
def test_proof_of_another_version_or_without_time_is_an_error(text: str) -> None:
    with pytest.raises(RecordError):
        parse_proof(text, "proof")
