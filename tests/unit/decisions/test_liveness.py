"""Whether a node under a v2.10 plugin is alive."""

import pytest

from hami_core_py.codecs.handshake import render_request
from hami_core_py.decisions.handshake import NEVER_SEEN, PATIENCE_NS, Pulse, Seen, look
from hami_core_py.models.families import AnnotatedDevices, Family, Handshake, WhileCapacity
from hami_core_py.models.views import NodeView
from hami_core_py.testing.builders import COUNT, family, node

NOW = 1_788_084_000 * 10**9
SHAKES, REGISTER = "hami.io/node-handshake-acme", "hami.io/node-acme-register"
FRESH, OLD = render_request(NOW - PATIENCE_NS + 10**9), render_request(NOW - PATIENCE_NS)

ANSWERS = family("Acme", liveness=Handshake(SHAKES))
COUNTS_TOO = family("Acme", liveness=Handshake(SHAKES, or_capacity_lost=True), inventory=AnnotatedDevices(key=REGISTER))


def seen(handshake: str | None, count: object = 0, register: str | None = None) -> NodeView:
    texts = {SHAKES: handshake, REGISTER: register}
    return node(annotations={k: t for k, t in texts.items() if t is not None}, capacity={COUNT: count})


def pulse(view: NodeView, of: Family = ANSWERS, before: Seen = NEVER_SEEN) -> Pulse:
    return look(view, of, before, NOW)[0]


@pytest.mark.parametrize("text", [None, "", "Reported_2026-01-01 00:00:00", "Unknown"])
def test_plugin_that_spoke_is_alive_is_read_again_and_asked(text: str | None) -> None:
    assert pulse(seen(text)) == Pulse(alive=True, reread=True, asks=True)


def test_request_may_wait_for_a_minute() -> None:
    assert pulse(seen(FRESH)) == Pulse(alive=True, reread=False)


def test_unanswered_request_means_death_unless_devices_are_allocatable() -> None:
    assert not pulse(seen(OLD)).alive
    assert pulse(seen(OLD, count=8)).alive


@pytest.mark.parametrize("text", ["Requesting", "Requesting_not-a-time"])
def test_request_without_a_time_waits_for_ever(text: str) -> None:
    assert pulse(seen(text)) == Pulse(alive=True, reread=False)


def test_stamp_of_a_clock_that_runs_ahead_is_fresh() -> None:
    assert pulse(seen(render_request(NOW + 10**12))).alive


def test_amount_that_is_no_number_is_none() -> None:
    assert not pulse(seen(OLD, count="many")).alive


def test_devices_that_vanish_mean_death_though_the_request_is_fresh() -> None:
    alive, before = look(seen(FRESH, count=8), COUNTS_TOO, NEVER_SEEN, NOW)
    assert alive == Pulse(alive=True, reread=True)
    dead, before = look(seen(FRESH), COUNTS_TOO, before, NOW)
    assert dead == Pulse(alive=False, reread=False)
    assert look(seen(FRESH), COUNTS_TOO, before, NOW)[0].alive


def test_new_register_text_is_read() -> None:
    _, before = look(seen(FRESH, count=8, register="[]"), COUNTS_TOO, NEVER_SEEN, NOW)
    assert not pulse(seen(FRESH, count=8, register="[]"), COUNTS_TOO, before).reread
    assert pulse(seen(FRESH, count=8, register="[{}]"), COUNTS_TOO, before).reread


def test_family_without_handshake_lives_with_its_capacity() -> None:
    counted = family("Acme", liveness=WhileCapacity("count"))
    assert pulse(seen(None, count=1), counted) == Pulse(alive=True, reread=True)
    assert not pulse(seen(None), counted).alive


def test_family_that_says_nothing_is_alive() -> None:
    assert pulse(seen(OLD), family("Acme")).alive
