"""Who holds what: records, reservations, blocked devices, and care for the sums."""

from typing import Any

from hami_core_py.models.allocations import ContainerPlacement, Placement, RecordedShare
from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import IDLE, DeviceId, Usage
from hami_core_py.models.requests import ContainerKind, ContainerRequest, PodRequest
from hami_core_py.services.holding import Drift, Holding, State
from hami_core_py.services.ledger import Ledger
from hami_core_py.testing.builders import FAMILY, device, share, usage

G0, G1 = DeviceId("npu-0"), DeviceId("npu-1")


def holding(uid: str = "U1", memory_mib: int = 7000, **fields: Any) -> Holding:
    """A pod of one app container on device ``npu-0`` of node ``n1``."""
    recorded = RecordedShare(container="main", family=FAMILY, device=G0, share=share(memory_mib=memory_mib))
    defaults = {"namespace": "default", "name": "job-a", "node": "n1", "shares": (recorded,)}
    return Holding(**{"uid": uid, "containers": (("main", ContainerKind.APP),), **defaults, **fields})


def told(*holdings: Holding) -> Ledger:
    """A ledger that was told these records."""
    ledger = Ledger()
    for one in holdings:
        ledger.apply(one.uid, one)
    return ledger


def memory(ledger: Ledger) -> int:
    """MiB in use on ``npu-0``."""
    return ledger.usage_of("n1", G0).memory_mib


def pod(uid: str, priority: int = 0) -> PodRequest:
    """A pod that asks for something."""
    return PodRequest(
        uid=uid, namespace="default", name=uid, containers=(ContainerRequest(name="main"),), priority=priority
    )


def placement(memory_mib: int = 7000, node: str = "n1") -> Placement:
    """One share on ``npu-0``."""
    pairs = ((device("npu-0"), share(memory_mib=memory_mib)),)
    return Placement(node=node, containers=(ContainerPlacement(name="main", kind=ContainerKind.APP, pairs=pairs),))


def reserve(ledger: Ledger, uid: str, state: State = State.ASSUMED, priority: int = 0, **fields: Any) -> object:
    """Reserve ``placement()`` as decided just now."""
    return ledger.reserve(uid, placement(), pod(uid, priority), ledger.generation("n1"), state, **fields)


def test_finished_pod_holds_nothing() -> None:
    ledger = told(holding())
    ledger.apply("U1", holding(finished=True))
    assert ledger.usage("n1") == {}


def test_pod_removed_twice_leaves_zero_and_not_less() -> None:
    ledger = told(holding())
    ledger.remove("U1")
    ledger.remove("U1")
    assert ledger.usage_of("n1", G0) == IDLE


def test_late_delete_of_a_namesake_takes_nothing_from_its_successor() -> None:
    ledger = told(holding("U1"))
    ledger.remove("U1")
    ledger.apply("U2", holding("U2", memory_mib=3000))
    ledger.remove("U1")
    assert memory(ledger) == 3000


def test_changed_record_replaces_the_old_one() -> None:
    ledger = told(holding(memory_mib=7000), holding(memory_mib=2000))
    assert memory(ledger) == 2000
    ledger.apply("U1", holding(memory_mib=2000, node="n2"))
    assert ledger.usage("n1") == {}
    assert ledger.usage_of("n2", G0).memory_mib == 2000


def test_lost_delete_is_found_by_the_next_recount() -> None:
    ledger = told(holding("U1"), holding("U2", memory_mib=1000))
    drifts = ledger.recount(live=["U2"], listed_at=ledger.changes)
    assert [(d.node, d.pod) for d in drifts] == [("n1", "default/job-a")]
    assert memory(ledger) == 1000
    assert ledger.drift_total == 1
    assert ledger.recount(live=["U2"]) == ()


def test_pod_that_came_after_the_list_is_not_judged_by_it() -> None:
    ledger = Ledger()
    listed_at = ledger.changes
    ledger.apply("U1", holding())
    assert ledger.recount(live=[], listed_at=listed_at) == ()
    assert memory(ledger) == 7000


def test_wrong_sum_is_repaired_and_told() -> None:
    ledger = told(holding())
    ledger._accounts.books["n1"].usage[G0] = Usage(memory_mib=5)
    assert ledger.recount() == (
        Drift(node="n1", device=G0, had=Usage(memory_mib=5), should=usage(slots=1, memory_mib=7000, core_units=10)),
    )
    assert memory(ledger) == 7000


def test_unreadable_record_blocks_its_devices_until_it_is_readable() -> None:
    ledger = told()
    ledger.block("U1", "n1", [G1], "garbled")
    assert ledger.blocked("n1").covers(G1)
    assert not ledger.blocked("n1").covers(G0)
    ledger.apply("U1", holding("U1"))
    assert not ledger.blocked("n1").covers(G1)


