"""One filter call on a cluster: nodes and pods through the intake, the pod through the scheduler in its single-node mode.

v2.10 writes its annotations at filter, we at bind: what is compared is what our bind would write in v2.10's dialect, on a node
whose plugin takes its work from the list. Labels are not compared: a Binding carries none.
"""

from collections.abc import Mapping
from typing import Any, cast

from hami_core_py.cluster.client import Client
from hami_core_py.codecs import native
from hami_core_py.codecs.policies import DEVICE_POLICY
from hami_core_py.codecs.records import BIND_TIME, PHASE
from hami_core_py.codecs.times import SECOND_NS
from hami_core_py.decisions.bookkeeping import is_bookkeeping
from hami_core_py.errors import InventoryError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Placement
from hami_core_py.models.devices import Device
from hami_core_py.models.families import Family
from hami_core_py.models.requests import Policies
from hami_core_py.models.views import node_view
from hami_core_py.services.engine import Engine
from hami_core_py.services.intake import NodeIntake, PodIntake, read_pod_news
from hami_core_py.services.intake.handshakes import Handshakes
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.reservations import Reservations
from hami_core_py.services.scheduling import Binder, Scheduling
from hami_core_py.services.scheduling.recent import Recent
from hami_core_py.services.scheduling.recording import record_of
from tests.vectors.files import Vector
from tests.vectors.runner import NotCoveredError
from tests.vectors.world import ask_for, flags_of, resources_named

Json = dict[str, Any]

AT_NS = 1_788_084_000 * SECOND_NS
WRITTEN_BY_BIND_ALONE = frozenset({native.RECORD, native.PROOF, native.BIND_NODE, native.BIND_PHASE, PHASE, BIND_TIME})
PLACED_BY_TABLE = frozenset(
    {"NVIDIA", "MLU", "DCU", "GCU", "Mthreads", "AMD", "Biren", "Vastai", "MR-V100", "MR-V50", "BI-V150", "BI-V100"}
)
"""Families that need no rule of their own to be placed, and the one whose backend is installed."""


class Cluster:
    """The scheduler's state for one vector."""

    def __init__(self, given: Mapping[str, Any], ask: Ask, defaults: Policies) -> None:
        inventory, ledger = Inventory(), Ledger()
        self.ask, self.engine = ask, Engine(inventory, ledger, ask)
        nodes = NodeIntake(inventory, ask, shakes_hands=Handshakes(lambda node, key, text: None))
        nodes.sync(node_view(node) for node in given["nodes"])
        pods = PodIntake(ledger, ask)
        pods.sync(read_pod_news(pod) for pod in given.get("pods") or ())
        self.recent = Recent(ask, defaults)
        reservations = Reservations(self.engine, lambda: 0.0)
        nowhere = cast(Client, None)  # nothing is bound here
        binder = Binder(nowhere, reservations, self.recent, nodes, ask)
        self.scheduling = Scheduling(self.engine, reservations, binder, self.recent, mode="single-node")

    def filter(self, pod: Mapping[str, Any], names: list[str]) -> Json:
        """The answer and the annotations that bind would write, in v2.10's words."""
        answer = self.scheduling.filter(pod, names)
        result: Json = {}
        if answer.error:
            result["error"] = answer.error
        if answer.names:
            result["nodeNames"] = answer.names
        if answer.failed or answer.unresolvable:
            result["failedNodes"] = {**answer.failed, **answer.unresolvable}
        asked = self.recent.read(pod) if not answer.error else None
        if asked is not None and asked.request.families and answer.names:
            placed = self.engine.place(asked.request, asked.pod, answer.names[0])
            assert isinstance(placed, Placement)
            families = frozenset(asked.request.families)
            written = record_of(asked.pod, placed, self.ask, at_ns=AT_NS, ordered=families)
            result["annotations"] = {k: text for k, text in written.items() if k not in WRITTEN_BY_BIND_ALONE}
        return result


def filter_once(vector: Vector) -> Json:
    given, ask = vector.input, ask_for(vector)
    refuse_uncovered(given, ask, [given["pod"]])
    names = given.get("nodeNames", [node["metadata"]["name"] for node in given["nodes"]])
    return Cluster(given, ask, defaults_of(vector)).filter(given["pod"], names)


