"""What is true of placing, whatever the cluster and whatever happens in it."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hami_core_py.decisions.plan import compile_plan
from hami_core_py.decisions.ranks import REASON
from hami_core_py.decisions.score import core_score, fullness
from hami_core_py.decisions.verdicts import could_ever_fit, exact_reason
from hami_core_py.models.allocations import Placement
from hami_core_py.models.devices import IDLE, DeviceId, Usage
from hami_core_py.models.requests import ContainerRequest, MemoryMib, PodRequest
from hami_core_py.services.engine import Engine
from hami_core_py.services.holding import Holding, State, recorded_shares
from hami_core_py.services.ledger import Ledger
from tests.property.clusters import (
    ASK,
    BOARDS,
    FAMILIES,
    FREE,
    REVERSED_ASK,
    WHOLE,
    Cluster,
    busy_clusters,
    clusters,
    device_requests,
    holdings,
    pod_of,
    pod_requests,
    tell_node,
)

examples = settings(max_examples=50, deadline=None)


def everything(ledger: Ledger, cluster: Cluster) -> dict[str, dict[DeviceId, Usage]]:
    """The whole ledger, nodes without usage left out."""
    usage = {name: dict(ledger.usage(name)) for name in cluster.nodes}
    return {name: used for name, used in usage.items() if used}


def assert_columns_equal_walk(engine: Engine, request: PodRequest, cluster: Cluster) -> None:
    """The verdicts of the columns are those of the walk, node by node."""
    verdicts = engine.evaluate(pod_of(request), request)
    plan = compile_plan(request, pod_of(request), engine.ask)
    scores = {}
    for name in sorted(cluster.nodes):
        node = engine.inventory.node(name)
        assert node is not None
        usage, blocked, _ = engine.ledger.view(name, uid=request.uid, priority=request.priority)
        reason = exact_reason(plan, node, usage, blocked, engine.ask)
        assert verdicts.refused.get(name) == reason
        assert isinstance(engine.place(request, pod_of(request), name), Placement) == (reason is None)
        if reason is None:
            scores[name] = core_score(fullness(node.devices, usage), plan.policies.node)
        else:
            assert (name in verdicts.unresolvable) == (not could_ever_fit(plan, node))
    ranked = sorted(scores, key=lambda name: (-scores[name], name))
    assert [(f.node, f.score) for f in verdicts.fitting] == [(name, scores[name]) for name in ranked]
    for places in (1, 2):
        shortlist = engine.evaluate(pod_of(request), request, shortlist=places)
        assert [f.node for f in shortlist.fitting] == ranked[:places]
        assert shortlist.fits == len(ranked)


@examples
@given(st.data())
def test_columns_and_exact_walk_agree(data: st.DataObject) -> None:
    cluster = data.draw(busy_clusters())
    engine = cluster.engine()
    for _ in range(2):
        assert_columns_equal_walk(engine, data.draw(pod_requests(cluster)), cluster)


@examples
@given(st.data())
def test_columns_follow_every_event(data: st.DataObject) -> None:
    cluster = data.draw(busy_clusters(most_nodes=3))
    engine = cluster.engine()
    requests = [data.draw(pod_requests(cluster, uid)) for uid in ("new-0", "new-1")]
    for request in requests:
        assert_columns_equal_walk(engine, request, cluster)
    for number in range(data.draw(st.integers(1, 4))):
        match data.draw(st.sampled_from(("pod", "gone", "node", "lost", "assumed", "block"))):
            case "pod":
                holding = data.draw(holdings(cluster, f"later-{number}"))
                if holding is not None:
                    engine.ledger.apply(holding.uid, holding)
            case "gone":
                for uid in list(cluster.holdings)[:1]:
                    engine.ledger.remove(uid)
            case "node":
                other = data.draw(clusters(most_nodes=2))
                for name in other.nodes:
                    cluster.nodes[name] = other.nodes[name]
                    tell_node(engine.inventory, cluster, name)
            case "lost":
                name = data.draw(st.sampled_from(sorted(cluster.nodes)))
                if len(cluster.nodes) > 1:
                    del cluster.nodes[name]
                    engine.inventory.remove_node(name)
            case "assumed":
                name = data.draw(st.sampled_from(sorted(cluster.nodes)))
                engine.reserve(requests[0], pod_of(requests[0]), name, State.ASSUMED)
            case "block":
                engine.ledger.block(f"unreadable-{number}", data.draw(st.sampled_from(sorted(cluster.nodes))))
        for request in requests:
            assert_columns_equal_walk(engine, request, cluster)


def assert_nothing_is_over_committed(engine: Engine, cluster: Cluster) -> None:
    """What is charged to a device stays within it, and no two pods hold the same cells."""
    for name, by_family in cluster.nodes.items():
        usage = engine.ledger.usage(name)
        for family, devices in by_family.items():
            accounts = engine.ask.families[family].placing.accounts
            for device in devices:
                used = usage.get(device.id, IDLE)
                assert used.slots <= device.slots
                assert "memory" not in accounts or used.memory_mib <= device.memory_mib
                assert "core" not in accounts or used.core_units <= device.core_units
                assert used.cells <= device.cells or not device.cells
                masks = [h.peaks()[device.id].occupied for h in engine.ledger.holdings(name) if device.id in h.peaks()]
                assert sum(mask.bit_count() for mask in masks) == used.occupied.bit_count()


@examples
@given(st.data())
def test_no_sequence_of_events_over_commits_a_device(data: st.DataObject) -> None:
    cluster = data.draw(clusters())
    engine, placed = cluster.engine(), dict[str, Placement]()
    for number in range(data.draw(st.integers(1, 8))):
        request = data.draw(pod_requests(cluster, f"pod-{data.draw(st.integers(0, 3))}", most_containers=2))
        node = data.draw(st.sampled_from(sorted(cluster.nodes)))
        match data.draw(
            st.sampled_from(("assume", "bind", "settle", "release", "record", "replay", "finish", "expire"))
        ):
            case "assume":
                answer = engine.reserve(request, pod_of(request), node, State.ASSUMED, deadline=float(number + 2))
                if isinstance(answer, Placement):
                    placed[request.uid] = answer
            case "bind":
                answer = engine.reserve(request, pod_of(request), node, State.BINDING)
                if isinstance(answer, Placement):
                    placed[request.uid] = answer
            case "settle":
                engine.ledger.settle(request.uid)
            case "release":
                engine.ledger.release(request.uid)
            case "record" | "replay":
                # The record of a pod is what was last reserved for it; it comes once, twice, or not at all.
                held = engine.ledger.holding(request.uid)
                if held is not None and held.shares == recorded_shares(placed[request.uid]):
                    engine.ledger.apply(request.uid, held)
            case "finish":
                engine.ledger.remove(request.uid)
                engine.ledger.remove(request.uid)
            case "expire":
                engine.ledger.expire(float(number))
        assert_nothing_is_over_committed(engine, cluster)
    assert engine.ledger.recount() == ()


@examples
@given(st.data())
def test_place_then_release_restores_the_ledger(data: st.DataObject) -> None:
    cluster = data.draw(busy_clusters())
    engine = cluster.engine()
    request = data.draw(pod_requests(cluster))
    before = everything(engine.ledger, cluster)
    for name in cluster.nodes:
        answer = engine.reserve(request, pod_of(request), name, State.ASSUMED)
        assert engine.ledger.release(request.uid) == isinstance(answer, Placement)
        assert everything(engine.ledger, cluster) == before


@examples
@given(st.data())
def test_more_memory_never_fits_where_less_was_refused(data: st.DataObject) -> None:
    cluster = data.draw(busy_clusters(families=(FREE, WHOLE, BOARDS)))
    engine = cluster.engine()
    families = sorted({f for by_family in cluster.nodes.values() for f in by_family}) or [FREE]
    asked = data.draw(device_requests(families))
    less, more = sorted(data.draw(st.lists(st.integers(0, 9000), min_size=2, max_size=2)))

    def fitting(memory_mib: int) -> set[str]:
        request = PodRequest(
            uid="new",
            namespace="default",
            name="new",
            containers=(ContainerRequest(name="c", devices=(replace(asked, memory=MemoryMib(memory_mib)),)),),
        )
        return {f.node for f in engine.evaluate(pod_of(request), request).fitting}

    assert fitting(more) <= fitting(less)


@examples
@given(st.data())
def test_order_of_nodes_devices_and_plugins_changes_nothing(data: st.DataObject) -> None:
    cluster = data.draw(busy_clusters())
    request = data.draw(pod_requests(cluster))
    order = data.draw(st.permutations(sorted(cluster.nodes)))
    one, other = cluster.engine(), cluster.engine(REVERSED_ASK, order, backwards=True)
    names = data.draw(st.permutations(sorted(cluster.nodes)))
    first = one.evaluate(pod_of(request), request)
    second = other.evaluate(pod_of(request), request, names)
    assert first.fitting == second.fitting
    assert first.refused == second.refused
    assert first.unresolvable == second.unresolvable
    for name in cluster.nodes:
        assert one.place(request, pod_of(request), name) == other.place(request, pod_of(request), name)


@examples
@given(st.data())
def test_replayed_and_reordered_events_give_the_same_usage(data: st.DataObject) -> None:
    cluster = data.draw(busy_clusters())
    events: list[tuple[str, Holding | None]] = []
    for uid, holding in cluster.holdings.items():
        events.append((uid, holding))
        match data.draw(st.sampled_from(("keep", "delete", "finish", "twice"))):
            case "delete":
                events += [(uid, None), (uid, None)]
            case "finish":
                events.append((uid, replace(holding, finished=True)))
            case "twice":
                events.append((uid, holding))
    turns = data.draw(st.permutations([uid for uid, _ in events]))
    ledgers = (Ledger(), Ledger())
    for ledger, order in zip(ledgers, ([uid for uid, _ in events], turns), strict=True):
        waiting = {uid: [h for u, h in events if u == uid] for uid in cluster.holdings}
        for uid in order:
            said = waiting[uid].pop(0)
            if said is None:
                ledger.remove(uid)
            else:
                ledger.apply(uid, said)
    assert everything(ledgers[0], cluster) == everything(ledgers[1], cluster)
    assert ledgers[0].recount() == ledgers[1].recount() == ()


def test_every_reason_has_one_number() -> None:
    assert len(REASON) == len(set(REASON.values()))
    assert {f.name for families in FAMILIES.values() for f in families} == set(ASK.families)
