"""Locks, times, handshakes, reservations and reasons: the short texts of the wire."""

import pytest

from hami_core_py.codecs.handshake import is_request, render_request, requested_at
from hami_core_py.codecs.locks import Lock, owned_by, parse_lock, render_lock
from hami_core_py.codecs.times import parse_time, render_time
from hami_core_py.codecs.v210.partitions import Realised, Reservation, parse_reservations, render_reservations
from hami_core_py.codecs.v210.reasons import WORDS, parse_counts, render_counts, render_refusals, word
from hami_core_py.errors import BadInputError, RecordError
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.devices import DeviceId
from hami_core_py.models.families import V210
from hami_core_py.testing.builders import family

TEN_O_CLOCK = 1_788_084_000 * 10**9


@pytest.mark.parametrize(
    ("text", "at_ns"),
    [
        ("2026-08-30T10:00:00Z", TEN_O_CLOCK),
        ("2026-08-30T12:00:00+02:00", TEN_O_CLOCK),
        ("2026-08-30T05:30:00-04:30", TEN_O_CLOCK),
        ("2026-08-30T10:00:00.000000001Z", TEN_O_CLOCK + 1),
        ("2026-08-30T10:00:00.5Z", TEN_O_CLOCK + 500_000_000),
        ("1970-01-01T00:00:00Z", 0),
    ],
)
def test_times_of_any_offset_are_one_moment(text: str, at_ns: int) -> None:
    assert parse_time(text, "time") == at_ns
    assert parse_time(render_time(at_ns), "time") == at_ns


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-08-30 10:00:00", "2026-13-30T10:00:00Z", "2026-08-30T10:00:00", "2026-08-30T10:00:00+99:00"],
)
def test_text_that_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(BadInputError, match="a time such as"):
        parse_time(text, "time")


def test_lock_names_its_pod_in_whole_seconds() -> None:
    text = render_lock(TEN_O_CLOCK + 123, "default", "train")
    assert text == "2026-08-30T10:00:00Z,default,train"
    assert parse_lock(text) == Lock(at_ns=TEN_O_CLOCK, namespace="default", pod="train")


def test_bare_time_is_a_lock_without_owner() -> None:
    assert not parse_lock("2026-08-30T10:00:00Z").has_owner


@pytest.mark.parametrize("text", ["lock", "2026-08-30T10:00:00Z,a", "2026-08-30T10:00:00Z,a,b,c", "x,a,b"])
def test_text_that_is_no_lock_is_an_error(text: str) -> None:
    with pytest.raises(BadInputError):
        parse_lock(text)


def test_lock_belongs_to_the_pod_of_that_very_name() -> None:
    text = render_lock(TEN_O_CLOCK, "x", "my-p")
    assert owned_by(text, "x", "my-p")
    assert not owned_by(text, "x", "p")
    assert not owned_by(text, "", "my-p")


def test_request_is_known_by_its_word_and_says_when() -> None:
    text = render_request(TEN_O_CLOCK + 5)
    assert text == "Requesting_2026-08-30 10:00:00"
    assert is_request(text)
    assert requested_at(text) == TEN_O_CLOCK


@pytest.mark.parametrize(
    "text", ["Requesting", "Requesting_soon", "Requesting_2026-08-30T10:00:00Z", "Requesting_2026-8-30 10:00:00"]
)
def test_request_without_a_time_says_nothing(text: str) -> None:
    assert is_request(text)
    assert requested_at(text) is None


@pytest.mark.parametrize("text", ["", "Reported_2026-08-30 10:00:00", "Deleted_x"])
def test_other_texts_are_the_plugins(text: str) -> None:
    assert not is_request(text)


def test_reservations_are_read_as_they_were_written() -> None:
    reserved = Reservation(container=0, position=1, device="a", profile="2c", start=0, cells=2)
    realised = Reservation(
        container=1,
        position=0,
        device="a",
        profile="1c",
        start=6,
        cells=1,
        realised=Realised(uuid="P-1", gpu_instance=0, compute_instance=0),
    )
    text = render_reservations([reserved, realised])
    assert parse_reservations(text, "pod") == (reserved, realised)
    assert parse_reservations("", "pod") == ()


