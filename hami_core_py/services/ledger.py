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
from hami_core_py.services.blocks import Blocks
from hami_core_py.services.holding import Drift, Entry, Holding, Reservation, State, recorded_shares
from hami_core_py.services.node_book import NodeBook


class Ledger:
    """Pod → shares, and node → device → usage. All changes happen under one lock."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[str, Entry] = {}
        self._reserved: dict[str, Entry] = {}
        self._books: dict[str, NodeBook] = {}
        self._blocks = Blocks()
        self._changed: set[tuple[str, DeviceId | None]] = set()
        self._changes = 0
        self._freed = 0
        self.drift_total = 0

    # Records of pods

    def apply(self, uid: str, holding: Holding) -> None:
        """Take over a pod's record; it replaces what was known of the pod, a reservation included. Twice is once."""
        with self._lock:
            self._unblock(uid)
            if holding.finished or not holding.node:
                self._drop(uid)
                return
            old = self._entries.get(uid)
            if old is not None and old.state is State.BOUND and old.holding == holding:
                return
            self._put(uid, holding, State.BOUND, None)

    def remove(self, uid: str) -> None:
        """Forget a pod and all it held; forgetting an unknown one changes nothing."""
        with self._lock:
            self._unblock(uid)
            self._drop(uid)

    def block(self, uid: str, node: str, devices: Iterable[DeviceId] = (), why: str = "") -> None:  # noqa: ARG002
        """A pod's record cannot be read: give nothing of its devices, or of its whole node when none is known.

        Shares known from an earlier record of the pod stay charged. It ends with a readable record or the pod's end.
        """
        with self._lock:
            blocked = Blocked(devices=frozenset(devices), whole_node=not devices)
            if self._blocks.of(uid, node) == blocked:
                return
            self._unblock(uid)
            self._blocks.put(uid, node, blocked, self._changes)
            self._touch(node, None)

    # Usage

    def usage(self, node: str) -> Mapping[DeviceId, Usage]:
        """Usage of the devices of one node that are in use; a snapshot."""
        with self._lock:
            book = self._books.get(node)
            return dict(book.usage) if book else no_facts()

    def usage_of(self, node: str, device: DeviceId) -> Usage:
        """Usage of one device."""
        with self._lock:
            book = self._books.get(node)
            return book.usage.get(device, IDLE) if book else IDLE

    def blocked(self, node: str) -> Blocked:
        """Devices of the node whose usage is not known."""
        with self._lock:
            return self._blocks.on(node)

    def generation(self, node: str) -> int:
        """Grows with every change of the node's usage; a decision is stale when it has grown since."""
        with self._lock:
            book = self._books.get(node)
            return book.generation if book else 0

    @property
    def changes(self) -> int:
        """Grows with every change of anything; see ``recount``."""
        return self._changes

    @property
    def freed(self) -> int:
        """Grows with every change after which there may be more room somewhere."""
        return self._freed

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
            book = self._books.get(node)
            if book is None:
                return no_facts(), self._blocks.on(node, absent), 0
            absent.update(e.holding.uid for e in self._yielding(priority) if e.holding.node == node)
            return book.without(absent), self._blocks.on(node, absent), book.generation

    def nodes_seen_otherwise(self, uid: str, priority: int) -> frozenset[str]:
        """Nodes that a pod sees emptier than they are counted: its own holding and reservations that yield to it."""
        with self._lock:
            nodes = {e.holding.node for e in self._yielding(priority)}
            if own := self._entries.get(uid):
                nodes.add(own.holding.node)
            if blocked_on := self._blocks.node_of(uid):
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
            old = self._entries.get(uid)
            if old is not None and old.state is State.BOUND:
                return Refusal(reason=Reason.ALREADY_BOUND, detail=f"holds shares on node {old.holding.node}")
            book = self._books.get(placement.node)
            if (book.generation if book else 0) != generation:
                return Refusal(reason=Reason.STALE, detail="the node has changed since the decision")
            taken = {share.device for share in holding.shares}
            for entry in self._yielding(request.priority):
                if entry.holding.node == placement.node and not taken.isdisjoint(entry.peaks):
                    self._drop(entry.holding.uid)
            self._put(uid, holding, state, deadline)
            return None

    def settle(self, uid: str) -> bool:
        """The Binding is known to have happened: what was reserved is held until the pod's record arrives, and after."""
        with self._lock:
            entry = self._reserved.pop(uid, None)
            if entry is None:
                return False
            self._entries[uid] = replace(entry, state=State.BOUND, deadline=None)
            return True

    def release(self, uid: str) -> bool:
        """End a reservation; a pod's record is not touched. :returns: whether there was one."""
        with self._lock:
            if uid not in self._reserved:
                return False
            self._drop(uid)
            return True

    def expire(self, now: float) -> tuple[str, ...]:
        """End assumed reservations whose deadline has come. :returns: their pods' UIDs, sorted."""
        with self._lock:
            due = sorted(
                uid
                for uid, e in self._reserved.items()
                if e.state is State.ASSUMED and e.deadline is not None and e.deadline <= now
            )
            for uid in due:
                self._drop(uid)
            return tuple(due)

    def reservation(self, uid: str) -> Reservation | None:
        """A pod's reservation; ``None`` when it has none, or its record has replaced it."""
        with self._lock:
            entry = self._reserved.get(uid)
            return entry.shown() if entry else None

    def reservations(self) -> tuple[Reservation, ...]:
        """All reservations, by pod UID."""
        with self._lock:
            return tuple(self._reserved[uid].shown() for uid in sorted(self._reserved))

    def holding(self, uid: str) -> Holding | None:
        """What a pod holds, by record or reservation."""
        with self._lock:
            entry = self._entries.get(uid)
            return entry.holding if entry else None

    def holdings(self, node: str | None = None) -> tuple[Holding, ...]:
        """All holdings, or those of one node, by pod UID."""
        with self._lock:
            entries = [self._entries[uid] for uid in sorted(self._entries)]
        return tuple(e.holding for e in entries if node is None or e.holding.node == node)

    # Care

    def recount(self, live: Iterable[str] | None = None, *, listed_at: int | None = None) -> tuple[Drift, ...]:
        """Compare the sums with a full recompute, repair them, and tell what was wrong.

        :param live: UIDs of all pods that exist and have not finished, from a list call: records of others are dropped.
        :param listed_at: ``changes`` as it was before that list call; what came later is not judged by the list.
        """
        # Sums are made outside the lock and compared node by node: a recount of a large cluster takes seconds.
        with self._lock:
            drifts = [] if live is None else self._drop_stale(set(live), listed_at)
            entries: dict[str, list[tuple[str, Entry]]] = {node: [] for node in self._books}
            for uid, entry in self._entries.items():
                entries[entry.holding.node].append((uid, entry))
            generations = {node: book.generation for node, book in self._books.items()}
        for node in sorted(entries):
            should: dict[DeviceId, dict[str, Usage]] = {}
            for uid, entry in entries[node]:
                for device, used in entry.peaks.items():
                    should.setdefault(device, {})[uid] = used
            sums = {device: total(holders.values()) for device, holders in should.items()}
            with self._lock:
                # A node that has changed meanwhile is judged next time.
                if self._books[node].generation == generations[node]:
                    drifts += self._repair_node(node, should, sums)
        with self._lock:
            self.drift_total += len(drifts)
        return tuple(drifts)

    def take_changed(self) -> Iterable[tuple[str, DeviceId | None]]:
        """Devices whose usage changed since the last call, by node; device ``None``: what is blocked on the node.

        For the one index that follows this one.
        """
        if not self._changed:
            return ()
        with self._lock:
            changed, self._changed = self._changed, set()
        return changed

    # Inside the lock

    def _put(self, uid: str, holding: Holding, state: State, deadline: float | None) -> None:
        entry = Entry(holding, holding.peaks(), state, deadline, self._changes)
        old = self._take_out(uid)
        if old is not None and (old.holding.node, old.peaks) != (holding.node, entry.peaks):
            self._freed += 1
        self._entries[uid] = entry
        if state is not State.BOUND:
            self._reserved[uid] = entry
        self._books.setdefault(holding.node, NodeBook()).charge(uid, entry.peaks)
        self._changed.update((holding.node, device) for device in entry.peaks)
        self._changes += 1

    def _drop(self, uid: str) -> None:
        if self._take_out(uid) is not None:
            self._freed += 1

    def _take_out(self, uid: str) -> Entry | None:
        entry = self._entries.pop(uid, None)
        self._reserved.pop(uid, None)
        if entry is not None:
            node = entry.holding.node
            self._books[node].discharge(uid, entry.peaks)
            self._changed.update((node, device) for device in entry.peaks)
            self._changes += 1
        return entry

    def _unblock(self, uid: str) -> None:
        node = self._blocks.end(uid)
        if node is not None:
            self._touch(node, None)

    def _touch(self, node: str, device: DeviceId | None) -> None:
        self._books.setdefault(node, NodeBook()).generation += 1
        self._changes += 1
        self._freed += 1
        self._changed.add((node, device))

    def _yielding(self, priority: int | None) -> list[Entry]:
        if priority is None:
            return []
        return [e for e in self._reserved.values() if e.state is State.ASSUMED and e.holding.priority < priority]

    def _drop_stale(self, live: set[str], listed_at: int | None) -> list[Drift]:
        drifts = []
        for uid, entry in sorted(self._entries.items()):
            if entry.state is State.BOUND and uid not in live and (listed_at is None or entry.since < listed_at):
                pod = f"{entry.holding.namespace}/{entry.holding.name}"
                drifts.append(Drift(node=entry.holding.node, pod=pod, had=total(entry.peaks.values())))
                self._drop(uid)
        for uid, node in self._blocks.stale(live, listed_at):
            drifts.append(Drift(node=node, pod=uid))
            self._unblock(uid)
        return drifts

    def _repair_node(
        self, node: str, should: dict[DeviceId, dict[str, Usage]], sums: dict[DeviceId, Usage]
    ) -> list[Drift]:
        book = self._books[node]
        wrong = sorted(d for d in {*sums, *book.usage} if sums.get(d, IDLE) != book.usage.get(d, IDLE))
        drifts = [Drift(node=node, device=d, had=book.usage.get(d, IDLE), should=sums.get(d, IDLE)) for d in wrong]
        if wrong:
            book.put_right(sums, should)
            for device in wrong:
                self._touch(node, device)
        return drifts
