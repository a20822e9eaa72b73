"""What nodes say about their devices, and what becomes of it when they say nothing sensible."""

from hami_core_py.errors import InventoryError
from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import Inventory as Said
from hami_core_py.models.views import NodeView
from hami_core_py.services.inventory import Inventory
from hami_core_py.testing.builders import FAMILY, device, devices

N1 = NodeView(name="n1")
UNREADABLE = InventoryError("node n1", "a list", "garbage")


def test_unreadable_inventory_keeps_the_old_devices_closed() -> None:
    inventory = Inventory()
    inventory.set_node(N1, {FAMILY: Said(devices=devices(2))})
    assert inventory.set_node(N1, {FAMILY: UNREADABLE})
    state = inventory.node("n1")
    assert state is not None
    assert state.devices == devices(2)
    assert state.closed == {FAMILY: Reason.UNREADABLE_INVENTORY}


def test_readable_inventory_opens_the_devices_again() -> None:
    inventory = Inventory()
    inventory.set_node(N1, {FAMILY: UNREADABLE})
    inventory.set_node(N1, {FAMILY: Said(devices=devices(1))})
    state = inventory.node("n1")
    assert state is not None
    assert state.closed == {}


def test_family_whose_agent_is_away_is_closed() -> None:
    inventory = Inventory()
    inventory.set_node(N1, {FAMILY: Said(devices=devices(1))}, alive={FAMILY: False})
    state = inventory.node("n1")
    assert state is not None
    assert state.closed == {FAMILY: Reason.AGENT_AWAY}


def test_event_that_changes_nothing_is_told_to_nobody() -> None:
    inventory = Inventory()
    inventory.set_node(N1, {FAMILY: Said(devices=devices(1))})
    assert set(inventory.take_changed()) == {"n1"}
    assert not inventory.set_node(NodeView(name="n1"), {FAMILY: Said(devices=devices(1))})
    assert set(inventory.take_changed()) == set()


def test_cordon_list_is_read_from_the_node_with_blanks_passed_over() -> None:
    inventory = Inventory()
    view = NodeView(name="n1", annotations={"hami.io/device-cordon": " npu-1 ,,"})
    inventory.set_node(view, {FAMILY: Said(devices=devices(2))})
    state = inventory.node("n1")
    assert state is not None
    assert state.cordoned == {"npu-1"}


def test_second_device_of_one_id_is_left_out() -> None:
    inventory = Inventory()
    inventory.set_node(N1, {FAMILY: Said(devices=(device("npu-0"), device("npu-0", memory_mib=1)))})
    assert inventory.devices("n1") == (device("npu-0"),)


def test_devices_stand_by_index_whatever_the_order_they_are_told_in() -> None:
    inventory = Inventory()
    inventory.set_node(N1, {FAMILY: Said(devices=devices(3)[::-1])})
    assert inventory.devices("n1") == devices(3)


def test_removed_node_is_not_known() -> None:
    inventory = Inventory()
    inventory.set_node(N1, {FAMILY: Said(devices=devices(1))})
    inventory.remove_node("n1")
    inventory.remove_node("n1")
    assert inventory.node("n1") is None
    assert inventory.names() == ()
