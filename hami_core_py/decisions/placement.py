"""One pod on one node, container by container: the exact walk that everything else is measured against."""

from collections.abc import Mapping

from hami_core_py.decisions.nodes import NOT_BLOCKED, Blocked, NodeState
from hami_core_py.decisions.plan import ContainerPlan, Plan
from hami_core_py.decisions.room import Describe, Room, Seat
from hami_core_py.decisions.seating import Refusals, Seating
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import ContainerPlacement, Placement
from hami_core_py.models.answers import Reason, Refusal
from hami_core_py.models.devices import DeviceId, Usage
from hami_core_py.models.requests import ContainerKind


class Walk:
    """Places one pod on one node. Made for one call and thrown away."""

    def __init__(
        self,
        plan: Plan,
        node: NodeState,
        usage: Mapping[DeviceId, Usage],
        ask: Ask,
        *,
        blocked: Blocked = NOT_BLOCKED,
        describe: Describe | None = None,
    ) -> None:
        self.plan, self.node = plan, node
        self.room = Room(node, usage, plan.families, plan.policies, ask, blocked=blocked, describe=describe)

    def place(self) -> Placement | Refusals:
        """The shares of all containers, or why the first container that does not fit is refused.

        An ordinary init container is placed beside the sidecars started before it, and is gone before the next container
        comes; sidecars and app containers stay.
        """
        if self.plan.unknown:
            return tuple(Refusal(reason=Reason.NO_DEVICES, detail=f, curable=False) for f in self.plan.unknown)
        placed = []
        for container in self.plan.containers:
            before = self.room.taken() if container.kind is ContainerKind.INIT else None
            seats = self._seat(container)
            if isinstance(seats, tuple):
                return seats
            if before is not None:
                self.room.back_to(before)
            pairs = tuple((self.node.devices[position], share) for position, share in seats)
            placed.append(ContainerPlacement(name=container.name, kind=container.kind, pairs=pairs))
        return Placement(node=self.node.name, containers=tuple(placed))

    def _seat(self, container: ContainerPlan) -> list[Seat] | Refusals:
        # v2.10 scores once per container, before any of its families is served.
        scores = {f: self.room.scores(f) for f in {q.family.name for q in container.questions}}
        picked: list[Seat] = []
        for question in container.questions:
            seats = Seating(self.room, question, scores[question.family.name]).seats()
            if isinstance(seats, tuple):
                return seats
            self.room.take(seats)
            picked.extend(seats)
        return picked
