"""What the author of a pod is told."""

import pytest

from hami_core_py.cluster.events import About, EventType
from hami_core_py.models.devices import Health
from hami_core_py.models.views import PodView
from hami_core_py.services.scheduling.recent import Asked
from hami_core_py.services.scheduling.telling import Teller
from hami_core_py.testing.builders import device
from tests.unit.scheduling.books import Books, asking


class Heard:
    """Keeps the events that were said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def say(self, about: About, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        self.events.append((type, reason, message))


class Told:
    """Books, and a teller that is asked to explain."""

    def __init__(self) -> None:
        self.books, self.heard = Books(), Heard()
        self.teller = Teller(self.books.engine, self.heard, clock=self.books.clock)

    def refuse(self, pod: PodView) -> None:
        request = self.books.request(pod)
        self.teller.refused(Asked(pod=pod, request=request), self.books.engine.evaluate(pod, request))

    def wait(self) -> None:
        """Until everything asked for so far has been explained."""
        self.teller.wait()

    def finish(self) -> list[tuple[str, str, str]]:
        self.teller.stop()
        return self.heard.events


@pytest.fixture
def told() -> Told:
    told = Told()
    told.books.add_node("n1", [device("npu-0", memory_mib=3000)])
    told.books.add_node("n2", [device("npu-1", memory_mib=2000), device("npu-2", memory_mib=1000)])
    told.books.add_node("n3", [])
    return told


def test_refused_pod_hears_how_many_nodes_and_the_numbers_of_one(told: Told) -> None:
    told.refuse(asking("a", 4000))

    ((kind, reason, message),) = told.finish()
    assert (kind, reason) == ("Warning", "FilteringFailed")
    assert message == (
        "no node of 3 fits: 2 because its devices lack free memory (n1: npu-0: asked 4000 MiB, 3000 of 3000 MiB free); "
        "1 because it has no such device (n3)"
    )


def test_refused_pod_is_not_told_again_before_a_while_has_passed(told: Told) -> None:
    pod = asking("a", 4000)
    for seconds in (0, 10, 10, 11):
        told.books.clock.now += seconds
        told.refuse(pod)
        told.wait()

    assert len(told.finish()) == 2


def test_refused_pod_is_told_at_once_of_a_reason_that_it_has_not_heard(told: Told) -> None:
    pod = asking("a", 4000)
    told.refuse(pod)
    told.wait()
    told.books.add_node("n4", [device("npu-4", memory_mib=9000, health=Health.UNHEALTHY)])
    for _ in range(3):
        told.books.clock.now += 1
        told.refuse(pod)
        told.wait()

    first, second = told.finish()
    assert "n4" not in first[2]
    assert "no node of 4 fits" in second[2]


def test_bound_pod_may_be_told_anew(told: Told) -> None:
    pod = asking("a", 4000)
    told.teller.not_bound(pod, "no")
    told.teller.not_bound(pod, "no")
    told.teller.bound(pod)
    told.teller.not_bound(pod, "no")

    assert [reason for _, reason, _ in told.finish()] == ["BindingFailed", "BindingFailed"]
