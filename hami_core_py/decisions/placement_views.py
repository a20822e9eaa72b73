"""A finished choice as backends see it when they are asked to score it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hami_core_py.decisions import select
from hami_core_py.decisions.fit import Standing, candidate
from hami_core_py.decisions.nodes import NodeState
from hami_core_py.decisions.plan import Plan
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Candidate
from hami_core_py.models.devices import IDLE, Device, DeviceId, Share, Usage, no_facts
from hami_core_py.models.views import PlacementView


def placement_views(
    plan: Plan, node: NodeState, usage: Mapping[DeviceId, Usage], placed: Placement
) -> Iterator[PlacementView]:
    """A finished choice as the backends' scores see it, one view per family the pod asks for."""
    for family in plan.families:
        devices = node.of_family(family)
        indexes = {d.id: d.index for d in devices}
        before = {d.id: _seen(d, n, usage, indexes, select.NOTHING) for n, d in enumerate(devices)}
        chosen = tuple(
            tuple(replace(before[d.id], share=share) for d, share in c.pairs if d.family == family)
            for c in placed.containers
        )
        yield PlacementView(
            family=family,
            chosen=chosen,
            before=tuple(before.values()),
            facts=node.facts.get(family, no_facts()),
            node_policy=plan.policies.node,
        )


def _seen(
    device: Device, number: int, usage: Mapping[DeviceId, Usage], indexes: Mapping[DeviceId, int], share: Share
) -> Candidate:
    used = usage.get(device.id, IDLE)
    standing = Standing(device=device, before=used, now=used, links=select.link_indexes(device, indexes))
    return candidate(standing, share, number)
