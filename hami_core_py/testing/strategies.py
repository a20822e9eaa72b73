"""Hypothesis strategies for the models: values that the core itself could have made.

``STRATEGIES`` has one per model; functions take what a test wants to hold still.
"""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from hami_core_py.decisions.fit import Standing, candidate
from hami_core_py.models.allocations import (
    Allocation,
    ContainerPlacement,
    Dialect,
    Grant,
    HealthChange,
    Mount,
    Partition,
    PlacedPod,
    Placement,
    PodRecord,
    RecordedShare,
)
from hami_core_py.models.answers import Candidate, Fit, Reason, Refusal
from hami_core_py.models.devices import Device, DeviceId, Health, Inventory, Profile, Share, Usage
from hami_core_py.models.families import Family
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
    Weights,
)
from hami_core_py.models.samples import Sample
from hami_core_py.models.views import ContainerView, NodeView, PlacementView, PodView
from hami_core_py.testing.builders import CORE, COUNT, FAMILY, MEMORY, PERCENT, family

MOST_MIB = 2**18
WORDS = st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
"""Names as Kubernetes allows them."""
IDS = st.from_regex(r"npu-[0-9a-f]{1,8}", fullmatch=True).map(DeviceId)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
LABELS = st.dictionaries(WORDS, WORDS, max_size=2)

memory_asks = st.one_of(
    st.integers(1, MOST_MIB).map(MemoryMib), st.integers(1, 100).map(MemoryPercent), st.just(WHOLE_DEVICE)
)
core_asks = st.one_of(st.integers(0, 100).map(CoreUnits), st.integers(1, 100).map(CorePercent))
profiles = st.builds(
    Profile,
    name=WORDS,
    memory_mib=st.integers(1, MOST_MIB),
    core_units=st.integers(0, 100),
    cells=st.just(0),
    starts=st.just(()),
)


@st.composite
def devices(draw: st.DrawFn, family_name: str = FAMILY) -> Device:
    """A device of free amounts, or one of eight cells with profiles that fit them."""
    is_cut = draw(st.booleans())
    cuts = draw(st.lists(cut_profiles(), max_size=3)) if is_cut else []
    return Device(
        id=draw(IDS),
        family=family_name,
        index=draw(st.integers(0, 15)),
        model=draw(st.sampled_from(["Acme N1", "Acme N2 80GB"])),
        slots=draw(st.integers(1, 20)),
        memory_mib=draw(st.integers(0, MOST_MIB)),
        core_units=draw(st.sampled_from([16, 64, 100, 150])),
        numa=draw(st.integers(0, 3)),
        health=draw(st.sampled_from(Health)),
        modes=draw(st.sampled_from([(), ("soft",), ("soft", "hard")])),
        groups=draw(LABELS),
        links=draw(st.dictionaries(IDS, st.integers(0, 1800), max_size=3)),
        facts=draw(LABELS),
        cells=8 if is_cut else 0,
        profiles=tuple(cuts),
    )


@st.composite
def cut_profiles(draw: st.DrawFn, cells: int = 8) -> Profile:
    """A profile of a device with so many cells; its starts are legal."""
    size = draw(st.sampled_from([1, 2, 4]))
    starts = draw(st.lists(st.integers(0, cells - size), unique=True, max_size=cells))
    return Profile(
        name=f"{size}c", memory_mib=draw(st.integers(1, MOST_MIB)), core_units=0, cells=size, starts=tuple(starts)
    )


@st.composite
def shares(draw: st.DrawFn, device: Device | None = None) -> Share:
    """A share that an idle device could give; of any device if none is named."""
    of = device or draw(devices())
    cuts = [profile for profile in of.profiles if profile.memory_mib <= of.memory_mib]
    wants_cut = draw(st.booleans())
    if cuts and wants_cut:
        cut = draw(st.sampled_from(cuts))
        start = draw(st.sampled_from(cut.starts)) if cut.starts else None
        return Share(memory_mib=cut.memory_mib, profile=cut.name, cells=cut.cells, start=start)
    return Share(
        memory_mib=draw(st.integers(0, of.memory_mib)),
        core_units=draw(st.integers(0, of.core_units)),
        labels=draw(st.lists(WORDS, max_size=2, unique=True).map(tuple)),
    )


