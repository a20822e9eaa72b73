"""From node events to the inventory."""

from collections.abc import Callable
from typing import Any

import pytest

from hami_core_py.codecs.native import inventory_key, render_inventory
from hami_core_py.errors import InventoryError
from hami_core_py.models.devices import Device, Inventory
from hami_core_py.models.families import AnnotatedDevices, CapacityDevices, Family, Handshake, Resources, WhileCapacity
from hami_core_py.models.views import NodeView
from hami_core_py.services.intake import NodeIntake, Served
from hami_core_py.services.intake.handshakes import Handshakes
from hami_core_py.services.inventory import Inventory as Nodes
from hami_core_py.testing import builders
from hami_core_py.testing.builders import COUNT, FAMILY, device, node
from hami_core_py.testing.plugins import make_plugin
from tests.unit.scheduling.books import Books, ask_of, asking

KEY = inventory_key("acme")
READY_NS = 1_800_000_000 * 10**9


def ours(*devices: Device, identity: Any = "late") -> dict[str, str]:
    """Annotations of a node whose devices our agent serves."""
    return {KEY: render_inventory("acme", devices, identity)}


class Counting:
    """A backend whose devices are one per word of an annotation; it counts how often it is asked."""

    def __init__(self, family: Family) -> None:
        self.asked = 0

        def hami_read_inventory(node: NodeView, family: Family, settings: Any) -> Inventory:
            self.asked += 1
            words = node.annotations["acme.example/devices"].split()
            if "bad" in words:
                raise InventoryError(f"node {node.name}", "good words", "a bad one")
            if "bug" in words:
                raise ZeroDivisionError
            return Inventory(devices=tuple(device(word) for word in words))

        self.ask = ask_of(make_plugin("acme", [family], hooks=[hami_read_inventory]))


def own_form(**fields: Any) -> Family:
    """A family whose backend reads its annotation itself."""
    table = AnnotatedDevices(key="acme.example/devices", form="own", also=("acme.example/mode",))
    return builders.family(inventory=table, **fields)


def ids(nodes: Nodes, name: str) -> list[str]:
    return [str(d.id) for d in nodes.devices(name)]


def test_devices_of_our_own_agent_are_known_by_its_annotation() -> None:
    nodes, ask = Nodes(), ask_of()
    intake = NodeIntake(nodes, ask)
    intake.update(node("n1", annotations=ours(device("npu-0"), identity="ordered"), allocatable={COUNT: 10}))

    assert ids(nodes, "n1") == ["npu-0"]
    assert intake.served("n1", FAMILY) == Served(ours=True, ordered=True)


def test_our_annotation_wins_over_that_of_an_older_plugin() -> None:
    backend, nodes = Counting(own_form()), Nodes()
    annotations = {**ours(device("npu-7")), "acme.example/devices": "npu-0"}
    NodeIntake(nodes, backend.ask).update(node("n1", annotations=annotations, allocatable={COUNT: 10}))

    assert ids(nodes, "n1") == ["npu-7"]
    assert backend.asked == 0


def test_backend_is_asked_only_when_a_declared_text_has_changed() -> None:
    backend, nodes = Counting(own_form()), Nodes()
    intake = NodeIntake(nodes, backend.ask)
    intake.update(node("n1", annotations={"acme.example/devices": "npu-0"}))
    intake.update(node("n1", annotations={"acme.example/devices": "npu-0", "other": "text"}, labels={"a": "b"}))
    assert backend.asked == 1

    intake.update(node("n1", annotations={"acme.example/devices": "npu-0"}, labels={"acme.example/mode": "x"}))
    intake.update(node("n1", annotations={"acme.example/devices": "npu-0 npu-1"}, labels={"acme.example/mode": "x"}))

    assert backend.asked == 3
    assert ids(nodes, "n1") == ["npu-0", "npu-1"]


@pytest.mark.parametrize("word", ["bad", "bug"])
def test_node_that_cannot_be_read_keeps_its_devices_without_new_shares(word: str) -> None:
    backend, books = Counting(own_form()), Books()
    books = Books(backend.ask)
    intake = NodeIntake(books.inventory, backend.ask)
    intake.update(node("n1", annotations={"acme.example/devices": "npu-0"}))
    intake.update(node("n1", annotations={"acme.example/devices": word}))
    intake.update(node("n2", annotations={"acme.example/devices": "npu-1"}))

    assert ids(books.inventory, "n1") == ["npu-0"]
    assert not books.fits(asking("a", 1000), "n1")
    assert books.fits(asking("a", 1000), "n2"), "one bad node never stops the others"


def test_garbled_annotation_of_our_agent_keeps_the_old_devices() -> None:
    books = Books()
    intake = NodeIntake(books.inventory, books.ask)
    intake.update(node("n1", annotations=ours(device("npu-0")), allocatable={COUNT: 10}))
    intake.update(node("n1", annotations={KEY: "{"}, allocatable={COUNT: 10}))

    assert ids(books.inventory, "n1") == ["npu-0"]
    assert not books.fits(asking("a", 1000), "n1")


