"""What the ledger keeps: every pod's holding, charged in the book of its node."""

from hami_core_py.decisions.usage import total
from hami_core_py.models.devices import IDLE, DeviceId, Usage
from hami_core_py.services.blocks import Blocks
from hami_core_py.services.holding import Drift, Entry, Holding, State
from hami_core_py.services.node_book import NodeBook


class Accounts:
    """Pod → shares, and node → device → usage, changed by deltas. Whoever owns it serialises the calls.

    :ivar entries: what each pod holds, by UID; ``reserved``: those of them that rest on no record.
    :ivar changed: node and device of what changed and was not taken yet; device ``None``: what is blocked on the node.
    :ivar changes: grows with every change; ``freed``: with every one after which there may be more room somewhere.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.reserved: dict[str, Entry] = {}
        self.books: dict[str, NodeBook] = {}
        self.blocks = Blocks()
        self.changed: set[tuple[str, DeviceId | None]] = set()
        self.changes = 0
        self.freed = 0

    def put(self, uid: str, holding: Holding, state: State, deadline: float | None) -> None:
        """Charge what a pod holds, in place of what it held."""
        entry = Entry(holding, holding.peaks(), state, deadline, self.changes)
        old = self._take_out(uid)
        if old is not None and (old.holding.node, old.peaks) != (holding.node, entry.peaks):
            self.freed += 1
        self.entries[uid] = entry
        if state is not State.BOUND:
            self.reserved[uid] = entry
        self.books.setdefault(holding.node, NodeBook()).charge(uid, entry.peaks)
        self.changed.update((holding.node, device) for device in entry.peaks)
        self.changes += 1

    def drop(self, uid: str) -> None:
        """Give back all that a pod holds, if it holds anything."""
        if self._take_out(uid) is not None:
            self.freed += 1

    def _take_out(self, uid: str) -> Entry | None:
        entry = self.entries.pop(uid, None)
        self.reserved.pop(uid, None)
        if entry is not None:
            node = entry.holding.node
            self.books[node].discharge(uid, entry.peaks)
            self.changed.update((node, device) for device in entry.peaks)
            self.changes += 1
        return entry

    def unblock(self, uid: str) -> None:
        """The pod blocks nothing any more."""
        node = self.blocks.end(uid)
        if node is not None:
            self.touch(node, None)

    def touch(self, node: str, device: DeviceId | None) -> None:
        """Something of a node has changed, and there may be more room. ``None``: what is blocked on it."""
        self.books.setdefault(node, NodeBook()).generation += 1
        self.changes += 1
        self.freed += 1
        self.changed.add((node, device))

    def yielding(self, priority: int | None) -> list[Entry]:
        """Assumed reservations of pods below a priority; ``None``: of none."""
        if priority is None:
            return []
        return [e for e in self.reserved.values() if e.state is State.ASSUMED and e.holding.priority < priority]

    def drop_stale(self, live: set[str], listed_at: int | None) -> list[Drift]:
        """Forget records of pods that are not among the living; see ``Ledger.recount``."""
        drifts = []
        for uid, entry in sorted(self.entries.items()):
            if entry.state is State.BOUND and uid not in live and (listed_at is None or entry.since < listed_at):
                pod = f"{entry.holding.namespace}/{entry.holding.name}"
                drifts.append(Drift(node=entry.holding.node, pod=pod, had=total(entry.peaks.values())))
                self.drop(uid)
        for uid, node in self.blocks.stale(live, listed_at):
            drifts.append(Drift(node=node, pod=uid))
            self.unblock(uid)
        return drifts

    def repair_node(
        self, node: str, should: dict[DeviceId, dict[str, Usage]], sums: dict[DeviceId, Usage]
    ) -> list[Drift]:
        """Put a node's sums right. :param should: device → pod → what it is charged. :param sums: their totals."""
        book = self.books[node]
        wrong = sorted(d for d in {*sums, *book.usage} if sums.get(d, IDLE) != book.usage.get(d, IDLE))
        drifts = [Drift(node=node, device=d, had=book.usage.get(d, IDLE), should=sums.get(d, IDLE)) for d in wrong]
        if wrong:
            book.put_right(sums, should)
            for device in wrong:
                self.touch(node, device)
        return drifts