def test_unreadable_record_without_devices_blocks_the_node_until_the_pod_is_gone() -> None:
    ledger = told(holding("U1"))
    ledger.block("U1", "n1", (), "garbled")
    assert ledger.blocked("n1").covers(G1)
    assert memory(ledger) == 7000
    ledger.remove("U1")
    assert not ledger.blocked("n1").covers(G1)


def test_lost_delete_of_an_unreadable_pod_is_found_by_the_recount() -> None:
    ledger = Ledger()
    ledger.block("U1", "n1")
    assert [d.pod for d in ledger.recount(live=[], listed_at=ledger.changes)] == ["U1"]
    assert not ledger.blocked("n1").covers(G0)


def test_reservation_counts_as_used_and_the_record_takes_its_place() -> None:
    ledger = Ledger()
    assert reserve(ledger, "U1", State.BINDING) is None
    assert memory(ledger) == 7000
    ledger.apply("U1", holding("U1"))
    assert memory(ledger) == 7000
    assert ledger.reservation("U1") is None
    assert not ledger.release("U1")


def test_settled_reservation_is_held_until_the_record_comes() -> None:
    ledger = Ledger()
    reserve(ledger, "U1", State.BINDING)
    assert ledger.settle("U1")
    assert not ledger.release("U1")
    assert memory(ledger) == 7000


def test_stale_decision_is_refused() -> None:
    ledger = Ledger()
    decided_at = ledger.generation("n1")
    ledger.apply("U2", holding("U2"))
    refused = ledger.reserve("U1", placement(), pod("U1"), decided_at, State.ASSUMED)
    assert refused is not None
    assert refused.reason is Reason.STALE
    assert memory(ledger) == 7000


def test_bound_pod_cannot_reserve_again() -> None:
    ledger = told(holding("U1"))
    refused = reserve(ledger, "U1")
    assert getattr(refused, "reason", None) is Reason.ALREADY_BOUND


def test_new_reservation_of_a_pod_moves_it() -> None:
    ledger = Ledger()
    reserve(ledger, "U1")
    assert ledger.reserve("U1", placement(node="n2"), pod("U1"), 0, State.BINDING) is None
    assert ledger.usage("n1") == {}
    assert [r.node for r in ledger.reservations()] == ["n2"]


def test_assumed_reservation_ends_at_its_deadline_and_a_binding_one_does_not() -> None:
    ledger = Ledger()
    reserve(ledger, "U1", deadline=30.0)
    reserve(ledger, "U2", State.BINDING, deadline=30.0)
    assert ledger.expire(29.9) == ()
    assert ledger.expire(30.0) == ("U1",)
    assert [r.uid for r in ledger.reservations()] == ["U2"]


def test_assumed_reservation_yields_to_a_pod_of_higher_priority() -> None:
    ledger = Ledger()
    reserve(ledger, "low")
    seen, _, _ = ledger.view("n1", uid="high", priority=10)
    assert seen.get(G0, IDLE) == IDLE
    assert ledger.nodes_seen_otherwise("high", 10) == {"n1"}
    assert reserve(ledger, "high", priority=10) is None
    assert ledger.reservation("low") is None
    assert memory(ledger) == 7000


def test_neither_equals_nor_binding_reservations_yield() -> None:
    ledger = Ledger()
    reserve(ledger, "equal", priority=10)
    reserve(ledger, "binding", State.BINDING)
    seen, _, _ = ledger.view("n1", uid="high", priority=10)
    assert seen[G0].memory_mib == 14000
    assert reserve(ledger, "high", priority=10) is None
    assert [r.uid for r in ledger.reservations()] == ["binding", "equal", "high"]


def test_victims_and_the_asking_pod_are_left_out_of_the_view() -> None:
    ledger = told(holding("U1"), holding("U2", memory_mib=1000), holding("U3", memory_mib=500))
    seen, _, _ = ledger.view("n1", uid="U3", without=["U1"])
    assert seen[G0].memory_mib == 1000


def test_share_of_a_container_the_pod_does_not_name_counts() -> None:
    recorded = RecordedShare(container="debug", family=FAMILY, device=G0, share=share(memory_mib=100))
    ledger = told(holding(shares=(*holding().shares, recorded)))
    assert memory(ledger) == 7100


def test_cells_of_the_remaining_pods_stay_occupied_when_one_leaves() -> None:
    def cut(uid: str, start: int) -> Holding:
        one = RecordedShare(container="main", family=FAMILY, device=G0, share=share(start=start, cells=1))
        return holding(uid, shares=(one,))

    ledger = told(cut("U1", 0), cut("U2", 1), cut("U3", 3))
    ledger.remove("U2")
    assert ledger.usage_of("n1", G0) == usage(slots=2, memory_mib=2048, core_units=20, cells=2, occupied=0b1001)
    ledger.remove("U1")
    assert ledger.usage_of("n1", G0).occupied == 0b1000
