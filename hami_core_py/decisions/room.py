"""A node as it fills up while one pod is placed on it, container by container."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from hami_core_py.decisions import select
from hami_core_py.decisions.fit import Question, Standing
from hami_core_py.decisions.nodes import Blocked, NodeState
from hami_core_py.decisions.usage import add_share
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import IDLE, DeviceId, Share, Usage
from hami_core_py.models.requests import Policies

Describe = Callable[[Reason, Question, Standing], str]
"""Renders the numbers behind one refusal; only explain asks for it."""

Seat = tuple[int, Share]
"""Position of a device in the room's list, and the share it would give."""

Taken = tuple[list[Usage], list[int], dict[str, list[int]]]
"""What a room has given so far: usage and the pod's own shares by device, and the order in which devices were tried."""


class Room:
    """A node while one pod is placed on it: what each device has left, beside what the pod's requests so far were given."""

    def __init__(
        self,
        node: NodeState,
        usage: Mapping[DeviceId, Usage],
        families: Iterable[str],
        policies: Policies,
        ask: Ask,
        *,
        blocked: Blocked,
        describe: Describe | None,
    ) -> None:
        self.node, self.policies, self.ask, self.blocked, self.describe = node, policies, ask, blocked, describe
        self.devices = node.devices
        self.usage = [usage.get(d.id, IDLE) for d in self.devices]
        self.pod_shares = [0] * len(self.devices)
        self.members = {f: [i for i, d in enumerate(self.devices) if d.family == f] for f in families}
        self.indexes = {d.id: d.index for d in self.devices}
        self.order = {f: list(reversed(members)) for f, members in self.members.items()}

    def take(self, seats: Sequence[Seat]) -> None:
        """Count seats as given to the pod."""
        for position, share in seats:
            self.usage[position] = add_share(self.usage[position], share)
            self.pod_shares[position] += 1

    def taken(self) -> Taken:
        """What has been given so far, to come back to."""
        return list(self.usage), list(self.pod_shares), {f: list(o) for f, o in self.order.items()}

    def back_to(self, taken: Taken) -> None:
        """Forget what was given since."""
        self.usage, self.pod_shares, self.order = taken

    def scores(self, family: str) -> dict[int, float]:
        """Score of each device of a family as it stands now, by position."""
        weights = self.policies.weights
        return {i: float(select.card_score(self.devices[i], self.usage[i], weights)) for i in self.members[family]}
