"""The states and ends of a reservation."""

import pytest

from hami_core_py.models.allocations import Placement
from hami_core_py.services.holding import State
from hami_core_py.testing.builders import device
from tests.unit.scheduling.books import Books, asking


@pytest.fixture
def books() -> Books:
    books = Books()
    books.add_node("n1", [device("npu-0", memory_mib=6000)])
    books.add_node("n2", [device("npu-1", memory_mib=6000)])
    return books


def test_assumed_reservation_ends_at_its_deadline(books: Books) -> None:
    books.assume(asking("a", 4000), "n1")
    books.clock.now += 29.9
    assert books.reservations.expire() == ()
    books.clock.now += 0.1

    assert books.reservations.expire() == ("uid-default-a",)
    assert books.used_mib("n1") == 0


def test_pod_with_volume_claims_is_given_longer(books: Books) -> None:
    books.assume(asking("a", 4000), "n1", waits_for_volumes=True)
    books.clock.now += 659.0
    assert books.reservations.expire() == ()
    books.clock.now += 1.0

    assert books.reservations.expire() == ("uid-default-a",)


def test_next_filter_ends_an_assumed_reservation(books: Books) -> None:
    pod = asking("a", 4000)
    books.assume(pod, "n1")

    assert books.reservations.begin_filter(pod.uid) is None
    assert books.used_mib("n1") == 0


def test_next_filter_leaves_a_binding_reservation_and_names_its_node(books: Books) -> None:
    pod = asking("a", 4000)
    books.begin_binding(pod, "n1")

    held = books.reservations.begin_filter(pod.uid)

    assert held is not None
    assert (held.node, held.state) == ("n1", State.BINDING)
    assert books.used_mib("n1") == 4000


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_pod_that_is_being_bound_is_assumed_nowhere(books: Books, node: str) -> None:
    pod = asking("a", 4000)
    books.begin_binding(pod, "n1")

    assert not isinstance(books.assume(pod, node), Placement)

    held = books.reservations.get(pod.uid)
    assert held is not None
    assert (held.node, held.state) == ("n1", State.BINDING)


def test_no_deadline_ends_a_binding_reservation(books: Books) -> None:
    pod = asking("a", 4000)
    books.assume(pod, "n1")
    books.begin_binding(pod, "n1")
    books.clock.now += 1e6

    assert books.reservations.expire() == ()
    assert books.used_mib("n1") == 4000


def test_two_filters_without_a_bind_hold_one_node(books: Books) -> None:
    pod = asking("a", 4000)
    books.assume(pod, "n1")
    books.assume(pod, "n2")

    assert (books.used_mib("n1"), books.used_mib("n2")) == (0, 4000)


def test_news_that_the_pod_was_not_scheduled_ends_an_assumed_reservation(books: Books) -> None:
    pod = asking("a", 4000)
    books.assume(pod, "n1", condition="before")
    books.reservations.pod_waits(pod.uid, "before", "")
    assert books.used_mib("n1") == 4000, "that condition is older than the reservation"

    books.reservations.pod_waits(pod.uid, "after", "")

    assert books.used_mib("n1") == 0


def test_news_that_the_pod_was_not_scheduled_does_not_end_a_binding_one(books: Books) -> None:
    pod = asking("a", 4000)
    books.begin_binding(pod, "n1")

    books.reservations.pod_waits(pod.uid, "anything", "n2")

    assert books.used_mib("n1") == 4000


def test_assumed_reservation_moves_to_the_node_that_kube_scheduler_names(books: Books) -> None:
    pod = asking("a", 4000)
    books.assume(pod, "n1")
    books.clock.now += 20

    books.reservations.pod_waits(pod.uid, "", "n2")

    assert (books.used_mib("n1"), books.used_mib("n2")) == (0, 4000)
    books.clock.now += 10
    assert books.reservations.expire() == (pod.uid,), "it keeps its deadline"


def test_assumed_reservation_ends_where_the_named_node_has_no_room(books: Books) -> None:
    books.begin_binding(asking("other", 4000), "n2")
    pod = asking("a", 4000)
    books.assume(pod, "n1")

    books.reservations.pod_waits(pod.uid, "", "n2")

    assert (books.used_mib("n1"), books.used_mib("n2")) == (0, 4000)


def test_assumed_reservation_yields_to_a_pod_of_higher_priority(books: Books) -> None:
    low, high = asking("low", 4000), asking("high", 4000, priority=10)
    books.assume(low, "n1")

    assert isinstance(books.assume(high, "n1"), Placement)

    held = books.reservations.get(low.uid)
    assert held is None
    assert not books.fits(low, "n1")


def test_assumed_reservation_does_not_yield_to_an_equal(books: Books) -> None:
    books.assume(asking("first", 4000), "n1")

    assert not isinstance(books.assume(asking("second", 4000), "n1"), Placement)


def test_binding_reservation_yields_to_nobody(books: Books) -> None:
    books.begin_binding(asking("low", 4000), "n1")

    assert not books.fits(asking("high", 4000, priority=10), "n1")


def test_failed_binding_leaves_nothing(books: Books) -> None:
    pod = asking("a", 4000)
    books.begin_binding(pod, "n1")
    books.reservations.failed(pod.uid)

    assert books.used_mib("n1") == 0
    assert books.reservations.note(pod.uid) is None


def test_binding_that_happened_is_held_until_the_record_arrives(books: Books) -> None:
    pod = asking("a", 4000)
    books.begin_binding(pod, "n1")
    books.reservations.happened(pod.uid)
    books.reservations.failed(pod.uid)

    assert books.used_mib("n1") == 4000, "what has happened cannot fail any more"


def test_unknown_outcome_is_named_until_somebody_has_found_out(books: Books) -> None:
    pod = asking("a", 4000)
    books.begin_binding(pod, "n1")
    books.reservations.unknown(pod.uid)

    ((held, note),) = books.reservations.unsettled()

    assert (held.uid, held.node, note.unknown_since) == (pod.uid, "n1", books.clock.now)
    books.reservations.happened(pod.uid)
    assert books.reservations.unsettled() == ()


def test_deleted_pod_holds_nothing_even_while_it_is_being_bound(books: Books) -> None:
    pod = asking("a", 4000)
    books.begin_binding(pod, "n1")

    books.reservations.pod_gone(pod.uid)

    assert books.used_mib("n1") == 0


def test_pod_bound_by_somebody_else_is_not_counted_as_assumed(books: Books) -> None:
    pod = asking("a", 4000)
    books.assume(pod, "n1")

    books.reservations.pod_bound(pod.uid, "n2")

    assert books.used_mib("n1") == 0


def test_pod_that_is_missing_from_a_list_holds_nothing_any_more(books: Books) -> None:
    bound, assumed = asking("bound", 4000), asking("assumed", 4000)
    books.begin_binding(bound, "n1")
    books.reservations.happened(bound.uid)
    books.assume(assumed, "n2")
    books.reservations.list_begins()

    books.reservations.list_ends([])

    assert (books.used_mib("n1"), books.used_mib("n2")) == (0, 0)


def test_list_says_nothing_of_what_happened_after_it_began(books: Books) -> None:
    books.reservations.list_begins()
    pod = asking("a", 4000)
    books.begin_binding(pod, "n1")
    books.reservations.happened(pod.uid)

    books.reservations.list_ends([])

    assert books.used_mib("n1") == 4000
