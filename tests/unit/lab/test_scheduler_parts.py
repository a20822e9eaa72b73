"""The lab scheduler's own filters and its queue."""

from decimal import Decimal
from typing import Any

from hami_core_py.lab.kubescheduler.predicates import asks_for, pod_demand, refusals
from hami_core_py.lab.kubescheduler.queue import SchedulingQueue

DEVICE = "acme.example/npu"


def container(amount: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"limits": {DEVICE: amount}}, **more}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    spec |= {"containers": list(containers), "initContainers": list(init)}
    return {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": spec}


def node(allocatable: str = "4", **more: Any) -> dict[str, Any]:
    status = {"allocatable": {DEVICE: allocatable, "pods": "10"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": "n", "labels": {"zone": "a"}}, "spec": more, "status": status}


def test_init_containers_take_the_maximum_and_sidecars_add_up() -> None:
    sidecar = container("1", restartPolicy="Always")
    assert pod_demand(pod(container("2"), init=(container("5"),)))[DEVICE] == 5
    assert pod_demand(pod(container("2"), init=(sidecar, container("5"))))[DEVICE] == 6
    assert pod_demand(pod(container("2"), container("3"), init=(sidecar,)))[DEVICE] == 6


def test_extender_is_asked_only_for_pods_that_name_its_resources() -> None:
    assert asks_for(pod(container("1")), [DEVICE])
    assert not asks_for(pod({"name": "c"}), [DEVICE])


def test_node_without_room_is_refused_with_the_resource() -> None:
    asked = pod(container("3"))
    assert refusals(asked, pod_demand(asked), node(), {DEVICE: Decimal(1)}, frozenset()) == []
    assert refusals(asked, pod_demand(asked), node(), {DEVICE: Decimal(2)}, frozenset()) == [f"Insufficient {DEVICE}"]
    assert refusals(asked, pod_demand(asked), node(), {DEVICE: Decimal(2)}, frozenset({DEVICE})) == []


def test_cordoned_and_unselected_nodes_are_refused() -> None:
    asked = pod(container("1"), nodeSelector={"zone": "b"})
    assert refusals(asked, pod_demand(asked), node(), {}, frozenset()) == [
        "node(s) didn't match Pod's node affinity/selector"
    ]
    free = pod(container("1"))
    assert refusals(free, pod_demand(free), node(unschedulable=True), {}, frozenset()) == ["node(s) were unschedulable"]


def test_queue_prefers_priority_then_age() -> None:
    queue = SchedulingQueue()
    queue.put(("d", "young"), "1", 0, "2026-01-02")
    queue.put(("d", "old"), "2", 0, "2026-01-01")
    queue.put(("d", "urgent"), "3", 5, "2026-01-03")
    order = []
    while key := queue.next(0.0):
        order.append(key[1])
        queue.drop(key)
    assert order == ["urgent", "old", "young"]


def test_refused_pod_sleeps_until_something_changes_and_its_back_off_is_over() -> None:
    queue = SchedulingQueue(first_backoff_seconds=1.0, longest_backoff_seconds=4.0, longest_sleep_seconds=200.0)
    queue.put(("d", "p"), "1", 0, "")
    queue.refused(("d", "p"), 10.0, asleep=True)
    assert queue.next(100.0) is None
    assert queue.next_time() == 210.0
    queue.wake()
    assert queue.next(10.5) is None
    assert queue.next_time() == 11.0
    assert queue.next(11.0) == ("d", "p")
    for _ in range(5):
        queue.refused(("d", "p"), 20.0, asleep=False)
    assert queue.next_time() == 24.0


def test_change_during_an_attempt_keeps_the_refused_pod_awake() -> None:
    queue = SchedulingQueue(first_backoff_seconds=1.0)
    queue.put(("d", "p"), "1", 0, "")
    assert queue.next(10.0) == ("d", "p")
    queue.wake()
    queue.refused(("d", "p"), 10.0, asleep=True)
    assert queue.next(11.0) == ("d", "p")


def test_pod_that_nothing_wakes_is_tried_again_after_a_while() -> None:
    queue = SchedulingQueue(longest_sleep_seconds=5.0)
    queue.put(("d", "p"), "1", 0, "")
    queue.next(10.0)
    queue.refused(("d", "p"), 10.0, asleep=True)
    assert queue.next(14.9) is None
    assert queue.next(15.0) == ("d", "p")
