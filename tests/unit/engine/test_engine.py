"""Cases of placing pods on small clusters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from threading import Barrier, Thread
from typing import Any

import pytest

from hami_core_py.errors import InventoryError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.allocations import Placement, RecordedShare
from hami_core_py.models.answers import Candidate, Reason, Refusal
from hami_core_py.models.backends import DeviceRule, NodeRule
from hami_core_py.models.devices import Device, Health, Inventory
from hami_core_py.models.families import Family, Placing
from hami_core_py.models.requests import (
    ContainerKind,
    ContainerRequest,
    CoreUnits,
    DeviceRequest,
    MemoryMib,
    PodRequest,
    Policies,
    Selection,
)
from hami_core_py.models.views import NodeView, PlacementView, PodView
from hami_core_py.services.engine import Engine
from hami_core_py.services.holding import Holding, State
from hami_core_py.services.inventory import Inventory as Nodes
from hami_core_py.services.ledger import Ledger
from hami_core_py.testing.builders import FAMILY, device, devices, family, request, share
from hami_core_py.testing.plugins import make_plugin


def engine(nodes: Mapping[str, Sequence[Device]], owner: Family | None = None, hooks: Sequence[Any] = ()) -> Engine:
    """An engine over these nodes, whose devices belong to one backend."""
    ask = Ask(load_backends(plugins=[make_plugin("acme", [owner or family()], hooks=hooks)]))
    inventory = Nodes()
    for name, here in nodes.items():
        inventory.set_node(NodeView(name=name), {FAMILY: Inventory(devices=tuple(here))})
    return Engine(inventory, Ledger(), ask)


def ask_for(memory_mib: int, cores: int = 0, **fields: Any) -> DeviceRequest:
    """One container's request."""
    return request(memory=MemoryMib(memory_mib), core=CoreUnits(cores), **fields)


def pod(*asked: DeviceRequest | None, uid: str = "new", kinds: str = "", **fields: Any) -> PodRequest:
    """One container per request; ``kinds`` has a letter for each: i(nit), s(idecar), a(pp)."""
    letters = {"i": ContainerKind.INIT, "s": ContainerKind.SIDECAR, "a": ContainerKind.APP}
    containers = tuple(
        ContainerRequest(name=f"c{n}", kind=letters[(kinds or "a" * len(asked))[n]], devices=(one,) if one else ())
        for n, one in enumerate(asked)
    )
    return PodRequest(uid=uid, namespace="default", name=uid, containers=containers, **fields)


def view(asked: PodRequest) -> PodView:
    """The pod behind a request."""
    return PodView(uid=asked.uid, namespace=asked.namespace, name=asked.name)


def used(on: Engine, node: str, **amounts: int) -> None:
    """Let a pod of its own hold so many MiB of each named device."""
    for name, memory_mib in amounts.items():
        recorded = RecordedShare(
            container="c",
            family=FAMILY,
            device=device(name.replace("_", "-")).id,
            share=share(memory_mib=memory_mib, core_units=0),
        )
        uid = f"{node}-{name}"
        on.ledger.apply(uid, Holding(uid=uid, namespace="default", name=uid, node=node, shares=(recorded,)))


def chosen(placed: object) -> list[list[str]]:
    """Ids of the devices of each container."""
    assert isinstance(placed, Placement), placed
    return [[npu.id for npu, _ in container.pairs] for container in placed.containers]


def flat(of_containers: list[list[str]]) -> list[str]:
    """Ids of all containers together, sorted."""
    return sorted(npu for one in of_containers for npu in one)


def reasons(placed: object) -> list[Reason]:
    """Reasons of a refusal."""
    assert isinstance(placed, tuple), placed
    return [refusal.reason for refusal in placed]


def place(on: Engine, asked: PodRequest, node: str = "n1") -> Any:
    """The placement or the refusals."""
    return on.place(asked, view(asked), node)


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_second_container_sees_the_first(policy: str) -> None:
    on = engine({"n1": devices(2, memory_mib=8192, slots=5)})
    asked = pod(ask_for(8192), ask_for(700), policies=Policies(device=(policy,)))
    placed = on.reserve(asked, view(asked), "n1", State.BINDING)
    assert flat(chosen(placed)) == ["npu-0", "npu-1"]
    assert reasons(place(on, pod(ask_for(7600), uid="next"))) == [Reason.NOT_ENOUGH_MEMORY] * 2


