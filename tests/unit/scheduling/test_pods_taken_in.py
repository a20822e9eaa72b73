"""From pod events to the ledger, and the end of a pod's life (T27)."""

from typing import Any

import pytest

from hami_core_py.codecs.native import BIND_NODE, RECORD
from hami_core_py.codecs.records import write_record
from hami_core_py.models.allocations import ContainerPlacement, Placement
from hami_core_py.models.requests import ContainerKind
from hami_core_py.models.views import pod_view
from hami_core_py.services.intake import PodIntake, read_pod_news
from hami_core_py.testing.builders import device, share
from tests.unit.scheduling.books import Books, asking

Json = dict[str, Any]


def bound(name: str, uid: str, memory_mib: int, node: str = "n1", **status: Any) -> Json:
    """A bound pod with its record."""
    pod: Json = {
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {"nodeName": node, "containers": [{"name": "main"}]},
        "status": {"phase": "Running", **status},
    }
    pairs = ((device("npu-0"), share(memory_mib=memory_mib)),)
    placed = ContainerPlacement(name="main", kind=ContainerKind.APP, pairs=pairs)
    view, placement = pod_view(pod), Placement(node=node, containers=(placed,))
    pod["metadata"]["annotations"] = write_record(view, placement, {}, at_ns=1)
    return pod


class Taken:
    """Pods taken in beside a node with one device."""

    def __init__(self) -> None:
        self.books = Books()
        self.books.add_node("n1", [device("npu-0")])
        self.intake = PodIntake(self.books.ledger, self.books.ask, listener=self.books.reservations)

    def update(self, *pods: Json) -> None:
        for pod in pods:
            self.intake.update(read_pod_news(pod))

    def delete(self, pod: Json) -> None:
        self.intake.remove(read_pod_news(pod).uid)

    @property
    def used_mib(self) -> int:
        return self.books.used_mib("n1")


@pytest.fixture
def taken() -> Taken:
    taken = Taken()
    taken.update(bound("job-a", "U1", 7000))
    assert taken.used_mib == 7000
    return taken


def test_terminating_pod_still_holds_its_share(taken: Taken) -> None:
    pod = bound("job-a", "U1", 7000)
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    taken.update(pod)

    assert taken.used_mib == 7000


def test_terminating_pod_that_is_seen_first_holds_its_share() -> None:
    taken = Taken()
    pod = bound("job-a", "U1", 7000)
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    taken.update(pod)

    assert taken.used_mib == 7000


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_holds_nothing(taken: Taken, phase: str) -> None:
    taken.update(bound("job-a", "U1", 7000, phase=phase))

    assert taken.used_mib == 0


def test_delete_event_without_annotations_frees_and_so_does_its_repetition(taken: Taken) -> None:
    gone = {"metadata": {"name": "job-a", "namespace": "default", "uid": "U1"}}
    taken.delete(gone)
    assert taken.used_mib == 0
    taken.delete(gone)

    assert taken.used_mib == 0


def test_pod_that_is_missing_from_a_list_is_gone(taken: Taken) -> None:
    taken.intake.sync([])

    assert taken.used_mib == 0


def test_late_delete_of_a_predecessor_leaves_the_successor_alone(taken: Taken) -> None:
    taken.update(bound("job-a", "U1", 7000, phase="Succeeded"), bound("job-a", "U2", 3000))
    taken.delete(bound("job-a", "U1", 7000))

    assert taken.used_mib == 3000


def test_changed_record_of_a_known_pod_is_read_again(taken: Taken) -> None:
    taken.update(bound("job-a", "U1", 2000))

    assert taken.used_mib == 2000


def test_record_that_disappears_counts_no_more(taken: Taken) -> None:
    pod = bound("job-a", "U1", 7000)
    pod["metadata"]["annotations"] = {}
    taken.update(pod)

    assert taken.used_mib == 0


def test_annotations_of_a_pod_that_is_not_bound_are_no_record() -> None:
    taken = Taken()
    pod = bound("phantom", "U9", 7000)
    del pod["spec"]["nodeName"]
    taken.update(pod)

    assert taken.used_mib == 0


def test_record_that_cannot_be_read_blocks_its_device_until_the_pod_is_gone() -> None:
    taken = Taken()
    taken.books.add_node("n1", [device("npu-0"), device("npu-1")])
    pod = bound("odd", "U1", 1000)
    pod["metadata"]["annotations"][RECORD] = '[{"uuid":"npu-0","memory":-1}]'
    taken.update(pod, bound("good", "U2", 2000))

    blocked = taken.books.ledger.blocked("n1")
    assert (set(blocked.devices), blocked.whole_node) == ({"npu-0"}, False)
    assert taken.used_mib == 2000, "the other pod counts"
    assert taken.books.fits(asking("a", 1000), "n1"), "the other device is free"

    taken.delete(pod)
    assert not taken.books.ledger.blocked("n1").devices


def test_record_of_another_node_blocks_and_counts_nowhere() -> None:
    taken = Taken()
    pod = bound("odd", "U1", 1000)
    pod["metadata"]["annotations"][BIND_NODE] = "elsewhere"
    taken.update(pod)

    assert taken.used_mib == 0
    assert set(taken.books.ledger.blocked("n1").devices) == {"npu-0"}


def test_record_replaces_the_reservation_of_its_pod() -> None:
    taken = Taken()
    pod = asking("job-a", 5000, uid="U1")
    taken.books.begin_binding(pod, "n1")
    assert taken.used_mib == 5000

    taken.update(bound("job-a", "U1", 5000))

    assert taken.used_mib == 5000
    assert taken.books.reservations.get("U1") is None


def test_same_events_in_another_order_give_the_same_usage() -> None:
    events = [bound("a", "A", 1000), bound("b", "B", 2000), bound("c", "C", 3000)]
    one, other = Taken(), Taken()
    one.update(*events)
    other.update(*reversed(events), *events)

    assert one.books.ledger.usage("n1") == other.books.ledger.usage("n1")
