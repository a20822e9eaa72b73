"""One scheduler put together: indexes, engine, watches, and whoever answers kube-scheduler. Everything but the protocol."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.events import Events
from hami_core_py.cluster.locks import NodeLocks
from hami_core_py.cluster.nodes import NODES
from hami_core_py.cluster.pods import PODS
from hami_core_py.cluster.stamps import Stamps
from hami_core_py.cluster.watch import Watcher
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.requests import Policies
from hami_core_py.models.views import NodeView, node_view
from hami_core_py.services.engine import Engine
from hami_core_py.services.intake import NodeIntake, PodIntake, PodNews, read_pod_news
from hami_core_py.services.intake.handshakes import Handshakes
from hami_core_py.services.inventory import Inventory
from hami_core_py.services.ledger import Ledger
from hami_core_py.services.reservations import Reservations
from hami_core_py.services.scheduling.binding import Binder
from hami_core_py.services.scheduling.care import Care
from hami_core_py.services.scheduling.deciding import Mode, Scheduling
from hami_core_py.services.scheduling.evicting import Evictor
from hami_core_py.services.scheduling.nominating import Nominator
from hami_core_py.services.scheduling.recent import Recent
from hami_core_py.services.scheduling.telling import Teller

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a scheduler can be told; defaults as in the settings, where each is explained."""

    name: str = "hami-scheduler"
    policies: Policies = Policies()
    mode: Mode = "all-nodes"
    shortlist: int = 16
    assumed_seconds: float = 30.0
    volume_seconds: float = 660.0
    trust_v210: bool = True
    needs_allocatable: bool = True
    reconcile_seconds: float = 60.0
    evict: bool = False
    lock_wait_seconds: float = 2.0
    back_off_seconds: tuple[float, float] = (0.2, 5.0)


class Scheduler:
    """The scheduler of one process.

    :param clock: monotonic seconds; ``clock_ns``: nanoseconds since the Unix epoch.
    :param on_loaded: called after every complete list, when much that lives long has been made.
    """

    def __init__(
        self,
        client: Client,
        ask: Ask,
        options: Options = Options(),
        *,
        clock: Callable[[], float] = time.monotonic,
        clock_ns: Callable[[], int] = time.time_ns,
        on_loaded: Callable[[], None] = lambda: None,
    ) -> None:
        self.ask, self.options = ask, options
        self._on_loaded = on_loaded
        self.inventory, self.ledger = Inventory(), Ledger()
        self.engine = Engine(self.inventory, self.ledger, ask)
        self.events = Events(client, options.name)
        self._stamps = Stamps(client)
        self._handshakes = Handshakes(self._stamps.write, clock_ns=clock_ns)
        self.nodes = NodeIntake(
            self.inventory,
            ask,
            shakes_hands=self._handshakes,
            needs_allocatable=options.needs_allocatable,
        )
        self.reservations = Reservations(
            self.engine, clock, assumed_seconds=options.assumed_seconds, volume_seconds=options.volume_seconds
        )
        self.pods = PodIntake(self.ledger, ask, trust_v210=options.trust_v210, listener=self.reservations)
        self._teller = Teller(self.engine, self.events)
        self._nominator = Nominator(client, self.engine, clock=clock)
        recent = Recent(ask, options.policies)
        self.binder = Binder(
            client,
            self.reservations,
            recent,
            self.nodes,
            ask,
            locks=NodeLocks(client, events=self.events, clock_ns=clock_ns),
            teller=self._teller,
            lock_wait_seconds=options.lock_wait_seconds,
            clock=clock,
            clock_ns=clock_ns,
        )
        self.scheduling = Scheduling(
            self.engine,
            self.reservations,
            self.binder,
            recent,
            teller=self._teller,
            nominator=self._nominator,
            ready=self.missing,
            shortlist=options.shortlist,
            mode=options.mode,
        )
        self.care = Care(
            client,
            self.ledger,
            self.reservations,
            self.binder,
            reconcile_seconds=options.reconcile_seconds,
            look_again=self.nodes.look_again,
            clock=clock,
        )
        self.evictor = (
            Evictor(
                client,
                self.ledger,
                self.events,
                ready=self.missing,
                back_off_seconds=options.back_off_seconds,
                clock=clock,
            )
            if options.evict
            else None
        )
        self._node_watch = Watcher(
            client,
            NODES,
            on_event=self._node_event,
            on_sync=self._nodes_listed,
            transform=node_view,
            name="watch nodes",
            back_off_seconds=options.back_off_seconds,
        )
        self._pod_watch = Watcher(
            client,
            PODS,
            on_event=self._pod_event,
            on_sync=self._pods_listed,
            on_list=self.pods.list_begins,
            transform=read_pod_news,
            name="watch pods",
            back_off_seconds=options.back_off_seconds,
        )

    def start(self) -> "Scheduler":
        """Begin to learn of the cluster; returns at once. ``missing`` answers ``None`` when that is done."""
        self._node_watch.start()
        self._pod_watch.start()
        self.care.start()
        if self.evictor is not None:
            self.evictor.start()
        return self

    def missing(self) -> str | None:
        """What is not known yet; ``None``: all is."""
        if not self._node_watch.synced.is_set():
            return "the cluster's nodes have not been read yet"
        if not self._pod_watch.synced.is_set():
            return "the cluster's pods have not been read yet"
        return None

    def wait_until_ready(self, timeout_seconds: float) -> bool:
        """Wait until nodes and pods are known. :returns: whether they are."""
        until = time.monotonic() + timeout_seconds
        is_ready = self._node_watch.synced.wait(timeout_seconds)
        return is_ready and self._pod_watch.synced.wait(max(0.0, until - time.monotonic()))

    def stop(self) -> None:
        """End all threads; what is queued for the API server is written first, within two seconds."""
        self._node_watch.stop()
        self._pod_watch.stop()
        self.care.stop()
        if self.evictor is not None:
            self.evictor.stop()
        self._teller.stop()
        self._nominator.stop()
        self._stamps.stop()
        self.events.stop()

    def _node_event(self, kind: str, view: NodeView) -> None:
        if kind == "DELETED":
            self.nodes.remove(view.name)
            self._handshakes.forget(view.name)
        else:
            self.nodes.update(view)

    def _pod_event(self, kind: str, news: PodNews) -> None:
        if kind == "DELETED":
            self.pods.remove(news.uid)
        else:
            self.pods.update(news)

    def _nodes_listed(self, views: list[NodeView]) -> None:
        self.nodes.sync(views)
        views.clear()
        self._on_loaded()

    def _pods_listed(self, news: list[PodNews]) -> None:
        self.pods.sync(news)
        news.clear()
        self._on_loaded()
