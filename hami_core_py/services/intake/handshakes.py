"""The v2.10 handshake: the scheduler writes a request into a node annotation, and a living plugin overwrites it.

Only nodes that publish a family's inventory are asked, in the background: no decision waits for the write.
"""

import time
from collections.abc import Callable

from hami_core_py.codecs.handshake import render_request
from hami_core_py.decisions.handshake import NEVER_SEEN, Seen, look
from hami_core_py.models.families import Family, Handshake
from hami_core_py.models.views import NodeView

ASK_AGAIN_SECONDS = 30.0
"""A request that has been sent is not sent again before this, whether or not the node event came back by then."""


class Handshakes:
    """Judges nodes by their handshakes and asks those whose turn it is. Safe for threads, one node at a time.

    :param write: queues one annotation: node, key, text. Must not block.
    :param clock_ns: nanoseconds since the Unix epoch.
    """

    def __init__(self, write: Callable[[str, str, str], None], *, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._write, self._clock_ns = write, clock_ns
        self._seen: dict[tuple[str, str], Seen] = {}
        self._asked_ns: dict[tuple[str, str], int] = {}

    def __call__(self, node: NodeView, family: Family, handshake: Handshake) -> bool:
        """Whether the family's plugin on the node is taken for alive."""
        place, now_ns = (node.name, family.name), self._clock_ns()
        pulse, self._seen[place] = look(node, family, self._seen.get(place, NEVER_SEEN), now_ns)
        if pulse.asks and now_ns - self._asked_ns.get(place, 0) > ASK_AGAIN_SECONDS * 1e9:
            self._asked_ns[place] = now_ns
            self._write(node.name, handshake.key, render_request(now_ns))
        return pulse.alive

    def forget(self, node: str) -> None:
        """A node is gone."""
        for place in [place for place in list(self._seen) if place[0] == node]:
            self._seen.pop(place, None)
            self._asked_ns.pop(place, None)
