"""Saying on the node object what this node has: inventory, node totals, and that the agent lives.

Annotations are written when the inventory has changed and at no other time, since each change of a node's annotations makes
kube-scheduler try all refused pods again. The API server may be away: what is to be said is said when it is back.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.cluster.leases import renew_lease
from hami_core_py.cluster.nodes import NODES, patch_annotations, patch_status
from hami_core_py.cluster.watch import Watcher
from hami_core_py.codecs.native import Identity, inventory_key, render_inventory
from hami_core_py.codecs.quantities import same_amount
from hami_core_py.codecs.v210.offer import render_offer
from hami_core_py.decisions.totals import node_totals
from hami_core_py.models.families import AnnotatedDevices, Family
from hami_core_py.models.views import NodeView, node_view
from hami_core_py.services.agent.table import DeviceTable, Snapshot

log = logging.getLogger(__name__)

RETRY_SECONDS = (1.0, 30.0)
"""First and longest pause after a failed write."""


class Publisher:
    """Keeps the node object in step with the device table.

    :param backends: those that this agent asks for devices; another agent of the node may speak for others.
    :param publish_totals: whether node totals are published. :param lease_seconds: interval of renewal.
    """

    def __init__(
        self,
        client: Client,
        node: str,
        table: DeviceTable,
        families: Mapping[str, Family],
        *,
        backends: Iterable[str],
        identity: Identity,
        publish_totals: bool = True,
        lease_namespace: str = "hami-system",
        lease_seconds: float = 60.0,
    ) -> None:
        self._client, self._node, self._table, self._families = client, node, table, families
        self._backends = frozenset(backends)
        self._identity, self._publish_totals = identity, publish_totals
        self._lease_namespace, self._lease_seconds = lease_namespace, lease_seconds
        self._changed = threading.Event()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._seen: NodeView | None = None
        self._watcher = Watcher(
            client,
            NODES,
            {"fieldSelector": f"metadata.name={node}"},
            on_event=self._node_event,
            on_sync=self._node_list,
            name="watch own node",
        )
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for name, work in (
                ("publish inventory", self._publish_forever),
                ("publish follow", self._follow_table),
                ("renew leases", self._renew_forever),
            )
        ]

    def start(self) -> None:
        """Begin; returns at once."""
        self._watcher.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End. What has been published stays: the kubelet says at once that the devices are gone."""
        self._stopped.set()
        self._changed.set()
        self._watcher.stop()
        for thread in self._threads:
            thread.join(2.0)

    def wanted_annotations(self, snapshot: Snapshot, node: NodeView) -> dict[str, str | None]:
        """What the node's annotations must be changed to; empty when they are right."""
        by_owner: dict[str, list[Any]] = {}
        by_key: dict[str, str] = {}
        for device in snapshot.devices:
            by_owner.setdefault(self._families[device.family].backend, []).append(device)
        for family in sorted({device.family for device in snapshot.devices}):
            table = self._families[family].inventory
            if isinstance(table, AnnotatedDevices) and table.form == "json":
                by_key[table.key] = render_offer(
                    snapshot.family(family), self._families[family].profiles, profiles_key=table.profiles_key
                )
        wanted = {
            inventory_key(owner): render_inventory(owner, devices, self._identity)
            for owner, devices in by_owner.items()
        }
        wanted |= by_key
        if not snapshot.pending:
            # One that stands in for others takes back what it has offered in their names, and nothing else.
            spoken_for = self._backends | {self._families[name].backend for name in snapshot.offered}
            for owner in {family.backend for family in self._families.values()} & spoken_for - set(by_owner):
                key = inventory_key(owner)
                if key in node.annotations:
                    wanted[key] = render_inventory(owner, (), self._identity)
        return {key: text for key, text in sorted(wanted.items()) if node.annotations.get(key) != text}

    def wanted_totals(self, snapshot: Snapshot, node: NodeView) -> dict[str, str | None]:
        """What the node's totals must be changed to; empty when they are right."""
        if not self._publish_totals:
            return {}
        return {
            name: str(amount)
            for name, amount in node_totals(snapshot.devices, self._families).items()
            if not all(same_amount(str(amount), side.get(name, "")) for side in (node.capacity, node.allocatable))
        }

    def _publish(self) -> None:
        with self._lock:
            node = self._seen
        snapshot = self._table.snapshot
        if node is None or snapshot.version == 0:
            return
        if annotations := self.wanted_annotations(snapshot, node):
            patch_annotations(self._client, self._node, annotations)
            log.info("inventory published", extra={"annotations": sorted(annotations)})
        if totals := self.wanted_totals(snapshot, node):
            patch_status(self._client, self._node, totals)
            log.info("node totals published", extra={"totals": totals})

    def _publish_forever(self) -> None:
        pause, longest = RETRY_SECONDS
        while not self._stopped.is_set():
            self._changed.wait()
            self._changed.clear()
            try:
                self._publish()
                pause = RETRY_SECONDS[0]
            except ApiError as problem:
                log.warning("not published; trying again", extra={"problem": str(problem), "seconds": pause})
                self._stopped.wait(max(pause, problem.retry_after_seconds))
                pause = min(pause * 2, longest)
                self._changed.set()
            except Exception:
                log.exception("not published")
                self._stopped.wait(pause)

    def _follow_table(self) -> None:
        version = 0
        while not self._stopped.is_set():
            version = self._table.wait(version, 5.0).version
            self._changed.set()

    def _renew_forever(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            snapshot = self._table.snapshot
            pause = 1.0 if not snapshot.devices else self._lease_seconds
            for owner in sorted({self._families[device.family].backend for device in snapshot.devices}):
                if not self._renew(owner):
                    pause = min(pause, 5.0)

    def _renew(self, owner: str) -> bool:
        name = f"hami-agent-{owner}-{self._node}"
        try:
            # Three renewals may be missed before the word is no longer good.
            seconds = max(1, int(self._lease_seconds * 3))
            renew_lease(self._client, self._lease_namespace, name, holder=self._node, lease_seconds=seconds)
        except ApiError as problem:
            log.warning("lease not renewed", extra={"lease": name, "problem": str(problem)})
            return False
        return True

    def _node_event(self, kind: str, node: dict[str, Any]) -> None:
        with self._lock:
            self._seen = None if kind == "DELETED" else node_view(node)
        self._changed.set()

    def _node_list(self, nodes: list[dict[str, Any]]) -> None:
        with self._lock:
            self._seen = node_view(nodes[0]) if nodes else None
        self._changed.set()
