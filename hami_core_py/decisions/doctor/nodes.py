"""Mistakes that show on nodes: agents, inventories, totals, Leases."""

from collections.abc import Iterator
from typing import Final

from hami_core_py.codecs.handshake import is_request, requested_at
from hami_core_py.codecs.quantities import same_amount
from hami_core_py.codecs.times import SECOND_NS
from hami_core_py.decisions.doctor.checks import Checks, Found, Severity
from hami_core_py.decisions.doctor.facts import ClusterFacts, Node, NodeInventory
from hami_core_py.decisions.doctor.versions import minor_of, shown
from hami_core_py.decisions.handshake import allocatable
from hami_core_py.decisions.totals import node_totals
from hami_core_py.models.devices import Health
from hami_core_py.models.families import AnnotatedDevices, CapacityDevices, Family, Handshake

NODES: Final[Checks[ClusterFacts]] = Checks()

OLDEST: Final = (1, 30)
OLDEST_WITH_CDI: Final = (1, 29)
FOREIGN_STAMP_NS: Final = 24 * 3600 * SECOND_NS
"""A request for a handshake younger than that tells of a scheduler that still runs; its clock's zone is not known."""


@NODES.check(
    "kubernetes-too-old",
    fix="upgrade to Kubernetes 1.30 or newer: admission policies and CDI devices are needed",
)
def too_old(facts: ClusterFacts) -> Iterator[Found]:
    """Something that we rely on is not there."""
    server = minor_of(facts.version)
    if server is not None and server < OLDEST:
        yield "API server", f"it is {facts.version}, older than {shown(OLDEST)}"
    for node in facts.nodes:
        kubelet = minor_of(node.kubelet)
        if node.inventories and kubelet is not None and kubelet < OLDEST:
            yield _subject(node), f"its kubelet is {node.kubelet}, older than {shown(OLDEST)}"


@NODES.check(
    "inventory-unreadable",
    fix="bring agent and scheduler to the same release; delete a text that was written by hand, and the agent writes its own",
)
def unreadable(facts: ClusterFacts) -> Iterator[Found]:
    """The scheduler cannot use the node."""
    for node, inventory in _inventories(facts):
        if inventory.problem:
            yield _subject(node), inventory.problem


@NODES.check(
    "agent-not-registered",
    fix="look at the agent's log on that node and run `hami doctor --node` there; the kubelet shows devices only while the agent "
    "is registered with it",
)
def not_registered(facts: ClusterFacts) -> Iterator[Found]:
    """The node says what it has, and the kubelet would give out none of it."""
    for node, inventory in _inventories(facts):
        if not node.view.ready:
            continue
        for family in _families_of(facts, inventory):
            if family.served and allocatable(node.view, family, "count") == 0:
                yield (
                    _subject(node),
                    f"it reports devices of {family.name}, but {family.resources.count} is 0 in allocatable",
                )


@NODES.check(
    "inventory-missing",
    fix="see whether our node agent runs there, and whether its service account may patch nodes; another vendor's plugin that "
    "offers the same resource must be removed",
)
def inventory_missing(facts: ClusterFacts) -> Iterator[Found]:
    """Somebody offers the resource to the kubelet, and we know of no device."""
    for node in facts.nodes:
        known = {device.family for inventory in node.inventories for device in inventory.devices}
        broken = {inventory.backend for inventory in node.inventories if inventory.problem}
        for family in facts.families.values():
            table = family.inventory
            stated = isinstance(table, AnnotatedDevices) and table.key in node.view.annotations
            if family.name in known or family.backend in broken or stated or isinstance(table, CapacityDevices):
                continue
            count = allocatable(node.view, family, "count")
            if count > 0:
                yield (
                    _subject(node),
                    f"it has {count} {family.resources.count} in allocatable, and no inventory of them",
                )


@NODES.check(
    "agent-lease-stale",
    fix="the agent hangs or cannot reach the API server: look at its log, then delete its pod",
)
def lease_stale(facts: ClusterFacts) -> Iterator[Found]:
    """The agent has not been heard of, although the kubelet still believes in it."""
    if "leases" not in facts.looked:
        return
    leases = {lease.name: lease for lease in facts.leases}
    for node, inventory in _inventories(facts):
        lease = leases.get(f"hami-agent-{inventory.backend}-{node.view.name}")
        families = _families_of(facts, inventory)
        if lease is None or not any(allocatable(node.view, family, "count") for family in families):
            continue
        silent = (facts.now_ns - lease.renewed_ns) // SECOND_NS
        if silent > lease.seconds:
            yield _subject(node), f"Lease {lease.name} was renewed {silent} s ago and is good for {lease.seconds} s"