@st.composite
def usages(draw: st.DrawFn, device: Device | None = None) -> Usage:
    """A usage within what a device has."""
    of = device or draw(devices())
    return Usage(
        slots=draw(st.integers(0, of.slots)),
        memory_mib=draw(st.integers(0, of.memory_mib)),
        core_units=draw(st.integers(0, of.core_units)),
        occupied=draw(st.integers(0, 2**of.cells - 1)),
    )


@st.composite
def requests(draw: st.DrawFn, family_name: str = FAMILY) -> DeviceRequest:
    """What one container asks of one family."""
    return DeviceRequest(
        family=family_name,
        count=draw(st.integers(1, 8)),
        memory=draw(memory_asks),
        core=draw(core_asks),
        numa_bind=draw(st.booleans()),
        selection=draw(selections),
    )


selections = st.builds(
    Selection,
    ids=st.none() | st.frozensets(IDS, max_size=3),
    not_ids=st.none() | st.frozensets(IDS, max_size=3),
    models=st.none() | st.just(("n1",)),
    not_models=st.none() | st.just(("=Acme N1",)),
)
policies = st.builds(
    Policies,
    node=st.sampled_from(["binpack", "spread"]),
    device=st.sampled_from([("binpack",), ("spread",), ("mutex", "spread"), ("numa", "binpack"), ("topology-aware",)]),
    weights=st.builds(Weights, slot=st.integers(1, 9), core=st.integers(0, 9), memory=st.integers(0, 9)),
)
limits = st.fixed_dictionaries(
    {},
    optional={
        COUNT: st.integers(0, 8).map(str),
        MEMORY: st.integers(0, MOST_MIB).map(str),
        PERCENT: st.integers(0, 100).map(str),
        CORE: st.integers(0, 100).map(str),
        "cpu": st.just("500m"),
    },
)


@st.composite
def containers(draw: st.DrawFn, kind: ContainerKind = ContainerKind.APP) -> ContainerView:
    """A container that may ask for devices of Acme's; its amounts can be granted by some device."""
    env = draw(st.dictionaries(WORDS.map(str.upper), TEXTS, max_size=2))
    return ContainerView(name=draw(WORDS), kind=kind, limits=draw(limits), env=env, env_names=frozenset(env))


@st.composite
def pods(draw: st.DrawFn) -> PodView:
    """A pod with init containers, sidecars and app containers of different names."""
    early = draw(st.lists(st.sampled_from([ContainerKind.INIT, ContainerKind.SIDECAR]).flatmap(containers), max_size=2))
    app = draw(st.lists(containers(), min_size=1, max_size=3))
    named = {one.name: one for one in (*early, *app)}
    return PodView(
        uid=str(draw(st.uuids())),
        namespace=draw(WORDS),
        name=draw(WORDS),
        containers=tuple(sorted(named.values(), key=lambda c: c.kind is ContainerKind.APP)),
        annotations=draw(LABELS),
    )


nodes = st.builds(
    NodeView, name=WORDS, annotations=LABELS, labels=LABELS, capacity=limits, allocatable=limits, ready=st.booleans()
)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Device, Share]:
    """A device and a share of it."""
    device = draw(devices())
    return device, draw(shares(device))


@st.composite
def candidates(draw: st.DrawFn) -> Candidate:
    """A seat on a device, idle or in use."""
    device, share = draw(pairs())
    used = draw(usages(device))
    return candidate(Standing(device=device, before=used, now=used), share, draw(st.integers(0, 7)))


