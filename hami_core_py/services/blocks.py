"""Devices that nothing is given of, because the record of a pod on them cannot be read."""

from collections.abc import Collection

from hami_core_py.decisions.nodes import NOT_BLOCKED, Blocked


class Blocks:
    """Which pod blocks what on which node. Whoever owns it serialises the calls."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, Blocked]] = {}
        self._node_of: dict[str, tuple[str, int]] = {}

    def put(self, uid: str, node: str, blocked: Blocked, since: int) -> None:
        """A pod that blocks nothing yet blocks something. :param since: a number that grows with time; see ``stale``."""
        self._by_node.setdefault(node, {})[uid] = blocked
        self._node_of[uid] = (node, since)

    def end(self, uid: str) -> str | None:
        """A pod blocks nothing any more. :returns: the node where it did; ``None``: nowhere."""
        node, _ = self._node_of.pop(uid, (None, 0))
        if node is not None:
            del self._by_node[node][uid]
            if not self._by_node[node]:
                del self._by_node[node]
        return node

    def of(self, uid: str, node: str) -> Blocked | None:
        """What a pod blocks on a node."""
        return self._by_node.get(node, {}).get(uid)

    def on(self, node: str, absent: Collection[str] = ()) -> Blocked:
        """What is blocked on a node by all pods but the absent ones."""
        blocks = self._by_node.get(node)
        if not blocks:
            return NOT_BLOCKED
        counted = [blocked for uid, blocked in blocks.items() if uid not in absent]
        return Blocked(
            devices=frozenset(d for b in counted for d in b.devices), whole_node=any(b.whole_node for b in counted)
        )

    def node_of(self, uid: str) -> str | None:
        """Where a pod blocks something."""
        found = self._node_of.get(uid)
        return found[0] if found else None

    def stale(self, live: Collection[str], before: int | None) -> list[tuple[str, str]]:
        """Pods that are not among the living ones, with their nodes, by UID.

        :param before: only those that came before this; ``None``: all.
        """
        return [
            (uid, node)
            for uid, (node, since) in sorted(self._node_of.items())
            if uid not in live and (before is None or since < before)
        ]