@NODES.check(
    "agent-lease-missing",
    fix="let the agent's service account create and patch Leases in the namespace of agent.leaseNamespace",
    severity=Severity.ADVICE,
)
def lease_missing(facts: ClusterFacts) -> Iterator[Found]:
    """A hung agent would not be noticed."""
    if "leases" not in facts.looked:
        return
    known = {lease.name for lease in facts.leases}
    for node, inventory in _inventories(facts):
        name = f"hami-agent-{inventory.backend}-{node.view.name}"
        if inventory.devices and name not in known:
            yield _subject(node), f"there is no Lease {name}"


@NODES.check(
    "identity-ordered",
    fix="enable CDI in the container runtime and mount its directory of specs into the agent, then set agent.identity: late",
    severity=Severity.ADVICE,
)
def ordered(facts: ClusterFacts) -> Iterator[Found]:
    """Pods of the node start one after another, where they could start side by side."""
    for node, inventory in _inventories(facts):
        kubelet = minor_of(node.kubelet)
        if inventory.identity == "ordered" and inventory.devices and kubelet is not None and kubelet >= OLDEST_WITH_CDI:
            yield (
                _subject(node),
                f"the agent of {inventory.backend} works in ordered mode, though kubelet {node.kubelet} knows CDI",
            )


@NODES.check(
    "totals-missing",
    fix="let the agent's service account patch nodes/status; where another program owns these resources, set "
    "nodes.publishTotals: false and leave only the count to kube-scheduler",
)
def totals_missing(facts: ClusterFacts) -> Iterator[Found]:
    """kube-scheduler and the autoscalers count with wrong totals."""
    if not facts.publishes_totals:
        return
    for node, inventory in _inventories(facts):
        devices = [device for device in inventory.devices if device.family in facts.families]
        for name, amount in node_totals(devices, facts.families).items():
            stated = node.view.allocatable.get(name, "")
            if not stated:
                yield _subject(node), f"{name} is not in allocatable; the inventory adds up to {amount}"
            elif not same_amount(str(amount), stated):
                yield _subject(node), f"{name} is {stated} in allocatable, and the inventory adds up to {amount}"


@NODES.check(
    "device-unhealthy",
    fix="ask the node's driver what is wrong with it; new pods go elsewhere meanwhile",
    severity=Severity.ADVICE,
)
def unhealthy(facts: ClusterFacts) -> Iterator[Found]:
    """A device gets no new shares."""
    for node, inventory in _inventories(facts):
        ids = sorted(device.id for device in inventory.devices if device.health is not Health.HEALTHY)
        if ids:
            yield _subject(node), f"not healthy: {', '.join(ids)}"


@NODES.check(
    "foreign-scheduler",
    fix="let two schedulers share a cluster by node label only, or remove the older one: both would give the same devices away",
)
def foreign(facts: ClusterFacts) -> Iterator[Found]:
    """A scheduler of v2.10 stamps nodes that our agents serve."""
    for node, inventory in _inventories(facts):
        for family in _families_of(facts, inventory):
            liveness = family.liveness
            text = node.view.annotations.get(liveness.key, "") if isinstance(liveness, Handshake) else ""
            at_ns = requested_at(text) if is_request(text) else None
            if at_ns is not None and abs(facts.now_ns - at_ns) < FOREIGN_STAMP_NS:
                yield (
                    _subject(node),
                    f"{text!r} beside our own inventory: another HAMi scheduler takes this node for its own",
                )


def _inventories(facts: ClusterFacts) -> Iterator[tuple[Node, NodeInventory]]:
    for node in facts.nodes:
        for inventory in node.inventories:
            yield node, inventory


def _families_of(facts: ClusterFacts, inventory: NodeInventory) -> list[Family]:
    names = {device.family for device in inventory.devices}
    return [family for name, family in sorted(facts.families.items()) if name in names]


def _subject(node: Node) -> str:
    return f"node {node.view.name}"
