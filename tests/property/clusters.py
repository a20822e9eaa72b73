"""Generated clusters, requests and events for the laws of placement."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.allocations import RecordedShare
from hami_core_py.models.answers import Candidate, Reason
from hami_core_py.models.backends import DeviceRule
from hami_core_py.models.devices import Device, DeviceId, Health, Inventory, Profile, Share
from hami_core_py.models.families import Family, Placing, Resources
from hami_core_py.models.requests import (
    WHOLE_DEVICE,
    Cells,
    ContainerKind,
    ContainerRequest,
    CorePercent,
    CoreUnits,
    DeviceRequest,
    MemoryMib,
    MemoryPercent,
    PodRequest,
    Policies,
    Selection,
)
from hami_core_py.models.views import NodeView, PodView
from hami_core_py.services.engine import Engine
from hami_core_py.services.holding import Holding
from hami_core_py.services.inventory import Inventory as Nodes
from hami_core_py.services.ledger import Ledger
from hami_core_py.testing.plugins import make_plugin

FREE, WHOLE, CUT, STEPS, BOARDS, JEALOUS, PICKY = "Free", "Whole", "Cut", "Steps", "Boards", "Jealous", "Picky"
CELL_PROFILES = (
    Profile(name="1c", memory_mib=2048, core_units=14, cells=1, starts=(3, 2, 1, 0)),
    Profile(name="2c", memory_mib=4096, core_units=28, cells=2, starts=(0, 2)),
    Profile(name="4c", memory_mib=8192, core_units=100, cells=4, starts=(0,)),
)
STEP_PROFILES = tuple(
    Profile(name="", memory_mib=mib, core_units=core) for mib, core in ((2048, 25), (4096, 50), (8192, 100))
)


def equal_tenants(seat: Candidate) -> bool:
    """Refuse a device whose tenants have another size."""
    return seat.used_slots > 0 and seat.used_memory_mib // seat.used_slots != seat.share.memory_mib


def hami_filter_rules(request: DeviceRequest) -> Sequence[DeviceRule]:
    """Rules of the plugin that has some."""
    if request.family != JEALOUS:
        return ()
    return (
        DeviceRule(
            reason=Reason.BACKEND_RULE,
            sentence="tenants share a device equally",
            reads=("used_slots", "used_memory_mib", "share"),
            refuses=equal_tenants,
        ),
    )


def hami_select_devices(request: DeviceRequest, candidates: Sequence[Candidate]) -> Sequence[int] | None:
    """Choose the highest indexes."""
    if request.family != PICKY:
        return None
    ranked = sorted(range(len(candidates)), key=lambda i: -candidates[i].index)
    return ranked[: request.count]


def _family(name: str, **fields: object) -> Family:
    return Family(name=name, resources=Resources(count=f"example/{name.lower()}"), **fields)  # type: ignore[arg-type]


FAMILIES = {
    "free": (_family(FREE),),
    "whole": (_family(WHOLE, placing=Placing(exclusive=True, accounts=frozenset({"memory"}))),),
    "cut": (_family(CUT), _family(STEPS, profiles=STEP_PROFILES)),
    "boards": (_family(BOARDS, placing=Placing(mutex_group="board", together="board")),),
    "rules": (_family(JEALOUS),),
    "picky": (_family(PICKY),),
}
PLUGINS = [
    make_plugin(
        name,
        families,
        hooks=[*([hami_filter_rules] if name == "rules" else []), *([hami_select_devices] if name == "picky" else [])],
    )
    for name, families in FAMILIES.items()
]
ASK = Ask(load_backends(plugins=PLUGINS))
REVERSED_ASK = Ask(load_backends(plugins=PLUGINS[::-1]))
NAMES = tuple(f.name for families in FAMILIES.values() for f in families)
AMOUNTS = (0, 1000, 2048, 3000, 4096, 8192)


@dataclass
class Cluster:
    """Nodes and what pods hold on them; ``engine`` builds the indexes from it."""

    nodes: dict[str, dict[str, tuple[Device, ...]]]
    holdings: dict[str, Holding] = field(default_factory=dict)
    cordoned: dict[str, str] = field(default_factory=dict)
    blocked: dict[str, tuple[DeviceId, ...]] = field(default_factory=dict)

    def engine(self, ask: Ask = ASK, order: Sequence[str] | None = None, *, backwards: bool = False) -> Engine:
        """Indexes told everything, in the given order of nodes."""
        inventory, ledger = Nodes(), Ledger()
        for name in order or sorted(self.nodes):
            tell_node(inventory, self, name, backwards=backwards)
        for uid in sorted(self.holdings, reverse=backwards):
            ledger.apply(uid, self.holdings[uid])
        for number, (node, devices) in enumerate(sorted(self.blocked.items())):
            ledger.block(f"unreadable-{number}", node, devices)
        return Engine(inventory, ledger, ask)


def tell_node(inventory: Nodes, cluster: Cluster, name: str, *, backwards: bool = False) -> None:
    """One node event."""
    annotations = {"hami.io/device-cordon": cluster.cordoned[name]} if name in cluster.cordoned else {}
    step = -1 if backwards else 1
    families = {f: Inventory(devices=devices[::step]) for f, devices in cluster.nodes[name].items()}
    inventory.set_node(NodeView(name=name, annotations=annotations), families)


@st.composite
def family_devices(draw: st.DrawFn, node: str, family: str, most: int = 4) -> tuple[Device, ...]:
    """Devices of one family on a node."""
    count = draw(st.integers(1, most))
    ids = [DeviceId(f"{node}-{family}-{i}") for i in range(count)]
    linked = family == FREE and draw(st.booleans())
    found = []
    for i, name in enumerate(ids):
        cut = family == CUT
        found.append(
            Device(
                id=name,
                family=family,
                index=i,
                model=draw(st.sampled_from(("N1", "N2 big"))),
                slots=draw(st.sampled_from((1, 2, 4))),
                memory_mib=8192 if cut else draw(st.sampled_from((4096, 8192, 8191))),
                core_units=draw(st.sampled_from((100, 100, 200, 0))) if not cut else 100,
                numa=draw(st.integers(0, 1)),
                health=draw(st.sampled_from([Health.HEALTHY] * 5 + [Health.UNHEALTHY])),
                modes=draw(st.sampled_from(((), ("shared",), ("cut",)))),
                groups={"board": f"b{i // 2}"} if family == BOARDS else {},
                links={peer: draw(st.integers(0, 3)) for peer in ids if peer != name} if linked else {},
                cells=4 if cut else 0,
                profiles=CELL_PROFILES if cut else (),
            )
        )
    return tuple(found)


@st.composite
def clusters(draw: st.DrawFn, families: Sequence[str] = NAMES, most_nodes: int = 4) -> Cluster:
    """A cluster without pods."""
    nodes: dict[str, dict[str, tuple[Device, ...]]] = {}
    offered = draw(st.lists(st.sampled_from(families), min_size=1, max_size=2, unique=True))
    for number in range(draw(st.integers(1, most_nodes))):
        name = f"node-{number}"
        here = draw(st.lists(st.sampled_from(offered), max_size=2, unique=True))
        nodes[name] = {f: draw(family_devices(name, f)) for f in here}
    cluster = Cluster(nodes)
    for name in nodes:
        ids = [d.id for devices in nodes[name].values() for d in devices]
        if ids and draw(st.integers(0, 5)) == 0:
            cluster.cordoned[name] = draw(st.sampled_from(ids))
    return cluster


@st.composite
def shares_on(draw: st.DrawFn, device: Device) -> Share:
    """A share that some earlier scheduler may have given, fitting or not."""
    if device.profiles:
        profile = draw(st.sampled_from(device.profiles))
        return Share(
            memory_mib=profile.memory_mib,
            core_units=profile.core_units,
            profile=profile.name,
            start=draw(st.sampled_from(profile.starts)),
            cells=profile.cells,
        )
    return Share(memory_mib=draw(st.sampled_from(AMOUNTS)), core_units=draw(st.sampled_from((0, 10, 50, 100))))


@st.composite
def holdings(draw: st.DrawFn, cluster: Cluster, uid: str) -> Holding | None:
    """A pod's record somewhere in the cluster; ``None`` when there is no device."""
    devices = [(n, d) for n, by_family in cluster.nodes.items() for ds in by_family.values() for d in ds]
    if not devices:
        return None
    node = draw(st.sampled_from(sorted({n for n, _ in devices})))
    kinds = draw(st.lists(st.sampled_from(ContainerKind), min_size=1, max_size=3))
    kinds.sort(key=lambda kind: kind is ContainerKind.APP)
    shares = []
    for number, _ in enumerate(kinds):
        for device in draw(st.lists(st.sampled_from([d for n, d in devices if n == node]), max_size=2)):
            share = draw(shares_on(device))
            shares.append(RecordedShare(container=f"c{number}", family=device.family, device=device.id, share=share))
    return Holding(
        uid=uid,
        namespace="default",
        name=uid,
        node=node,
        shares=tuple(shares),
        containers=tuple((f"c{number}", kind) for number, kind in enumerate(kinds)),
    )


