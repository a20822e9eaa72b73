"""What is true of the scheduler whatever the order of calls, failures, lost answers, late events and restarts."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from hami_core_py.services.holding import State
from hami_core_py.services.ledger import Ledger
from hami_core_py.testing.builders import device
from tests.property.simulation import ENDED, Json, Process, Simulation

FAULTS = st.sampled_from([None, None, None, 403, 404, 409, 422, 429, 500, 504, "lost-before", "lost-after"])


class SchedulerLaws(RuleBasedStateMachine):
    """Two nodes, three devices, and whatever may happen to them."""

    pods = Bundle("pods")

    @initialize(ordered=st.booleans())
    def begin(self, ordered: bool) -> None:
        nodes = {
            "n1": (device("npu-0", memory_mib=6000, slots=3), device("npu-1", memory_mib=4000, slots=2)),
            "n2": (device("npu-2", memory_mib=6000, slots=2),),
        }
        self.simulation = Simulation(nodes, ordered=frozenset({"n2"}) if ordered else frozenset())
        self.simulation.store.create("priorityclasses", {"metadata": {"name": "high"}, "value": 1000})
        self.serial = 0

    @property
    def process(self) -> Process:
        return self.simulation.process

    @rule(
        target=pods,
        memory=st.sampled_from([1000, 2500, 4000]),
        cores=st.sampled_from([0, 30, 60]),
        high=st.booleans(),
    )
    def create(self, memory: int, cores: int, high: bool) -> Json:
        self.serial += 1
        return self.simulation.add_pod(f"pod-{self.serial}", memory, cores, "high" if high else "")

    @rule(pod=pods)
    def filter_and_score(self, pod: Json) -> None:
        answer = self.process.scheduling.filter(pod, self.simulation.names)
        if answer.names and len(answer.names) > 1:
            ranks = dict(self.process.scheduling.score(pod, answer.names))
            assert set(ranks) == set(answer.names)

    @rule(pod=pods, node=st.sampled_from(["n1", "n2"]), fault=FAULTS, blind=st.booleans())
    def bind(self, pod: Json, node: str, fault: int | str | None, blind: bool) -> None:
        client, uid, name = self.simulation.client, pod["metadata"]["uid"], pod["metadata"]["name"]
        client.fault, client.blind = fault, blind
        error = self.process.scheduling.bind("default", name, uid, node)
        client.fault, client.blind = None, False
        stored = self.simulation.pod(name)
        is_bound = stored is not None and bool(stored["spec"].get("nodeName"))
        held = self.process.ledger.reservation(uid)
        if not error:
            assert is_bound, "success is told only of what happened"
        elif held is None and not is_bound:
            assert self.process.ledger.holding(uid) is None, "a known failure leaves nothing behind"
        elif held is not None and held.state is State.BINDING:
            note = self.process.reservations.note(uid)
            assert note is not None
            assert note.unknown_since is not None, "only an unknown outcome keeps what bind took"
        if fault == "lost-after" and stored is not None and is_bound and stored["status"].get("phase") not in ENDED:
            holding = self.process.ledger.holding(uid)
            assert holding is not None, "an unknown outcome is not a failure"

    @rule(seconds=st.sampled_from([1.0, 5.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.simulation.now += seconds
        self.process.reservations.expire()
        self.process.binder.settle()

    @rule(pod=pods)
    def hear(self, pod: Json) -> None:
        self.process.hear_of(pod)

    @rule(pod=pods)
    def end(self, pod: Json) -> None:
        stored = self.simulation.pod(pod["metadata"]["name"])
        if stored is not None and stored["spec"].get("nodeName"):
            stored["status"] = {**(stored.get("status") or {}), "phase": "Succeeded"}
            self.simulation.store.update("pods", stored, "default", subresource="status")

    @rule(pod=consumes(pods))
    def delete(self, pod: Json) -> None:
        if self.simulation.pod(pod["metadata"]["name"]) is not None:
            self.simulation.store.delete("pods", pod["metadata"]["name"], "default", grace_seconds=0)

    @rule()
    def serve_nodes(self) -> None:
        self.simulation.release_locks()

    @rule()
    def restart(self) -> None:
        self.simulation.restart()

    @rule()
    def relist(self) -> None:
        """Once everything has been heard of, the books are those of a scheduler that has just started."""
        self.process.relist()
        self.process.binder.settle()
        fresh = Process(self.simulation).ledger
        assert self.bound(self.process.ledger) == self.bound(fresh)
        reserved = {r.uid for r in self.process.ledger.reservations()}
        assert {h.uid for h in self.process.ledger.holdings()} - reserved == {
            h.uid for h in fresh.holdings()
        } - reserved

    @invariant()
    def records_never_exceed_a_device(self) -> None:
        used: Counter[str] = Counter()
        for name, memory, cores in self.simulation.held():
            used[f"{name} memory"] += memory
            used[f"{name} cores"] += cores
            used[f"{name} slots"] += 1
        for name, found in self.simulation.devices.items():
            assert used[f"{name} memory"] <= found.memory_mib
            assert used[f"{name} cores"] <= found.core_units
            assert used[f"{name} slots"] <= found.slots

    @invariant()
    def books_never_exceed_a_device_and_agree_with_a_recount(self) -> None:
        for node in self.simulation.names:
            for name, used in self.process.ledger.usage(node).items():
                found = self.simulation.devices[name]
                assert used.memory_mib <= found.memory_mib
                assert used.core_units <= found.core_units
                assert used.slots <= found.slots
        assert self.process.ledger.recount() == ()

    @invariant()
    def a_pod_holds_one_reservation_of_one_node(self) -> None:
        for held in self.process.ledger.reservations():
            assert held.state is not State.BOUND
            assert held.state is State.ASSUMED or held.deadline is None

    def bound(self, ledger: Ledger) -> dict[str, str]:
        """Pod → node, of all that are not mere reservations."""
        reserved = {r.uid for r in ledger.reservations()}
        return {h.uid: h.node for h in ledger.holdings() if h.uid not in reserved}


TestSchedulerLaws = SchedulerLaws.TestCase
TestSchedulerLaws.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
