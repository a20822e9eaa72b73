"""What is written is read back, whatever it is; and no text makes a reader do anything but read or refuse."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core_py.codecs.handshake import render_request, requested_at
from hami_core_py.codecs.inventories import inventory_by_table
from hami_core_py.codecs.locks import owned_by, parse_lock, render_lock
from hami_core_py.codecs.native import (
    RECORD,
    Proof,
    parse_inventory,
    parse_proof,
    parse_shares,
    readable_devices,
    render_inventory,
    render_proof,
    render_shares,
)
from hami_core_py.codecs.records import NODE, is_annotation_key, read_record, write_record
from hami_core_py.codecs.times import SECOND_NS, parse_time, render_time
from hami_core_py.codecs.v210.links import parse_links
from hami_core_py.codecs.v210.partitions import Reservation, parse_reservations, render_reservations
from hami_core_py.codecs.v210.pods import PodDevice, parse_pod_devices, render_pod_devices
from hami_core_py.codecs.v210.reasons import parse_counts, render_counts
from hami_core_py.codecs.v210.register import RegisteredDevice, parse_list, parse_text, render_list, render_text
from hami_core_py.errors import BadInputError, RecordError
from hami_core_py.models.allocations import ContainerPlacement, Dialect, Placement, RecordedShare
from hami_core_py.models.devices import Device, DeviceId, Health, Profile, Share
from hami_core_py.models.families import V210, AnnotatedDevices, CapacityDevices
from hami_core_py.models.views import PodView
from hami_core_py.testing.builders import COUNT, container, family, node, pod

AMOUNTS = st.integers(0, 2**31 - 1)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = WORDS.filter(bool)
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters=",:;"), min_size=1, max_size=12)
MOMENTS = st.integers(0, 4_000_000_000 * SECOND_NS)
ALLOCATED = "hami.io/acme-devices-allocated"
ACME = family("Acme", v210=V210(allocated=ALLOCATED))

SHARES = st.builds(
    Share,
    slots=st.integers(0, 1),
    memory_mib=AMOUNTS,
    core_units=AMOUNTS,
    profile=WORDS,
    start=st.none() | st.integers(0, 100),
    cells=st.integers(0, 100),
    labels=st.lists(WORDS, max_size=3).map(tuple),
)
PROFILES = st.builds(
    Profile,
    name=WORDS,
    memory_mib=AMOUNTS,
    core_units=AMOUNTS,
    cells=st.integers(0, 100),
    starts=st.lists(st.integers(0, 100), max_size=4).map(tuple),
)


@st.composite
def devices(draw: st.DrawFn, family_name: st.SearchStrategy[str] = NAMES) -> Device:
    cells = draw(st.integers(0, 64))
    return Device(
        id=DeviceId(draw(NAMES)),
        family=draw(family_name),
        index=draw(AMOUNTS),
        model=draw(WORDS),
        slots=draw(AMOUNTS),
        memory_mib=draw(AMOUNTS),
        core_units=draw(AMOUNTS),
        numa=draw(st.integers(0, 7)),
        health=draw(st.sampled_from(Health)),
        modes=tuple(draw(st.lists(WORDS, max_size=2))),
        groups=draw(st.dictionaries(WORDS, WORDS, max_size=2)),
        links=draw(st.dictionaries(WORDS.map(DeviceId), st.integers(-100, 2000), max_size=3)),
        facts=draw(st.dictionaries(WORDS, WORDS | st.integers(0, 9) | st.booleans(), max_size=2)),
        cells=cells,
        blocked_cells=draw(st.integers(0, 2**cells - 1)),
        profiles=tuple(draw(st.lists(PROFILES, max_size=2))),
    )


def by_place(found: list[Device]) -> tuple[Device, ...]:
    return tuple(sorted(found, key=lambda d: (d.family, d.index, d.id)))


@given(st.lists(devices(), max_size=5, unique_by=lambda d: d.id), st.sampled_from(["late", "ordered"]), st.randoms())
def test_inventory_is_read_as_it_was_written(found: list[Device], identity: Any, random: Any) -> None:
    text = render_inventory("acme", found, identity)
    read = parse_inventory(text, "node")
    assert (read.devices, read.identity, read.backend) == (by_place(found), identity, "acme")
    random.shuffle(found)
    assert render_inventory("acme", found, identity) == text


@given(
    st.lists(
        st.builds(
            RecordedShare,
            container=NAMES,
            family=NAMES,
            device=NAMES.map(DeviceId),
            share=SHARES,
            model=WORDS,
            numa=st.integers(0, 7),
        ),
        max_size=5,
        unique_by=lambda s: (s.container, s.device, s.share.start),
    )
)
def test_shares_are_read_as_they_were_written(shares: list[RecordedShare]) -> None:
    text = render_shares(shares)
    assert parse_shares(text, "pod") == tuple(shares)
    assert readable_devices(text) == {s.device for s in shares}


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    """Up to four containers with unprofiled shares of devices whose ids both dialects can hold."""
    known = draw(st.lists(devices(st.just("Acme")), min_size=1, max_size=3, unique_by=lambda d: d.id))
    plain = [Device(id=DeviceId(draw(PLAIN)), family="Acme", model=d.model, numa=d.numa) for d in known]
    amounts = st.builds(Share, memory_mib=AMOUNTS, core_units=AMOUNTS)
    pairs = st.lists(st.tuples(st.sampled_from(plain), amounts), max_size=3, unique_by=lambda p: p[0].id)
    held = draw(st.lists(pairs, min_size=1, max_size=4))
    return Placement(
        node=draw(PLAIN),
        containers=tuple(
            ContainerPlacement(name=f"c{i}", kind=k, pairs=tuple(p))
            for i, (k, p) in enumerate((container().kind, p) for p in held)
        ),
    )


def carrying(placed: Placement, annotations: dict[str, str]) -> PodView:
    return pod(*(container(c.name) for c in placed.containers), annotations=annotations, node=placed.node)


@given(placements(), MOMENTS, st.integers(0, 2**40))
def test_record_is_read_as_the_placement_it_states(placed: Placement, at_ns: int, epoch: int) -> None:
    written = write_record(carrying(placed, {}), placed, {"Acme": ACME}, at_ns=at_ns, epoch=epoch)
    assert all(is_annotation_key(key) for key in written)
    record = read_record(carrying(placed, written), {"Acme": ACME})
    assert record is not None
    stated = [(c.name, d.id, s) for c in placed.containers for d, s in c.pairs]
    assert [(s.container, s.device, s.share) for s in record.shares] == stated
    assert (record.node, record.at_ns, record.epoch) == (placed.node, at_ns, epoch)


@given(placements(), MOMENTS)
def test_mirror_states_the_same_shares_as_the_record(placed: Placement, at_ns: int) -> None:
    written = write_record(carrying(placed, {}), placed, {"Acme": ACME}, at_ns=at_ns)
    native = read_record(carrying(placed, written), {"Acme": ACME})
    mirrored = {key: text for key, text in written.items() if key in (NODE, ALLOCATED)}
    older = read_record(carrying(placed, mirrored), {"Acme": ACME})
    assert native is not None
    if not native.shares:
        assert older is None
        return
    assert older is not None
    assert older.dialect is Dialect.V210
    assert [(s.container, s.device, s.share) for s in older.shares] == [
        (s.container, s.device, s.share) for s in native.shares
    ]


POD_DEVICES = st.builds(
    PodDevice, id=PLAIN, type=PLAIN, memory_mib=st.integers(-(2**31), 2**31 - 1), cores=st.integers(-(2**31), 2**31 - 1)
)


@given(st.lists(st.lists(POD_DEVICES, max_size=3).map(tuple), max_size=4))
def test_pod_devices_are_read_with_one_more_container(containers: list[tuple[PodDevice, ...]]) -> None:
    assert parse_pod_devices(render_pod_devices(containers), "pod") == (*containers, ())


NUMBERS = st.integers(-(2**31), 2**31 - 1)
REGISTERED = {
    "id": PLAIN,
    "index": st.integers(0, 2**63 - 1),
    "slots": NUMBERS,
    "memory_mib": NUMBERS,
    "core_units": NUMBERS,
    "model": PLAIN,
    "numa": st.integers(-1, 8),
    "mode": st.sampled_from(["", "soft"]),
    "healthy": st.booleans(),
}


@given(st.lists(st.builds(RegisteredDevice, **REGISTERED), max_size=4))
def test_registers_are_read_as_they_were_written(found: list[RegisteredDevice]) -> None:
    assert parse_list(render_list(found), "node") == tuple(found)
    if found:
        assert parse_text(render_text(found), "node") == tuple(found)


@given(MOMENTS)
def test_times_are_read_as_they_were_written(at_ns: int) -> None:
    assert parse_time(render_time(at_ns), "time") == at_ns
    assert requested_at(render_request(at_ns)) == at_ns // SECOND_NS * SECOND_NS


@given(MOMENTS, PLAIN, PLAIN)
def test_lock_is_read_as_it_was_written(at_ns: int, namespace: str, name: str) -> None:
    text = render_lock(at_ns, namespace, name)
    lock = parse_lock(text)
    assert (lock.at_ns, lock.namespace, lock.pod) == (at_ns // SECOND_NS * SECOND_NS, namespace, name)
    assert owned_by(text, namespace, name)


@given(st.builds(Proof, at_ns=MOMENTS, epoch=st.integers(0, 2**63 - 1)))
def test_proof_is_read_as_it_was_written(proof: Proof) -> None:
    assert parse_proof(render_proof(proof), "pod") == proof


@given(
    st.lists(
        st.builds(
            Reservation,
            container=st.integers(0, 5),
            position=st.integers(0, 5),
            device=NAMES,
            profile=NAMES,
            start=st.integers(0, 7),
            cells=st.integers(1, 7),
        ),
        unique_by=lambda r: (r.container, r.position),
        max_size=4,
    )
)
def test_reservations_are_read_as_they_were_written(reservations: list[Reservation]) -> None:
    assert parse_reservations(render_reservations(reservations), "pod") == tuple(reservations)


@given(st.dictionaries(st.from_regex(r"[A-Za-z]{1,20}", fullmatch=True), st.integers(0, 99)), st.integers(0, 99))
def test_counts_are_read_as_they_were_written(counts: dict[str, int], total: int) -> None:
    assert parse_counts(render_counts(counts, total)) == counts


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "uuid", "container", "type", "memory", "cores", "slots", "score"]), inner
        )
    ),
    max_leaves=8,
)
TEXTS = WORDS | JSON.map(json.dumps) | st.text('a1,:;-{}[]"', max_size=30)
READERS: list[Callable[[str], object]] = [
    lambda text: parse_inventory(text, "w"),
    lambda text: parse_shares(text, "w"),
    lambda text: parse_proof(text, "w"),
    lambda text: parse_text(text, "w"),
    lambda text: parse_list(text, "w", profiles_key="cuts"),
    lambda text: parse_links(text, "w"),
    lambda text: parse_pod_devices(text, "w"),
    lambda text: parse_reservations(text, "w"),
    lambda text: parse_lock(text, "w"),
    lambda text: inventory_by_table(
        node(annotations={"k": text}), family("Acme", inventory=AnnotatedDevices(key="k", links_key="k"))
    ),
    lambda text: inventory_by_table(
        node(capacity={COUNT: text}),
        family("Acme", inventory=CapacityDevices(role="count", infix="a", memory_mib=1)),
    ),
]


def problem_of(read: Callable[[], object]) -> BadInputError | None:
    """Why a reader refused; ``None``: it did not."""
    try:
        read()
    except BadInputError as problem:
        return problem
    return None


@pytest.mark.parametrize("read", READERS)
@given(text=TEXTS)
def test_any_text_is_read_or_refused_in_a_sentence(read: Callable[[str], object], text: str) -> None:
    problem = problem_of(lambda: read(text))
    assert problem is None or 0 < len(str(problem)) < 500


@given(TEXTS, st.sampled_from([RECORD, ALLOCATED]))
def test_any_record_is_read_or_names_what_it_blocks(text: str, key: str) -> None:
    view = pod(container("a"), annotations={NODE: "n1", key: text}, node="n1")
    problem = problem_of(lambda: read_record(view, {"Acme": ACME}))
    if problem is not None:
        assert isinstance(problem, RecordError)
        assert problem.node == "n1"
        return
    record = read_record(view, {"Acme": ACME})
    assert record is not None
    assert all(s.share.memory_mib >= 0 and s.share.core_units >= 0 and s.device for s in record.shares)
