"""All questions the core asks of plugins, grouped by the process that asks.

*Owner* hooks are put to the one plugin that owns the family and then to the core's table-driven default: ``None`` means
"the table decides", ``()`` means "mine, and the answer is nothing". *List* hooks gather opinions and merge them so that
order cannot matter. A policy, which is a plugin without families, may wrap any question (``@hookimpl(wrapper=True)``): it then
sees the owner's answer of an owner hook, or the list with one backend's answer, each time a backend is asked; it answers
``hami_filter_rules`` itself. Unless a docstring says otherwise an implementation is pure, does not wait, changes no argument
and may be called from several threads.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pluggy

from hami_core_py.models.allocations import Allocation, Grant, HealthChange, PlacedPod
from hami_core_py.models.answers import Candidate, Refusal
from hami_core_py.models.backends import Admission, BackendInfo, DeviceRule, NodeRule
from hami_core_py.models.devices import Device, Inventory, Share
from hami_core_py.models.families import Family
from hami_core_py.models.requests import DeviceRequest
from hami_core_py.models.samples import Sample
from hami_core_py.models.views import ContainerView, NodeView, PlacementView, PodView

GROUP = "hami"
"""Entry point group and pluggy project name."""

API = 1
"""Major number of the plugin contract that this core serves."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@hookspec
def hami_backend() -> BackendInfo:
    """Who are you? Asked once at start, in every process, before any other question."""


@hookspec
def hami_families(settings: Any) -> Sequence[Family]:
    """Which kinds of device do you know, and how do they behave?

    Asked in every process, once per load of settings. :returns: families; a policy plugin has none.
    """


@hookspec
def hami_admit_container(container: ContainerView, pod: PodView, settings: Any) -> Admission | None:
    """What must change in this container, which names a resource of yours?

    Asked in the webhook. :returns: the changes, or a denial; ``None``: nothing beyond the table. Answers of several backends
    are merged; different values for one place deny the pod and name both.
    """


@hookspec(firstresult=True)
def hami_read_request(
    container: ContainerView, pod: PodView, family: Family, settings: Any
) -> Sequence[DeviceRequest] | None:
    """What does this container ask of your family? Owner hook, asked in webhook and extender.

    :raises RequestError: an amount cannot be read or could never be granted.
    """


@hookspec(firstresult=True)
def hami_read_inventory(node: NodeView, family: Family, settings: Any) -> Inventory | None:
    """Which devices of your family does this node have? Owner hook, asked in the extender per node event that matters.

    :raises InventoryError: the node's text cannot be read; its old devices stay, without new shares.
    """


@hookspec
def hami_filter_rules(request: DeviceRequest, pod: PodView) -> Sequence[DeviceRule | NodeRule]:
    """Which rules of yours must a device or node pass to serve the request?

    Asked in the extender once per pod and family, of the owner and of policies. The core applies the rules to the devices
    that the common ones left over. :returns: rules; a rule only narrows.
    """


@hookspec(firstresult=True)
def hami_select_devices(request: DeviceRequest, candidates: Sequence[Candidate]) -> Sequence[int] | Refusal | None:
    """Which of these seats, in policy order, serve the request together? Owner hook, asked per distinct argument.

    :returns: exactly ``request.count`` distinct positions; a refusal strikes the node.
    """


@hookspec
def hami_score_placement(view: PlacementView) -> float | None:
    """How good is this choice, 0–1, higher is better whatever the policy? Asked for the nodes of the shortlist."""


@hookspec
def hami_write_record(placed: PlacedPod) -> Mapping[str, str]:
    """Which annotations does your vendor's own software expect on the pod? Asked at bind, per family the pod uses.

    :returns: annotations; their keys must be among ``BackendInfo.annotations``.
    """


@hookspec(firstresult=True)
def hami_read_record(pod: PodView, family: Family, shares: Sequence[Share]) -> Sequence[Share] | None:
    """Complete the shares read from a v2.10 record with profile, start and labels. Owner hook, asked per pod event."""


@hookspec
def hami_discover_devices(settings: Any) -> Sequence[Device]:
    """Which devices does this node have? Asked in the node agent per interval; may block.

    :returns: devices of your own families, ``()`` where there is no driver.
    """


@hookspec
def hami_check_health(devices: Sequence[Device], settings: Any) -> Sequence[HealthChange]:
    """Which devices changed health? Asked in the node agent on a thread of its own; may wait for events, at most 5 s."""


@hookspec
def hami_reconcile_node(active: Sequence[Allocation], settings: Any) -> None:
    """Make the hardware agree with these live allocations: adopt the known, destroy what nobody holds.

    Asked in the node agent at start, per interval and before an allocate; may block.
    """


@hookspec(firstresult=True)
def hami_allocate(allocation: Allocation, settings: Any) -> Grant | None:
    """What does this container receive? Owner hook, asked in the node agent per container start; may block for less than 30 s.

    The same allocation gives the same grant.
    """


@hookspec
def hami_collect_metrics(allocations: Sequence[Allocation], settings: Any) -> Sequence[Sample]:
    """What do you measure on this node? Asked in the monitor per interval, never per scrape; may block."""
