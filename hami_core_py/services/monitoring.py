"""What is measured on one node: its devices, who holds them, and what the backends measure themselves.

Watches keep inventory and ledger of this node; backends are asked per interval, each on a thread of its own. A scrape
answers what is known and asks nobody.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.events import Events
from hami_core_py.cluster.nodes import NODES
from hami_core_py.cluster.pods import PODS
from hami_core_py.cluster.watch import Watcher
from hami_core_py.errors import BackendError, BadInputError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.models.allocations import Allocation
from hami_core_py.models.samples import Sample
from hami_core_py.models.views import node_view
from hami_core_py.services.directories import Directories, Known
from hami_core_py.services.holding import Holding
from hami_core_py.services.intake import NodeIntake, PodIntake, read_pod_news
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.measures import node_samples
from hami_core_py.services.older_names import with_older_names
from hami_core_py.services.warnings import COMPONENT, Warnings

log = logging.getLogger(__name__)

HOOK = "hami_collect_metrics"
STALE_INTERVALS = 3
"""After so many intervals without an answer a backend's samples are no longer shown: an old number is not a measurement."""


@dataclass(frozen=True)
class Measured:
    """What one backend answered last. :ivar at: monotonic seconds."""

    samples: tuple[Sample, ...]
    at: float


class Monitor:
    """Measures one node.

    :param interval_seconds: between two questions to the same backend.
    :param trust_v210: whether unsigned v2.10 records count.
    :param older_names: whether samples are shown under the names from before HAMi 2.9 as well.
    :param state_dir: of the node agent; tells which directory is whose. ``None``: backends are told none.
    """

    def __init__(
        self,
        client: Client,
        ask: Ask,
        node: str,
        *,
        interval_seconds: float = 15.0,
        trust_v210: bool = True,
        older_names: bool = False,
        state_dir: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ask, self._node, self._interval, self._clock = ask, node, interval_seconds, clock
        self._older_names = older_names
        self._warnings = Warnings(Events(client, COMPONENT, host=node))
        self._directories = Directories(state_dir) if state_dir else None
        self._lock, self._directories_lock = threading.Lock(), threading.Lock()
        self._stopped = threading.Event()
        self._measured: dict[str, Measured] = {}
        self._inventory, self._ledger = Inventory(), Ledger()
        self._nodes = NodeIntake(self._inventory, ask, needs_allocatable=False)
        self._pods = PodIntake(self._ledger, ask, trust_v210=trust_v210)
        self._watchers = (
            Watcher(
                client,
                NODES,
                {"fieldSelector": f"metadata.name={node}"},
                on_event=self._node_changed,
                on_sync=self._nodes_listed,
                name="watch this node",
            ),
            Watcher(
                client,
                PODS,
                {"fieldSelector": f"spec.nodeName={node}"},
                on_event=self._pod_changed,
                on_sync=self._pods_listed,
                name="watch pods of this node",
            ),
        )
        self._threads = [
            threading.Thread(target=self._measure, args=(backend,), name=f"measure {backend.info.name}", daemon=True)
            for backend in ask.backends.loaded
            if HOOK in backend.hooks
        ]

    def start(self) -> None:
        """Begin to watch and to measure; returns at once."""
        for watcher in self._watchers:
            watcher.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End; a thread that hangs in a backend ends with the process."""
        self._stopped.set()
        for watcher in self._watchers:
            watcher.stop()
        for thread in self._threads:
            thread.join(timeout=1.0)
        self._warnings.stop()

    def missing(self) -> str | None:
        """What is not known yet; ``None``: ready."""
        return None if all(w.synced.is_set() for w in self._watchers) else "node and pods are not listed yet"

    def samples(self) -> tuple[Sample, ...]:
        """Everything known now: one sample per name and labels, in the order of the backends' names."""
        with self._lock:
            holdings = self._holdings()
            node = node_samples(
                self._node,
                self._inventory.devices(self._node),
                self._ledger.usage(self._node),
                holdings,
                self.ask.families,
            )
            measured = dict(self._measured)
        live = {(holding.namespace, holding.name) for holding in holdings}
        shown = _first_of_each([*node, *self._of_backends(measured, live)])
        return tuple(with_older_names(shown) if self._older_names else shown)

    def _of_backends(self, measured: Mapping[str, Measured], live: set[tuple[str, str]]) -> Iterator[Sample]:
        oldest = self._clock() - STALE_INTERVALS * self._interval
        for _, answer in sorted(measured.items()):
            if answer.at < oldest:
                continue
            for sample in answer.samples:
                pod = sample.labels.get("pod")
                if pod is None or (sample.labels.get("namespace", ""), pod) in live:
                    yield replace(sample, labels={"node": self._node, **sample.labels})

    def _measure(self, backend: LoadedBackend) -> None:
        name = backend.info.name
        while not self._stopped.is_set():
            if self.missing() is None:
                try:
                    samples = self.ask.collect_metrics(backend, self._allocations(backend))
                except (BackendError, BadInputError) as problem:
                    log.warning("backend not measured", extra={"backend": name, "problem": str(problem)})
                    samples = ()
                with self._lock:
                    self._measured[name] = Measured(samples, self._clock())
                    holdings = self._holdings()
                self._warnings.tell(name, samples, {(h.namespace, h.name): h.uid for h in holdings})
            self._stopped.wait(self._interval if self.missing() is None else min(self._interval, 0.5))

    def _allocations(self, backend: LoadedBackend) -> Sequence[Allocation]:
        """Who holds devices of the backend's families, or of any where it stands in for others; by pod and container."""
        own = {family.name for family in backend.families}
        with self._lock:
            devices = {device.id: device for device in self._inventory.devices(self._node)}
            holdings = self._holdings()
        with self._directories_lock:
            places = self._directories.by_container() if self._directories else {}
        unknown = Known("", {})
        found = []
        for holding in holdings:
            pairs: dict[tuple[str, str], list[Any]] = {}
            for share in holding.shares:
                if share.device in devices and (share.family in own or backend.info.stands_in):
                    key = (share.container, share.family)
                    pairs.setdefault(key, []).append((devices[share.device], share.share))
            found += [
                Allocation(
                    family=family,
                    pod_uid=holding.uid,
                    namespace=holding.namespace,
                    pod=holding.name,
                    container=container,
                    pairs=tuple(held),
                    directory=places.get((holding.uid, container, family), unknown).directory,
                    limits=places.get((holding.uid, container, family), unknown).limits,
                )
                for (container, family), held in pairs.items()
            ]
        return found

    def _holdings(self) -> list[Holding]:
        return sorted(self._ledger.holdings(self._node), key=lambda h: (h.namespace, h.name, h.uid))

    def _nodes_listed(self, nodes: Iterable[dict[str, Any]]) -> None:
        with self._lock:
            self._nodes.sync(node_view(node) for node in nodes)

    def _node_changed(self, kind: str, node: dict[str, Any]) -> None:
        view = node_view(node)
        with self._lock:
            if kind == "DELETED":
                self._nodes.remove(view.name)
            else:
                self._nodes.update(view)

    def _pods_listed(self, pods: Iterable[dict[str, Any]]) -> None:
        with self._lock:
            self._pods.sync(read_pod_news(pod) for pod in pods)

    def _pod_changed(self, kind: str, pod: dict[str, Any]) -> None:
        news = read_pod_news(pod)
        with self._lock:
            if kind == "DELETED":
                self._pods.remove(news.uid)
            else:
                self._pods.update(news)


def _first_of_each(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Two samples of one name and one set of labels would make the whole scrape unreadable."""
    seen = set()
    for sample in samples:
        identity = (sample.name, frozenset(sample.labels.items()))
        if identity not in seen:
            seen.add(identity)
            yield sample