@st.composite
def busy_clusters(draw: st.DrawFn, families: Sequence[str] = NAMES, most_nodes: int = 4) -> Cluster:
    """A cluster with pods on it, and perhaps a record that cannot be read."""
    cluster = draw(clusters(families, most_nodes))
    for number in range(draw(st.integers(0, 6))):
        holding = draw(holdings(cluster, f"pod-{number}"))
        if holding is not None:
            cluster.holdings[holding.uid] = holding
    ids = [(n, d.id) for n, by_family in cluster.nodes.items() for ds in by_family.values() for d in ds]
    if ids and draw(st.integers(0, 7)) == 0:
        node, device = draw(st.sampled_from(ids))
        cluster.blocked[node] = draw(st.sampled_from(((), (device,))))
    return cluster


@st.composite
def device_requests(draw: st.DrawFn, families: Sequence[str], ids: Sequence[str] = ()) -> DeviceRequest:
    """What one container asks of one family."""
    family = draw(st.sampled_from(families))
    memory = st.one_of(
        st.sampled_from(AMOUNTS).map(MemoryMib), st.integers(1, 100).map(MemoryPercent), st.just(WHOLE_DEVICE)
    )
    if family == CUT:
        memory = st.one_of(memory, st.integers(1, 4).map(Cells))
    words = st.sampled_from((None, None, None, ("n2",), ("=N1",)))
    chosen = st.sampled_from((None, None, None, frozenset(ids[:2]), frozenset(ids[2:])))
    return DeviceRequest(
        family=family,
        count=draw(st.sampled_from((1, 1, 1, 2, 3))),
        memory=draw(memory),
        core=draw(
            st.one_of(st.sampled_from((0, 10, 50, 100, 140)).map(CoreUnits), st.integers(1, 100).map(CorePercent))
        ),
        mode=draw(st.sampled_from(("", "", "shared"))),
        profiled=family == STEPS,
        selection=Selection(models=draw(words), not_models=draw(words), ids=draw(chosen), not_ids=draw(chosen)),
        numa_bind=draw(st.integers(0, 3)) == 0,
    )