@pytest.mark.parametrize(
    "change",
    [
        '"containerIndex":-1',
        '"deviceIndex":-1',
        '"deviceIndex":true',
        '"gpuUUID":""',
        '"profile":""',
        '"placement":{"start":0,"size":0}',
        '"placement":{"start":-1,"size":1}',
        '"placement":{}',
        '"migUUID":"P-1"',
        '"gpuInstanceID":1,"computeInstanceID":0',
    ],
)
def test_incomplete_reservation_is_an_error(change: str) -> None:
    whole = '"containerIndex":0,"deviceIndex":0,"gpuUUID":"a","profile":"1c","placement":{"start":0,"size":1}'
    assert parse_reservations(f"[{{{whole}}}]", "pod")
    with pytest.raises(RecordError):
        parse_reservations(f"[{{{whole},{change}}}]", "pod")


def test_two_reservations_of_one_place_are_an_error() -> None:
    one = render_reservations([Reservation(container=0, position=0, device="a", profile="1c", start=0, cells=1)])
    with pytest.raises(RecordError, match="two"):
        parse_reservations(f"[{one[1:-1]},{one[1:-1]}]", "pod")


def struck(reason: Reason, *devices: str, out_of: int) -> list[Refusal]:
    return [Refusal(reason=reason, device=DeviceId(device), out_of=out_of) for device in devices]


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_word(reason: Reason) -> None:
    assert word(reason)


def test_a_family_may_have_words_of_its_own() -> None:
    own = family("Acme", v210=V210(allocated="a", reason_words={Reason.MODE: "ModeNotFit"}))
    assert word(Reason.MODE, own) == "ModeNotFit"
    assert word(Reason.UNHEALTHY, own) == WORDS[Reason.UNHEALTHY]


def test_counts_are_sorted_as_text_and_read_back() -> None:
    text = render_counts({"CardNotHealth": 2, "CardInsufficientCore": 10}, 12)
    assert text == "10/12 CardInsufficientCore, 2/12 CardNotHealth"
    assert parse_counts(f"{text}, node unregistered") == {"CardNotHealth": 2, "CardInsufficientCore": 10}


def test_devices_are_counted_by_reason_out_of_all() -> None:
    refusals = [
        *struck(Reason.UNHEALTHY, "a", out_of=4),
        *struck(Reason.NOT_ENOUGH_MEMORY, "b", "c", out_of=4),
        Refusal(reason=Reason.TOO_FEW_DEVICES, usable=1, out_of=4),
    ]
    assert render_refusals(refusals) == (
        "1/4 AllocatedCardsInsufficientRequest, 1/4 CardNotHealth, 2/4 CardInsufficientMemory"
    )


def test_reasons_with_one_word_are_counted_together() -> None:
    refusals = [*struck(Reason.EXCLUSIVE, "a", out_of=2), *struck(Reason.NOT_IDLE, "b", out_of=2)]
    assert render_refusals(refusals) == "2/2 ExclusiveDeviceAllocateConflict"


def test_foremost_reason_of_a_combination_hides_the_others() -> None:
    own = family("Acme", v210=V210(allocated="a", shown_first=(Reason.NOT_IDLE, Reason.NUMA)))
    refusals = [*struck(Reason.NOT_ENOUGH_MEMORY, "a", out_of=3), *struck(Reason.NUMA, "b", "c", out_of=3)]
    assert render_refusals(refusals, own) == "2/3 NumaNotFit"


@pytest.mark.parametrize(
    ("refusal", "text"),
    [
        (Refusal(reason=Reason.NO_DEVICES), "NodeInsufficientDevice"),
        (Refusal(reason=Reason.UNKNOWN_NODE), "node unregistered"),
        (Refusal(reason=Reason.TOO_FEW_DEVICES, usable=2, out_of=2, curable=False), "NodeInsufficientDevice"),
    ],
)
def test_what_is_said_of_the_node_is_not_counted(refusal: Refusal, text: str) -> None:
    assert render_refusals([refusal]) == text