def filter_sequence(vector: Vector) -> Json:
    """Several pods one after the other; what filter gave to one counts when the next one comes."""
    given, ask = vector.input, ask_for(vector)
    refuse_uncovered(given, ask, given["sequence"])
    cluster = Cluster(given, ask, defaults_of(vector))
    names = given.get("nodeNames", [node["metadata"]["name"] for node in given["nodes"]])
    return {"steps": [cluster.filter(pod, names) for pod in given["sequence"]]}


def filter_simulation(vector: Vector) -> Json:
    """Nodes as whole objects that nobody knows yet, as an autoscaler asks about them."""
    given, ask = vector.input, ask_for(vector)
    refuse_uncovered(given, ask, [given["pod"]])
    nobody = Cluster({"nodes": [], "pods": given["pods"]}, ask, defaults_of(vector))
    answer = nobody.scheduling.filter(given["pod"], None, given["nodes"])
    result: Json = {}
    if answer.names:
        result["nodes"] = answer.names
    if answer.failed or answer.unresolvable:
        result["failedNodes"] = {**answer.failed, **answer.unresolvable}
    return result


def defaults_of(vector: Vector) -> Policies:
    """The policies that a vector's flags name."""
    flags = flags_of(vector)
    return Policies(node=flags["nodeSchedulerPolicy"], device=tuple(flags["gpuSchedulerPolicy"].split(",")))


def refuse_uncovered(given: Mapping[str, Any], ask: Ask, pods: list[Mapping[str, Any]]) -> None:
    """:raises NotCoveredError: the vector is about something that is not built yet."""
    if given.get("quotas"):
        raise NotCoveredError("quota")
    if "migProfiles" in str(given["nodes"]):
        raise NotCoveredError("MIG")
    for pod in pods:
        if strangers := sorted(resources_named(pod, ask) - PLACED_BY_TABLE):
            raise NotCoveredError(f"placing {strangers[0]}")


def expected(vector: Vector, answer: Any) -> Any:
    """What of v2.10's answer counts; annotations that only a backend writes, where that backend is installed."""
    if "steps" in answer:
        return {"steps": [expected(vector, step) for step in answer["steps"]]}
    counting = {key: answer[key] for key in ("nodeNames", "nodes", "failedNodes", "error") if answer.get(key)}
    if "patch" in answer:
        ask = ask_for(vector)
        annotations = answer["patch"]["metadata"]["annotations"]
        counting["annotations"] = {key: text for key, text in annotations.items() if is_bookkeeping(key, ask)}
    return counting


def may_differ(vector: Vector) -> str:
    """Which of our rules this vector may be about, where v2.10 is known to be wrong."""
    given, ask = vector.input, ask_for(vector)
    pods = [given["pod"]] if "pod" in given else given["sequence"]
    texts = [pod["metadata"].get("annotations") or {} for pod in pods]
    if any(_forgets_numa_nodes(text, defaults_of(vector)) for text in texts):
        return "topology-aware with numa-bind looks at every NUMA node, v2.10 at the last one only"
    devices = (d for n in given["nodes"] for f in ask.families.values() for d in _devices(ask, n, f))
    if any(device.family.lower() not in device.model.lower() for device in devices):
        return "devices are those of the vendor that states them, in v2.10 only if their model names it"
    return ""


def _forgets_numa_nodes(annotations: Mapping[str, str], defaults: Policies) -> bool:
    policies = annotations.get(DEVICE_POLICY, ",".join(defaults.device))
    return "topology-aware" in policies and any(key.endswith("/numa-bind") for key in annotations)


def _devices(ask: Ask, node: Mapping[str, Any], family: Family) -> tuple[Device, ...]:
    try:
        return ask.read_inventory(node_view(node), family).devices
    except InventoryError:
        return ()


KINDS = {"filter": filter_once, "filter-sequence": filter_sequence, "filter-simulation": filter_simulation}
EXPECTED = dict.fromkeys(KINDS, expected)
MAY_DIFFER = dict.fromkeys(KINDS, may_differ)