POLICIES = st.builds(
    Policies,
    node=st.sampled_from(("binpack", "spread")),
    device=st.sampled_from(
        (
            ("binpack",),
            ("spread",),
            ("mutex",),
            ("numa",),
            ("topology-aware",),
            ("binpack", "numa"),
            ("mutex", "binpack"),
            ("spread", "topology-aware"),
        )
    ),
)


@st.composite
def pod_requests(draw: st.DrawFn, cluster: Cluster, uid: str = "new", most_containers: int = 3) -> PodRequest:
    """A pod that asks for families of the cluster."""
    families = sorted({f for by_family in cluster.nodes.values() for f in by_family}) or [FREE]
    ids = [d.id for by_family in cluster.nodes.values() for devices in by_family.values() for d in devices]
    kinds = draw(st.lists(st.sampled_from(ContainerKind), min_size=1, max_size=most_containers))
    kinds.sort(key=lambda kind: kind is ContainerKind.APP)
    containers = []
    for number, kind in enumerate(kinds):
        asked = draw(
            st.lists(device_requests(families, ids), min_size=number == 0, max_size=2, unique_by=lambda d: d.family)
        )
        containers.append(ContainerRequest(name=f"c{number}", kind=kind, devices=tuple(asked)))
    return PodRequest(
        uid=uid,
        namespace="default",
        name=uid,
        containers=tuple(containers),
        policies=draw(POLICIES),
        priority=draw(st.sampled_from((0, 0, 10))),
    )


def pod_of(request: PodRequest) -> PodView:
    """The pod behind a request."""
    return PodView(uid=request.uid, namespace=request.namespace, name=request.name)