recorded_shares = st.builds(
    RecordedShare,
    container=WORDS,
    family=st.just(FAMILY),
    device=IDS,
    share=shares(),
    model=TEXTS,
    numa=st.integers(0, 3),
)
placements = st.builds(
    Placement,
    node=WORDS,
    containers=st.lists(
        st.builds(
            ContainerPlacement,
            name=WORDS,
            kind=st.sampled_from(ContainerKind),
            pairs=st.lists(pairs(), max_size=2).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    score=st.floats(0, 1),
)
allocations = st.builds(
    Allocation,
    family=st.just(FAMILY),
    pod_uid=st.uuids().map(str),
    namespace=WORDS,
    pod=WORDS,
    container=WORDS,
    pairs=st.lists(pairs(), min_size=1, max_size=3).map(tuple),
)
_few_candidates = st.lists(candidates(), max_size=3).map(tuple)

STRATEGIES: Mapping[type[Any], st.SearchStrategy[Any]] = {
    Allocation: allocations,
    Candidate: candidates(),
    Cells: st.integers(1, 8).map(Cells),
    ContainerPlacement: placements.filter(lambda p: p.containers).map(lambda p: p.containers[0]),
    ContainerRequest: st.builds(ContainerRequest, name=WORDS, devices=st.lists(requests(), max_size=2).map(tuple)),
    ContainerView: containers(),
    CorePercent: st.integers(1, 100).map(CorePercent),
    CoreUnits: st.integers(0, 100).map(CoreUnits),
    Device: devices(),
    DeviceRequest: requests(),
    Family: WORDS.map(family),
    Fit: shares().map(lambda share: Fit(share=share)),
    Grant: st.builds(Grant, env=st.dictionaries(WORDS.map(str.upper), TEXTS, max_size=2)),
    HealthChange: st.builds(HealthChange, device=IDS, healthy=st.booleans(), detail=TEXTS),
    Inventory: st.lists(devices(), max_size=4, unique_by=lambda d: d.id).map(lambda ds: Inventory(devices=tuple(ds))),
    MemoryMib: st.integers(1, MOST_MIB).map(MemoryMib),
    MemoryPercent: st.integers(1, 100).map(MemoryPercent),
    Mount: st.builds(Mount, host_path=WORDS.map("/host/{}".format), container_path=WORDS.map("/in/{}".format)),
    NodeView: nodes,
    Partition: st.builds(Partition, uuid=WORDS, device=IDS),
    PlacedPod: st.builds(
        PlacedPod,
        uid=st.uuids().map(str),
        namespace=WORDS,
        name=WORDS,
        node=WORDS,
        family=st.just(FAMILY),
        at_ns=st.integers(0, 2**62),
        containers=st.lists(st.lists(pairs(), max_size=2).map(tuple), max_size=3).map(tuple),
    ),
    PlacementView: st.builds(
        PlacementView, family=st.just(FAMILY), chosen=_few_candidates.map(lambda c: (c,)), before=_few_candidates
    ),
    Placement: placements,
    PodRecord: st.builds(
        PodRecord,
        node=WORDS,
        shares=st.lists(recorded_shares, max_size=3).map(tuple),
        dialect=st.sampled_from(Dialect),
        epoch=st.integers(0, 9),
        at_ns=st.integers(0, 2**62),
    ),
    PodRequest: st.builds(
        PodRequest,
        uid=st.uuids().map(str),
        namespace=WORDS,
        name=WORDS,
        containers=st.lists(st.builds(ContainerRequest, name=WORDS), max_size=2).map(tuple),
        policies=policies,
    ),
    PodView: pods(),
    Policies: policies,
    Profile: profiles | cut_profiles(),
    RecordedShare: recorded_shares,
    Refusal: st.builds(Refusal, reason=st.sampled_from(Reason), device=st.none() | IDS, detail=TEXTS),
    Sample: st.builds(
        Sample,
        name=WORDS.map("{}_bytes".format),
        value=st.floats(0, 1e15),
        help=TEXTS,
        labels=LABELS,
        kind=st.just("gauge"),
    ),
    Selection: selections,
    Share: shares(),
    Usage: usages(),
    Weights: st.builds(Weights, slot=st.integers(1, 9)),
}
"""Model → strategy, for every model that a decision or a hook is handed."""
