"""Records of allocations, written at bind and read back, in both dialects."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hami_core_py.codecs import native
from hami_core_py.codecs.records import (
    BIND_TIME,
    CORE_KEYS,
    NODE,
    PHASE,
    TIME,
    explain_annotations,
    is_annotation_key,
    read_record,
    write_record,
)
from hami_core_py.errors import RecordError
from hami_core_py.models.allocations import ContainerPlacement, Dialect, Pair, Placement, PodRecord
from hami_core_py.models.devices import Share
from hami_core_py.models.families import V210, Family
from hami_core_py.models.requests import ContainerKind
from hami_core_py.models.views import PodView
from hami_core_py.testing.builders import COUNT, container, device, family, init_container, pod, share

ALLOCATED, TO_ALLOCATE = "hami.io/acme-devices-allocated", "hami.io/acme-devices-to-allocate"
SPELLINGS = V210(allocated=ALLOCATED, to_allocate=TO_ALLOCATE)
ACME = family("Acme", v210=SPELLINGS)
OTHER = family("Other", v210=V210(allocated="hami.io/other-devices-allocated"))
FAMILIES = {"Acme": ACME, "Other": OTHER}
AT_NS = 1_788_084_000_123_456_789


def placement(*pairs: tuple[Pair, ...], kinds: str = "") -> Placement:
    """One container per tuple of pairs, named a, b, …; ``kinds`` has an ``i`` for each init container."""
    placed = [
        ContainerPlacement(
            name="abcdef"[i],
            kind=ContainerKind.INIT if kinds[i : i + 1] == "i" else ContainerKind.APP,
            pairs=held,
        )
        for i, held in enumerate(pairs)
    ]
    return Placement(node="n1", containers=tuple(placed))


def pod_of(placed: Placement, **fields: Any) -> PodView:
    views = [init_container(c.name) if c.kind is ContainerKind.INIT else container(c.name) for c in placed.containers]
    return pod(*views, **fields)


def written(placed: Placement, families: Mapping[str, Family] = FAMILIES, ordered: str = "") -> dict[str, str]:
    return write_record(pod_of(placed), placed, families, at_ns=AT_NS, ordered=frozenset(ordered.split()))


def bound(annotations: Mapping[str, str], *containers: str) -> PodView:
    return pod(*(container(name) for name in containers or "a"), annotations=annotations, node="n1")


def read_v210(text: str, *containers: str, **fields: Any) -> PodRecord:
    acme = replace(ACME, v210=replace(SPELLINGS, **fields))
    record = read_record(bound({NODE: "n1", ALLOCATED: text}, *containers), {"Acme": acme})
    assert record is not None
    return record


def test_record_is_read_as_it_was_written() -> None:
    placed = placement(((device(), share()), (device("npu-1"), share())), ((device(), share()),))
    record = read_record(bound(written(placed), "a", "b"), FAMILIES)
    assert record is not None
    assert [(s.container, s.device, s.share) for s in record.shares] == [
        ("a", "npu-0", share()),
        ("a", "npu-1", share()),
        ("b", "npu-0", share()),
    ]
    assert (record.node, record.dialect, record.phase, record.at_ns) == ("n1", Dialect.NATIVE, "success", AT_NS)


def test_older_readers_find_one_entry_per_container_in_place() -> None:
    placed = placement((), ((device(), share()),), (), kinds="i")
    assert written(placed)[ALLOCATED] == ";npu-0,Acme,1024,10:;;"


def test_families_the_pod_does_not_use_leave_no_trace() -> None:
    assert not any("other" in key for key in written(placement(((device(), share()),))))


def test_node_and_time_are_stated_for_older_readers() -> None:
    annotations = written(placement(((device(), share()),)))
    assert (annotations[NODE], annotations[TIME]) == ("n1", "1788084000")


def test_family_that_is_in_no_older_dialect_is_written_natively_only() -> None:
    annotations = written(placement(((device(), share()),)), {"Acme": family("Acme")})
    assert set(annotations) == {native.RECORD, native.PROOF, native.BIND_NODE, native.BIND_PHASE}


def test_work_list_is_written_only_for_a_node_that_takes_its_work_in_order() -> None:
    placed = placement(((device(), share()),))
    assert not {TO_ALLOCATE, PHASE, BIND_TIME} & set(written(placed))
    in_order = written(placed, ordered="Acme")
    assert in_order[TO_ALLOCATE] == in_order[ALLOCATED]
    assert (in_order[PHASE], in_order[BIND_TIME]) == ("allocating", "1788084000")


def test_each_family_lists_its_own_devices_only() -> None:
    other = device("o-0", family="Other")
    annotations = written(placement(((device(), share()), (other, share()))))
    assert annotations[ALLOCATED] == "npu-0,Acme,1024,10:;"
    assert annotations["hami.io/other-devices-allocated"] == "o-0,Other,1024,10:;"


def test_type_may_be_the_model() -> None:
    acme = replace(ACME, v210=replace(SPELLINGS, type_field="model"))
    text = written(placement(((device(), share()),)), {"Acme": acme})[ALLOCATED]
    assert text == "npu-0,Acme N1,1024,10:;"
    (read,) = read_v210(text, type_field="model").shares
    assert (read.family, read.model) == ("Acme", "Acme N1")


def test_cores_may_be_the_mask_of_the_cells() -> None:
    acme = replace(ACME, v210=replace(SPELLINGS, cores_field="cells-mask"))
    cut = Share(core_units=2, start=1, cells=2)
    text = written(placement(((device(), cut),)), {"Acme": acme})[ALLOCATED]
    assert text == "npu-0,Acme,0,6:;"
    assert read_v210(text, cores_field="cells-mask").shares[0].share == cut


def test_mask_with_a_gap_is_an_error() -> None:
    with pytest.raises(RecordError, match="neighbouring"):
        read_v210("npu-0,Acme,0,5:;", cores_field="cells-mask")


@pytest.mark.parametrize("amount", [-1, 2**31])
def test_amount_that_no_reader_could_hold_is_not_written(amount: int) -> None:
    with pytest.raises(RecordError, match="memory"):
        written(placement(((device(), share(memory_mib=amount)),)))


def test_key_that_the_api_server_would_refuse_is_not_written() -> None:
    broken = family("Acme", v210=V210(allocated="hami.io/not a key"))
    with pytest.raises(RecordError, match="annotation key"):
        written(placement(((device(), share()),)), {"Acme": broken})


@pytest.mark.parametrize("key", ["hami.io/vgpu-node", "predicate-time", "a", "HAMI.io/x", f"a/{'b' * 63}"])
def test_valid_annotation_keys_are_known(key: str) -> None:
    assert is_annotation_key(key)


@pytest.mark.parametrize(
    "key", ["", "/x", "a/", "a/b/c", "-a", "a-", "a b", "ä", f"a/{'b' * 64}", f"{'a' * 254}/b", "a..b/c"]
)
def test_invalid_annotation_keys_are_known(key: str) -> None:
    assert not is_annotation_key(key)


def test_pod_without_annotations_has_no_record() -> None:
    assert read_record(pod(), FAMILIES) is None


def test_older_record_without_a_node_is_none() -> None:
    assert read_record(bound({ALLOCATED: "npu-0,Acme,1,1:;"}), FAMILIES) is None


def test_older_node_without_devices_of_a_known_family_is_none() -> None:
    assert read_record(bound({NODE: "n1", "hami.io/zzz-devices-allocated": "x,Z,1,1:;"}), FAMILIES) is None


def test_native_record_wins_over_its_mirror() -> None:
    annotations = written(placement(((device(), share()),)))
    record = read_record(bound({**annotations, ALLOCATED: "npu-9,Acme,1,1:;"}), FAMILIES)
    assert record is not None
    assert [s.device for s in record.shares] == ["npu-0"]


def test_older_record_counts_by_position() -> None:
    record = read_v210(";npu-0,Acme,3000,30:npu-1,Acme,1,2:;", "a", "b")
    assert [(s.container, s.device, s.share.memory_mib, s.share.core_units) for s in record.shares] == [
        ("b", "npu-0", 3000, 30),
        ("b", "npu-1", 1, 2),
    ]
    assert record.dialect is Dialect.V210


def test_shifted_list_of_an_older_scheduler_belongs_to_the_containers_that_ask() -> None:
    asking = container("b", {COUNT: 1})
    view = pod(init_container("a"), asking, annotations={NODE: "n1", ALLOCATED: "npu-0,Acme,3000,30:;"}, node="n1")
    record = read_record(view, FAMILIES)
    assert record is not None
    assert [s.container for s in record.shares] == ["b"]


def test_container_that_asks_for_zero_devices_does_not_ask() -> None:
    views = (container("a", {COUNT: 0}), container("b", {COUNT: 2}))
    view = pod(*views, annotations={NODE: "n1", ALLOCATED: "npu-0,Acme,3000,30:;"}, node="n1")
    record = read_record(view, FAMILIES)
    assert record is not None
    assert [s.container for s in record.shares] == ["b"]


def test_entry_beyond_the_containers_still_counts() -> None:
    record = read_v210("npu-0,Acme,1,1:;npu-1,Acme,2,2:;", "a")
    assert [(s.container, s.device) for s in record.shares] == [("a", "npu-0"), ("", "npu-1")]


def test_older_record_says_when_and_how_far() -> None:
    view = bound({NODE: "n1", ALLOCATED: ";", TIME: "1788084000", PHASE: "allocating"})
    record = read_record(view, FAMILIES)
    assert record is not None
    assert (record.at_ns, record.phase, record.shares) == (1_788_084_000 * 10**9, "allocating", ())


@pytest.mark.parametrize("time", ["", "soon", "-1", "٣", "9" * 30])
def test_time_that_nobody_can_read_is_unknown(time: str) -> None:
    record = read_record(bound({NODE: "n1", ALLOCATED: ";", TIME: time}), FAMILIES)
    assert record is not None
    assert record.at_ns == 0


@pytest.mark.parametrize(
    "text",
    ["npu-0,Acme,-1,0:;", "npu-0,Acme,1,-1:;", "npu-0,Acme,x,0:;", "npu-0,Acme,2147483648,0:;", "npu-0,Acme,1:;"],
)
def test_unreadable_older_record_blocks_the_devices_it_names(text: str) -> None:
    with pytest.raises(RecordError, match=f"pod default/train: {ALLOCATED}") as caught:
        read_record(bound({NODE: "n1", ALLOCATED: f"{text}npu-1,Acme,1,1:;"}), FAMILIES)
    assert caught.value.node == "n1"
    assert caught.value.devices == {"npu-0", "npu-1"}


def test_older_record_without_a_device_id_is_an_error() -> None:
    with pytest.raises(RecordError, match="an id"):
        read_v210(",Acme,1,1:;")


def test_unreadable_native_record_blocks_the_devices_it_names() -> None:
    annotations = written(placement(((device(), share()),)))
    entry = json.loads(annotations[native.RECORD])[0]
    broken = {**annotations, native.RECORD: json.dumps([{**entry, "memory": -1}])}
    with pytest.raises(RecordError, match=f"pod default/train: {native.RECORD}") as caught:
        read_record(bound(broken), FAMILIES)
    assert (caught.value.node, caught.value.devices) == ("n1", frozenset({"npu-0"}))


def test_unreadable_native_record_is_not_replaced_by_its_mirror() -> None:
    annotations = written(placement(((device(), share()),)))
    with pytest.raises(RecordError):
        read_record(bound({**annotations, native.RECORD: "[{"}), FAMILIES)


def test_record_of_a_container_the_pod_does_not_have_is_an_error() -> None:
    annotations = written(placement(((device(), share()),)))
    with pytest.raises(RecordError, match="one of the containers"):
        read_record(bound(annotations, "b"), FAMILIES)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_record_of_another_node_is_an_error_that_blocks_nothing_there(dialect: Dialect) -> None:
    annotations = written(placement(((device(), share()),)))
    if dialect is Dialect.V210:
        annotations = {key: annotations[key] for key in (NODE, ALLOCATED)}
    copied = replace(bound(annotations), node="n2")
    with pytest.raises(RecordError, match="node n2") as caught:
        read_record(copied, FAMILIES)
    assert caught.value.node == "n2"


def test_unsigned_older_record_does_not_count_where_it_is_not_trusted() -> None:
    view = bound({NODE: "n1", ALLOCATED: "npu-0,Acme,1,1:;"})
    with pytest.raises(RecordError, match="not trusted") as caught:
        read_record(view, FAMILIES, trust_v210=False)
    assert caught.value.devices == {"npu-0"}


def test_record_of_a_family_that_is_not_installed_can_be_read() -> None:
    record = read_record(bound(written(placement(((device(), share()),)))), {})
    assert record is not None
    assert record.shares[0].family == "Acme"


def test_proof_of_an_unknown_version_is_an_error() -> None:
    annotations = written(placement(((device(), share()),)))
    with pytest.raises(RecordError, match="version"):
        read_record(bound({**annotations, native.PROOF: '{"version":9}'}), FAMILIES)


def test_explained_annotations_are_the_same_whenever_they_are_written() -> None:
    placed = placement(((device(), share()),))
    early, late = (
        explain_annotations(write_record(pod_of(placed), placed, FAMILIES, at_ns=at, ordered=frozenset({"Acme"})))
        for at in (0, AT_NS)
    )
    assert early == late
    assert native.RECORD in early
    assert not {native.PROOF, TIME, BIND_TIME} & set(early)
    assert list(early) == sorted(early)


def test_core_keys_are_those_that_belong_to_no_family() -> None:
    keys = set(written(placement(((device(), share()),)), ordered="Acme"))
    assert keys - {ALLOCATED, TO_ALLOCATE} == CORE_KEYS