def test_inventory_that_speaks_of_another_backends_devices_is_refused() -> None:
    resources = Resources(count="other.example/npu")
    ask = ask_of(
        make_plugin("acme", [builders.family()]),
        make_plugin("other", [builders.family("Other", backend="other", resources=resources)]),
    )
    nodes = Nodes()
    NodeIntake(nodes, ask).update(node("n1", annotations=ours(device("x", family="Other")), allocatable={COUNT: 10}))

    assert ids(nodes, "n1") == []


def test_node_that_is_not_in_the_list_is_gone() -> None:
    nodes, ask = Nodes(), ask_of()
    intake = NodeIntake(nodes, ask)
    intake.sync([node("n1", annotations=ours(device("npu-0"))), node("n2", annotations=ours(device("npu-1")))])
    intake.sync([node("n2", annotations=ours(device("npu-1")))])

    assert nodes.names() == ("n2",)


@pytest.mark.parametrize(
    ("fields", "alive"),
    [
        ({"allocatable": {COUNT: 10}}, True),
        ({"allocatable": {COUNT: 0}}, False),
        ({"allocatable": {}}, False),
        ({"allocatable": {COUNT: 10}, "ready": False}, False),
    ],
)
def test_node_of_our_agent_gets_shares_while_it_is_ready_and_its_plugin_registered(
    fields: dict[str, Any], alive: bool
) -> None:
    books = Books()
    NodeIntake(books.inventory, books.ask).update(node("n1", annotations=ours(device("npu-0")), **fields))

    assert books.fits(asking("a", 1000), "n1") is alive


def test_liveness_by_allocatable_can_be_switched_off() -> None:
    books = Books()
    intake = NodeIntake(books.inventory, books.ask, needs_allocatable=False)
    intake.update(node("n1", annotations=ours(device("npu-0"))))

    assert books.fits(asking("a", 1000), "n1")


def test_devices_counted_from_capacity_live_while_there_is_some() -> None:
    table = CapacityDevices(role="count", infix="npu", memory_mib=8000)
    books = Books(ask_of(make_plugin("acme", [builders.family(inventory=table, liveness=WhileCapacity("count"))])))
    intake = NodeIntake(books.inventory, books.ask)
    intake.update(node("n1", capacity={COUNT: 2}))
    assert ids(books.inventory, "n1") == ["n1-npu-0", "n1-npu-1"]
    assert intake.served("n1", FAMILY) == Served(ours=False, ordered=True)

    intake.update(node("n1", capacity={COUNT: 2}, allocatable={COUNT: 0}))

    assert not books.fits(asking("a", 1000), "n1")


class Shaking:
    """A node under a v2.10 plugin with a handshake."""

    def __init__(self) -> None:
        self.now_ns = READY_NS
        self.written: list[tuple[str, str, str]] = []
        backend = Counting(own_form(liveness=Handshake("acme.example/handshake")))
        self.books = Books(backend.ask)
        write: Callable[[str, str, str], None] = lambda *stamp: self.written.append(stamp)  # noqa: E731
        handshakes = Handshakes(write, clock_ns=lambda: self.now_ns)
        self.intake = NodeIntake(self.books.inventory, self.books.ask, shakes_hands=handshakes)

    def update(self, handshake: str | None = None, count: int = 10, devices: str = "npu-0") -> None:
        annotations = {"acme.example/devices": devices} if devices else {}
        if handshake is not None:
            annotations["acme.example/handshake"] = handshake
        self.intake.update(node("n1", annotations=annotations, allocatable={COUNT: count}))


def test_node_that_states_devices_is_asked_for_a_sign_of_life_once() -> None:
    shaking = Shaking()
    shaking.update()
    shaking.update(count=9)

    assert shaking.written == [("n1", "acme.example/handshake", "Requesting_2027-01-15 08:00:00")]
    assert shaking.books.fits(asking("a", 1000), "n1")


def test_node_without_devices_is_never_asked() -> None:
    shaking = Shaking()
    shaking.update(devices="")

    assert shaking.written == []


def test_plugin_that_leaves_a_request_unanswered_is_dead_after_a_minute_unless_allocatable_vouches() -> None:
    shaking = Shaking()
    shaking.update("Requesting_2027-01-15 08:00:00", count=0)
    assert shaking.books.fits(asking("a", 1000), "n1")
    shaking.now_ns += 60 * 10**9

    shaking.intake.look_again()

    assert not shaking.books.fits(asking("a", 1000), "n1")
    shaking.update("Requesting_2027-01-15 08:00:00", count=10)
    assert shaking.books.fits(asking("a", 1000), "n1")


def test_cordoned_device_gets_no_new_share() -> None:
    books = Books()
    intake = NodeIntake(books.inventory, books.ask)
    annotations = {**ours(device("npu-0"), device("npu-1")), "hami.io/device-cordon": " npu-1 ,,"}
    intake.update(node("n1", annotations=annotations, allocatable={COUNT: 20}))

    placed = books.engine.place(books.request(asking("a", 1000)), asking("a", 1000), "n1")

    assert [d.id for c in placed.containers for d, _ in c.pairs] == ["npu-0"]  # type: ignore[union-attr]
