"""Which pod holds which shares on which node: an index of the live pods' records plus our own reservations.

Keyed by pod UID, changed by deltas under one lock, and a pure function of what it was told last about each pod.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from threading import Lock

from hami_core_py.decisions.nodes import Blocked
from hami_core_py.decisions.usage import total
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.devices import IDLE, DeviceId, Usage, no_facts
from hami_core_py.models.requests import PodRequest
from hami_core_py.services.accounts import Accounts
from hami_core_py.services.holding import Drift, Entry, Holding, Reservation, State, recorded_shares


class Ledger:
    """Pod → shares, and node → device → usage. All changes happen under one lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._accounts = Accounts()
        self.drift_total = 0

    # Records of pods

    def apply(self, uid: str, holding: Holding) -> None:
        """Take over a pod's record; it replaces what was known of the pod, a reservation included. Twice is once."""
        with self._lock:
            self._accounts.unblock(uid)
            if holding.finished or not holding.node:
                self._accounts.drop(uid)
                return
            old = self._accounts.entries.get(uid)
            if old is not None and old.state is State.BOUND and old.holding == holding:
                return
            self._accounts.put(uid, holding, State.BOUND, None)

    def remove(self, uid: str) -> None:
        """Forget a pod and all it held; forgetting an unknown one changes nothing."""
        with self._lock:
            self._accounts.unblock(uid)
            self._accounts.drop(uid)

    def block(self, uid: str, node: str, devices: Iterable[DeviceId] = (), why: str = "") -> None:  # noqa: ARG002
        """A pod's record cannot be read: give nothing of its devices, or of its whole node when none is known.

        Shares known from an earlier record of the pod stay charged. It ends with a readable record or the pod's end.
        """
        with self._lock:
            blocked = Blocked(devices=frozenset(devices), whole_node=not devices)
            if self._accounts.blocks.of(uid, node) == blocked:
                return
            self._accounts.unblock(uid)
            self._accounts.blocks.put(uid, node, blocked, self._accounts.changes)
            self._accounts.touch(node, None)

    # Usage

    def usage(self, node: str) -> Mapping[DeviceId, Usage]:
        """Usage of the devices of one node that are in use; a snapshot."""
        with self._lock:
            book = self._accounts.books.get(node)
            return dict(book.usage) if book else no_facts()

    def usage_of(self, node: str, device: DeviceId) -> Usage:
        """Usage of one device."""
        with self._lock:
            book = self._accounts.books.get(node)
            return book.usage.get(device, IDLE) if book else IDLE

    def blocked(self, node: str) -> Blocked:
        """Devices of the node whose usage is not known."""
        with self._lock:
            return self._accounts.blocks.on(node)

    def generation(self, node: str) -> int:
        """Grows with every change of the node's usage; a decision is stale when it has grown since."""
        with self._lock:
            book = self._accounts.books.get(node)
            return book.generation if book else 0

    @property
    def changes(self) -> int:
        """Grows with every change of anything; see ``recount``."""
        return self._accounts.changes

    @property
    def freed(self) -> int:
        """Grows with every change after which there may be more room somewhere."""
        return self._accounts.freed

    def view(
        self, node: str, *, uid: str = "", priority: int | None = None, without: Iterable[str] = ()
    ) -> tuple[Mapping[DeviceId, Usage], Blocked, int]:
        """Usage, blocked devices and generation of a node, as one pod sees them at one moment.

        :param uid: the pod that asks; what it holds itself is left out.
        :param priority: assumed reservations of pods below this are left out; ``None``: none is.
        :param without: further pods that are left out, such as victims of a preemption.
        """
        absent = {uid, *without}
        with self._lock:
            book = self._accounts.books.get(node)
            if book is None:
                return no_facts(), self._accounts.blocks.on(node, absent), 0
            absent.update(e.holding.uid for e in self._accounts.yielding(priority) if e.holding.node == node)
            return book.without(absent), self._accounts.blocks.on(node, absent), book.generation

    def nodes_seen_otherwise(self, uid: str, priority: int) -> frozenset[str]:
        """Nodes that a pod sees emptier than they are counted: its own holding and reservations that yield to it."""
        with self._lock:
            nodes = {e.holding.node for e in self._accounts.yielding(priority)}
            if own := self._accounts.entries.get(uid):
                nodes.add(own.holding.node)
            if blocked_on := self._accounts.blocks.node_of(uid):
                nodes.add(blocked_on)
            return frozenset(nodes)

    # Reservations

    def reserve(
        self,
        uid: str,
        placement: Placement,
        request: PodRequest,
        generation: int,
        state: State,
        *,
        deadline: float | None = None,
    ) -> Refusal | None:
        """Take the shares of a placement, if the node is still as it was when it was decided.

        An earlier reservation of the same pod is replaced, wherever it was. Assumed reservations of lower priority on the
        same devices end here.

        :param generation: of the node (``view`` or ``generation``) when the placement was decided.
        :param deadline: when an assumed reservation ends, on the clock later given to ``expire``; ``None``: never.
        :returns: ``None`` when taken; ``STALE`` when the node has changed, ``ALREADY_BOUND`` when the pod has a record.
        """
        holding = Holding(
            uid=uid,
            namespace=request.namespace,
            name=request.name,
            node=placement.node,
            shares=recorded_shares(placement),
            containers=tuple((c.name, c.kind) for c in placement.containers),
            priority=request.priority,
        )
        with self._lock:
            old = self._accounts.entries.get(uid)
            if old is not None and old.state is State.BOUND:
                return Refusal(reason=Reason.ALREADY_BOUND, detail=f"holds shares on node {old.holding.node}")
            book = self._accounts.books.get(placement.node)
            if (book.generation if book else 0) != generation:
                return Refusal(reason=Reason.STALE, detail="the node has changed since the decision")
            taken = {share.device for share in holding.shares}
            for entry in self._accounts.yielding(request.priority):
                if entry.holding.node == placement.node and not taken.isdisjoint(entry.peaks):
                    self._accounts.drop(entry.holding.uid)
            self._accounts.put(uid, holding, state, deadline)
            return None

    def settle(self, uid: str) -> bool:
        """The Binding is known to have happened: what was reserved is held until the pod's record arrives, and after."""
        with self._lock:
            entry = self._accounts.reserved.pop(uid, None)
            if entry is None:
                return False
            self._accounts.entries[uid] = replace(entry, state=State.BOUND, deadline=None)
            return True

    def release(self, uid: str) -> bool:
        """End a reservation; a pod's record is not touched. :returns: whether there was one."""
        with self._lock:
            if uid not in self._accounts.reserved:
                return False
            self._accounts.drop(uid)
            return True

    def expire(self, now: float) -> tuple[str, ...]:
        """End assumed reservations whose deadline has come. :returns: their pods' UIDs, sorted."""
        with self._lock:
            due = sorted(
                uid
                for uid, e in self._accounts.reserved.items()
                if e.state is State.ASSUMED and e.deadline is not None and e.deadline <= now
            )
            for uid in due:
                self._accounts.drop(uid)
            return tuple(due)

    def reservation(self, uid: str) -> Reservation | None:
        """A pod's reservation; ``None`` when it has none, or its record has replaced it."""
        with self._lock:
            entry = self._accounts.reserved.get(uid)
            return entry.shown() if entry else None

    def reservations(self) -> tuple[Reservation, ...]:
        """All reservations, by pod UID."""
        with self._lock:
            return tuple(self._accounts.reserved[uid].shown() for uid in sorted(self._accounts.reserved))

    def holding(self, uid: str) -> Holding | None:
        """What a pod holds, by record or reservation."""
        with self._lock:
            entry = self._accounts.entries.get(uid)
            return entry.holding if entry else None

    def holdings(self, node: str | None = None) -> tuple[Holding, ...]:
        """All holdings, or those of one node, by pod UID."""
        with self._lock:
            entries = [self._accounts.entries[uid] for uid in sorted(self._accounts.entries)]
        return tuple(e.holding for e in entries if node is None or e.holding.node == node)

    # Care

    def recount(self, live: Iterable[str] | None = None, *, listed_at: int | None = None) -> tuple[Drift, ...]:
        """Compare the sums with a full recompute, repair them, and tell what was wrong.

        :param live: UIDs of all pods that exist and have not finished, from a list call: records of others are dropped.
        :param listed_at: ``changes`` as it was before that list call; what came later is not judged by the list.
        """
        # Sums are made outside the lock and compared node by node: a recount of a large cluster takes seconds.
        with self._lock:
            drifts = [] if live is None else self._accounts.drop_stale(set(live), listed_at)
            entries: dict[str, list[tuple[str, Entry]]] = {node: [] for node in self._accounts.books}
            for uid, entry in self._accounts.entries.items():
                entries[entry.holding.node].append((uid, entry))
            generations = {node: book.generation for node, book in self._accounts.books.items()}
        for node in sorted(entries):
            should: dict[DeviceId, dict[str, Usage]] = {}
            for uid, entry in entries[node]:
                for device, used in entry.peaks.items():
                    should.setdefault(device, {})[uid] = used
            sums = {device: total(holders.values()) for device, holders in should.items()}
            with self._lock:
                # A node that has changed meanwhile is judged next time.
                if self._accounts.books[node].generation == generations[node]:
                    drifts += self._accounts.repair_node(node, should, sums)
        with self._lock:
            self.drift_total += len(drifts)
        return tuple(drifts)

    def take_changed(self) -> Iterable[tuple[str, DeviceId | None]]:
        """Devices whose usage changed since the last call, by node; device ``None``: what is blocked on the node.

        For the one index that follows this one.
        """
        if not self._accounts.changed:
            return ()
        with self._lock:
            changed, self._accounts.changed = self._accounts.changed, set()
        return changed