def test_containers_that_ask_for_nothing_keep_their_place() -> None:
    on = engine({"n1": devices(1)})
    asked = pod(None, ask_for(2000), None, ask_for(3000), kinds="iaaa")
    assert chosen(place(on, asked)) == [[], ["npu-0"], [], ["npu-0"]]


def test_two_app_containers_take_two_slots_and_init_with_app_takes_one() -> None:
    for kinds, fits in (("aa", False), ("ia", True)):
        on = engine({"n1": devices(1, slots=2)})
        asked = pod(ask_for(1000), ask_for(1000), kinds=kinds)
        on.reserve(asked, view(asked), "n1", State.BINDING)
        assert isinstance(place(on, pod(ask_for(1000), uid="b")), Placement) == fits


def test_sidecar_and_app_must_fit_beside_each_other() -> None:
    on = engine({"n1": devices(1)})
    assert reasons(place(on, pod(ask_for(10000), ask_for(10000), kinds="sa"))) == [Reason.NOT_ENOUGH_MEMORY]
    assert chosen(place(on, pod(ask_for(10000), ask_for(10000), kinds="ia"))) == [["npu-0"], ["npu-0"]]


FOUR = tuple(device(f"npu-{i}", memory_mib=10000, numa=i // 2) for i in range(4))


@pytest.mark.parametrize(
    ("policy", "memory_mib", "count", "numa_bind", "expected"),
    [
        ("spread", 1000, 1, False, ["npu-3"]),
        ("binpack", 1000, 1, False, ["npu-0"]),
        ("binpack", 3500, 1, False, ["npu-1"]),
        ("binpack", 4000, 2, True, ["npu-2", "npu-3"]),
        ("spread", 4000, 2, True, ["npu-2", "npu-3"]),
        ("binpack", 2500, 2, True, ["npu-0", "npu-1"]),
    ],
)
def test_load_counts_before_numa(
    policy: str, memory_mib: int, count: int, numa_bind: bool, expected: list[str]
) -> None:
    on = engine({"n1": FOUR})
    used(on, "n1", npu_0=7000, npu_1=5500, npu_2=2000, npu_3=500)
    asked = pod(ask_for(memory_mib, count=count, numa_bind=numa_bind), policies=Policies(device=(policy,)))
    assert flat(chosen(place(on, asked))) == expected


def test_devices_of_different_numa_nodes_do_not_bind() -> None:
    on = engine({"n1": (device("npu-0", numa=0), device("npu-1", numa=1))})
    asked = pod(ask_for(1000, count=2, numa_bind=True))
    assert reasons(place(on, asked)) == [Reason.NUMA, Reason.TOO_FEW_DEVICES]
    assert on.evaluate(view(asked), asked).refused == {"n1": Reason.NUMA}


def test_devices_that_are_left_behind_for_another_numa_node_are_refused_for_that() -> None:
    on = engine({"n1": (device("npu-0", numa=0), device("npu-1", numa=1), device("npu-2", numa=1))})
    used(on, "n1", npu_2=1000)
    asked = pod(ask_for(1000, count=2, numa_bind=True), policies=Policies(device=("mutex",)))
    assert Counter(reasons(place(on, asked))) == {Reason.NOT_IDLE: 1, Reason.NUMA: 2}


def test_unhealthy_and_cordoned_devices_are_never_chosen() -> None:
    on = engine({})
    here = (device("npu-0", health=Health.UNHEALTHY), device("npu-1"))
    node = NodeView(name="n1", annotations={"hami.io/device-cordon": " npu-1 ,,"})
    on.inventory.set_node(node, {FAMILY: Inventory(devices=here)})
    assert sorted(r.value for r in reasons(place(on, pod(ask_for(1))))) == ["cordoned", "unhealthy"]


def test_running_pods_on_a_cordoned_device_are_still_counted() -> None:
    on = engine({"n1": devices(1)})
    used(on, "n1", npu_0=16000)
    node = NodeView(name="n1", annotations={"hami.io/device-cordon": "npu-0"})
    on.inventory.set_node(node, {FAMILY: Inventory(devices=devices(1))})
    on.inventory.set_node(NodeView(name="n1"), {FAMILY: Inventory(devices=devices(1))})
    assert reasons(place(on, pod(ask_for(1000)))) == [Reason.NOT_ENOUGH_MEMORY]


def test_device_that_vanishes_and_comes_back_still_has_its_tenants() -> None:
    on = engine({"n1": devices(1)})
    used(on, "n1", npu_0=16000)
    asked = pod(ask_for(1000))
    on.inventory.set_node(NodeView(name="n1"), {FAMILY: Inventory()})
    assert on.evaluate(view(asked), asked).refused == {"n1": Reason.NO_DEVICES}
    on.inventory.set_node(NodeView(name="n1"), {FAMILY: Inventory(devices=devices(1))})
    assert on.evaluate(view(asked), asked).refused == {"n1": Reason.NOT_ENOUGH_MEMORY}


def test_closed_families_say_why() -> None:
    on = engine({"n1": devices(1), "n2": devices(1), "n3": ()})
    asked = pod(ask_for(1))
    unreadable = InventoryError("node n2", "a list", "garbage")
    on.inventory.set_node(NodeView(name="n1"), {FAMILY: Inventory(devices=devices(1))}, alive={FAMILY: False})
    on.inventory.set_node(NodeView(name="n2"), {FAMILY: unreadable})
    on.inventory.set_node(NodeView(name="n3"), {FAMILY: unreadable})
    on.inventory.set_node(NodeView(name="n4"), {FAMILY: Inventory(devices=devices(1))})
    on.ledger.block("unreadable", "n4")
    assert on.evaluate(view(asked), asked).refused == {
        "n1": Reason.AGENT_AWAY,
        "n2": Reason.UNREADABLE_INVENTORY,
        "n3": Reason.UNREADABLE_INVENTORY,
        "n4": Reason.UNREADABLE_RECORD,
    }


def test_nodes_are_ranked_by_fullness_and_name_and_cut_to_the_shortlist() -> None:
    on = engine({name: devices(1) for name in ("n3", "n1", "n2", "n4")})
    used(on, "n2", npu_0=8000)
    used(on, "n4", npu_0=16000)
    for node_policy, ranked in (("binpack", ["n2", "n1", "n3"]), ("spread", ["n1", "n3", "n2"])):
        asked = pod(ask_for(1000), policies=Policies(node=node_policy))
        verdicts = on.evaluate(view(asked), asked, ["n4", "n3", "n2", "n1"])
        assert [f.node for f in verdicts.fitting] == ranked
        assert [f.node for f in on.evaluate(view(asked), asked, shortlist=2).fitting] == ranked[:2]
        assert verdicts.fits == 3
        assert all(0 <= f.score <= 1 for f in verdicts.fitting)


def test_refused_nodes_come_with_sentences_apart_from_those_no_eviction_cures() -> None:
    on = engine({"n1": devices(1), "n2": devices(1, memory_mib=1000), "n3": ()})
    used(on, "n1", npu_0=16000)
    asked = pod(ask_for(2000))
    verdicts = on.evaluate(view(asked), asked, ["n1", "n2", "n3", "nowhere"])
    assert verdicts.failed(lambda reason: f"because {reason.value}") == (
        {"n1": "because not-enough-memory"},
        {"n2": "because not-enough-memory", "n3": "because no-devices", "nowhere": "because unknown-node"},
    )


def test_more_devices_than_there_are_is_refused_for_good() -> None:
    on = engine({"n1": devices(2)})
    asked = pod(ask_for(1, count=3))
    assert reasons(place(on, asked)) == [Reason.TOO_FEW_DEVICES]
    assert on.evaluate(view(asked), asked).unresolvable == {"n1"}


def test_devices_picked_before_the_pod_was_refused_are_counted() -> None:
    on = engine({"n1": devices(2)})
    used(on, "n1", npu_0=16000)
    refusals = place(on, pod(ask_for(1000, count=2)))
    assert refusals == (
        Refusal(reason=Reason.NOT_ENOUGH_MEMORY, device=device("npu-0").id, container="c0", out_of=2),
        Refusal(reason=Reason.TOO_FEW_DEVICES, container="c0", usable=1, out_of=2),
    )


def test_containers_that_fit_alone_but_not_together_say_so() -> None:
    on = engine({"n1": devices(1)})
    asked = pod(ask_for(9000), ask_for(9000))
    verdicts = on.evaluate(view(asked), asked)
    assert verdicts.refused == {"n1": Reason.NO_COMBINATION}
    assert verdicts.unresolvable == frozenset()


def test_explain_gives_the_numbers_behind_every_refusal() -> None:
    on = engine({"n1": devices(1), "n2": devices(1)})
    used(on, "n2", npu_0=15000)
    asked = pod(ask_for(4000, cores=30))
    fits, refused = on.explain(asked, view(asked))
    assert (fits.node, fits.fits, chosen(fits.placement)) == ("n1", True, [["npu-0"]])
    assert [(refused.node, r.reason, r.detail) for r in refused.refusals] == [
        ("n2", Reason.NOT_ENOUGH_MEMORY, "asked 4000 MiB, 1384 of 16384 MiB free")
    ]


def test_pod_fits_once_its_victims_are_gone() -> None:
    on = engine({"n1": devices(1)})
    used(on, "n1", npu_0=16000)
    asked = pod(ask_for(4000))
    assert reasons(on.evaluate_without(asked, view(asked), "n1", [])) == [Reason.NOT_ENOUGH_MEMORY]
    assert chosen(on.evaluate_without(asked, view(asked), "n1", ["n1-npu_0"])) == [["npu-0"]]


def test_pod_sees_neither_its_own_reservation_nor_assumed_ones_below_it() -> None:
    on = engine({"n1": devices(1)})
    low = pod(ask_for(16000), uid="low")
    on.reserve(low, view(low), "n1", State.ASSUMED)
    assert on.evaluate(view(low), low).fits == 1
    high, equal = pod(ask_for(16000), uid="high", priority=5), pod(ask_for(16000), uid="equal")
    assert on.evaluate(view(high), high).fits == 1
    assert on.evaluate(view(equal), equal).refused == {"n1": Reason.NOT_ENOUGH_MEMORY}
    assert isinstance(on.reserve(high, view(high), "n1", State.BINDING), Placement)
    assert on.ledger.reservation("low") is None


def test_one_of_many_racing_pods_gets_the_last_share() -> None:
    on = engine({"n1": devices(1)})
    start, won = Barrier(8), list[str]()

    def race(uid: str) -> None:
        asked = pod(ask_for(16000), uid=uid)
        start.wait()
        if isinstance(on.reserve(asked, view(asked), "n1", State.BINDING), Placement):
            won.append(uid)

    threads = [Thread(target=race, args=(f"p{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert on.ledger.usage("n1")[device("npu-0").id].memory_mib == 16000


def test_count_that_the_family_does_not_allow_is_refused() -> None:
    on = engine({"n1": devices(4)}, family(placing=Placing(counts=frozenset({1, 2, 4}))))
    asked = pod(ask_for(1, count=3))
    assert on.evaluate(view(asked), asked).refused == {"n1": Reason.COUNT_NOT_ALLOWED}
    assert reasons(place(on, asked)) == [Reason.COUNT_NOT_ALLOWED]


def test_family_that_keeps_a_pod_on_one_device_refuses_a_second() -> None:
    on = engine({"n1": devices(2)}, family(placing=Placing(one_device_per_pod=True)))
    assert chosen(place(on, pod(ask_for(1), ask_for(1)))) == [["npu-1"], ["npu-1"]]
    assert Reason.GROUP in reasons(place(on, pod(ask_for(16000), ask_for(16000))))


def test_mutex_keeps_away_from_tenants_of_the_same_group() -> None:
    on = engine(
        {"n1": [device(f"npu-{i}", groups={"card": str(i // 2)}) for i in range(4)]},
        family(placing=Placing(mutex_group="card")),
    )
    used(on, "n1", npu_3=1)
    asked = pod(ask_for(1, count=2), policies=Policies(device=("mutex",)))
    assert chosen(place(on, asked)) == [["npu-1", "npu-0"]]
    assert on.evaluate(view(asked), asked).fits == 1


def test_backend_that_cannot_be_asked_refuses_its_requests_only() -> None:
    def hami_filter_rules(request: DeviceRequest) -> Sequence[DeviceRule]:
        raise RuntimeError("broken")

    on = engine({"n1": devices(1)}, hooks=[hami_filter_rules])
    asked = pod(ask_for(1))
    assert on.evaluate(view(asked), asked).refused == {"n1": Reason.BACKEND_FAILED}
    assert reasons(place(on, asked)) == [Reason.BACKEND_FAILED]


def test_backend_chooses_among_seats_and_may_refuse_the_node() -> None:
    def hami_select_devices(request: DeviceRequest, candidates: Sequence[Candidate]) -> Sequence[int] | Refusal:
        pairs = [i for i, c in enumerate(candidates) if c.index in (0, 3)]
        return pairs if len(pairs) == 2 else Refusal(reason=Reason.NO_COMBINATION)

    on = engine({"n1": devices(4), "n2": devices(3)}, hooks=[hami_select_devices])
    asked = pod(ask_for(1, count=2))
    assert flat(chosen(place(on, asked))) == ["npu-0", "npu-3"]
    assert on.evaluate(view(asked), asked).refused == {"n2": Reason.NO_COMBINATION}


def test_node_rule_strikes_nodes() -> None:
    def hami_filter_rules(request: DeviceRequest) -> Sequence[NodeRule]:
        refuses = NodeRule(reason=Reason.BACKEND_RULE, sentence="not n1", refuses=lambda node: node.name == "n1")
        return (refuses,)

    on = engine({"n1": devices(1), "n2": devices(1)}, hooks=[hami_filter_rules])
    asked = pod(ask_for(1))
    verdicts = on.evaluate(view(asked), asked)
    assert verdicts.refused == {"n1": Reason.BACKEND_RULE}
    assert [f.node for f in verdicts.fitting] == ["n2"]


def test_backend_scores_count_by_their_weight_whatever_the_node_policy() -> None:
    def hami_score_placement(view: PlacementView) -> float:
        return 1.0 if view.before[0].model == "good" else 0.0

    nodes = {"n1": devices(1), "n2": devices(1, model="good")}
    on = engine(nodes, family(score_weight=1.0), hooks=[hami_score_placement])
    for node_policy, best in (("binpack", 0.5), ("spread", 1.0)):
        asked = pod(ask_for(1), policies=Policies(node=node_policy))
        first = on.evaluate(view(asked), asked, shortlist=2).fitting[0]
        assert (first.node, first.score) == ("n2", best)
        assert place(on, asked, "n2").score == best


def test_pod_of_a_family_that_nobody_owns_fits_nowhere() -> None:
    on = engine({"n1": devices(1)})
    asked = pod(DeviceRequest(family="Stranger", count=1))
    assert on.evaluate(view(asked), asked).refused == {"n1": Reason.NO_DEVICES}
    assert reasons(place(on, asked)) == [Reason.NO_DEVICES]


def test_selection_by_id_holds_on_every_node() -> None:
    on = engine({"n1": [device("npu-0")], "n2": [device("npu-9")]})
    asked = pod(ask_for(1, selection=Selection(ids=frozenset({"npu-9"}))))
    verdicts = on.evaluate(view(asked), asked)
    assert [f.node for f in verdicts.fitting] == ["n2"]
    assert verdicts.refused == {"n1": Reason.NOT_SELECTED}
    assert verdicts.unresolvable == {"n1"}
