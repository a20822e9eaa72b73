"""A cluster as lists of objects: the same indexes and engine as in the running scheduler, over what was saved or listed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hami_core_py.codecs.records import explain_annotations
from hami_core_py.decisions.explain import NodeExplanation
from hami_core_py.decisions.pod_shape import kind_of
from hami_core_py.decisions.requests import read_pod_request
from hami_core_py.errors import BadInputError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Placement
from hami_core_py.models.devices import Device, Usage
from hami_core_py.models.requests import Policies
from hami_core_py.models.views import PodView, node_view
from hami_core_py.services.engine import Engine
from hami_core_py.services.holding import Holding
from hami_core_py.services.intake import NodeIntake, PodIntake, read_pod_news
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.scheduling.recording import families_of, record_of

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Where a pod would go, and why not elsewhere.

    :ivar nodes: best first, then by name. :ivar placement: on the node we would choose; ``None`` when nothing fits.
    :ivar annotations: what bind would write, without signature and time.
    """

    pod: PodView
    nodes: tuple[NodeExplanation, ...]
    placement: Placement | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)


class Snapshot:
    """Nodes and pods at one moment.

    :param nodes: node objects of the API (decoded JSON); ``pods`` likewise.
    :param policies: defaults of the configuration.
    """

    def __init__(
        self,
        nodes: Iterable[JsonObject],
        pods: Iterable[JsonObject],
        ask: Ask,
        *,
        policies: Policies,
        trust_v210: bool = True,
        needs_allocatable: bool = True,
    ) -> None:
        self._ask, self._policies = ask, policies
        self.inventory, self.ledger = Inventory(), Ledger()
        self.engine = Engine(self.inventory, self.ledger, ask)
        self._nodes = NodeIntake(self.inventory, ask, needs_allocatable=needs_allocatable)
        self._nodes.sync(node_view(node) for node in nodes)
        PodIntake(self.ledger, ask, trust_v210=trust_v210).sync(read_pod_news(identified(pod)) for pod in pods)

    def explain(self, pod: PodView) -> Explanation:
        """Where a pod would go. Its own record does not count against it.

        A pod that asks for no device fits everywhere and is placed nowhere by us.

        :raises RequestError: it asks for something that cannot be read or granted.
        """
        request = read_pod_request(pod, self._ask, self._policies)
        if not request.families:
            everywhere = tuple(NodeExplanation(node=name, fits=True) for name in self.inventory.names())
            return Explanation(pod=pod, nodes=everywhere)
        self.ledger.remove(pod.uid)
        nodes = self.engine.explain(request, pod)
        best = next((node.placement for node in nodes if node.fits), None)
        return Explanation(pod=pod, nodes=nodes, placement=best, annotations=self._annotations(pod, best))

    def devices(self) -> tuple[tuple[str, Device, Usage], ...]:
        """Every device with its node and usage, by node, family and index."""
        rows = []
        for name in self.inventory.names():
            usage = self.ledger.usage(name)
            devices = sorted(self.inventory.devices(name), key=lambda d: (d.family, d.index, d.id))
            rows += [(name, device, usage.get(device.id, Usage())) for device in devices]
        return tuple(rows)

    def holdings(self) -> tuple[Holding, ...]:
        """What each pod holds, by namespace and name."""
        return tuple(sorted(self.ledger.holdings(), key=lambda h: (h.namespace, h.name)))

    def _annotations(self, pod: PodView, placement: Placement | None) -> dict[str, str]:
        if placement is None:
            return {}
        served = {name: self._nodes.served(placement.node, name) for name in families_of(placement)}
        ordered = frozenset(name for name, how in served.items() if how is not None and how.ordered)
        return explain_annotations(record_of(pod, placement, self._ask, at_ns=0, ordered=ordered))


def identified(pod: JsonObject) -> JsonObject:
    """The pod with a UID: one written by hand may lack it, and what it holds counts all the same."""
    metadata = pod.get("metadata") or {}
    if metadata.get("uid"):
        return pod
    uid = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    return {**pod, "metadata": {**metadata, "uid": uid}}


def items_of(document: Any, where: str) -> Sequence[JsonObject]:
    """Objects of a list as ``kubectl get -o json`` saves it, of a bare JSON list, or of a single object.

    :raises BadInputError: it is none of these.
    """
    if isinstance(document, Mapping) and isinstance(document.get("items"), list):
        document = document["items"]
    elif isinstance(document, Mapping) and document.get("kind"):
        document = [document]
    if not isinstance(document, list) or not all(isinstance(item, Mapping) for item in document):
        raise BadInputError(where, "a list of objects, as `kubectl get -o json` saves it", kind_of(document))
    return document
