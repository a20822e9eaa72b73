"""Which seats of a node one container's request of one family gets, beside what the pod's containers before it have taken."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hami_core_py.decisions import select
from hami_core_py.decisions.fit import Question, Standing, candidate, closed, fit, id_selected, kind_refused
from hami_core_py.decisions.room import Room, Seat
from hami_core_py.decisions.usage import add_share
from hami_core_py.errors import BackendError
from hami_core_py.models.answers import Candidate, Reason, Refusal
from hami_core_py.models.devices import no_facts

Refusals = tuple[Refusal, ...]


class Seating:
    """One container's request of one family: which seats it gets. Made for one request and thrown away."""

    def __init__(self, room: Room, question: Question, scores: Mapping[int, float]) -> None:
        self.room, self.question, self.scores = room, question, scores
        self.request = question.request
        self.members = room.members[question.family.name]
        self.refusals: list[Refusal] = []
        self.sees_all = question.combines or select.chooses_together(
            question.family.placing, room.policies, self.request.count
        )

    def seats(self) -> list[Seat] | Refusals:
        """Exactly as many seats as asked, or the refusals."""
        if not self.members:
            reason = self.room.node.closed.get(self.question.family.name, Reason.NO_DEVICES)
            return (self._node_refusal(reason, curable=False),)
        if by_node := self._node_refuses():
            return by_node
        if self._asks_too_many():
            return (self._node_refusal(Reason.TOO_FEW_DEVICES, usable=len(self.members), curable=False),)
        order = self._tried_in_order()
        groups: list[list[Seat]] = []
        near: int | None = None
        for position in order:
            device = self.room.devices[position]
            refused = closed(self.room.node, self.room.blocked, device) or kind_refused(device, self.question)
            if refused:
                self._strike(refused, position, self._standing(position))
                continue
            if not groups or (self.request.numa_bind and device.numa != near):
                groups.append([])  # whatever was picked so far is near another NUMA node
                near = device.numa
            seats = groups[-1]
            seats.extend(self._seats_of(position, self._still_wanted(seats)))
            if not self.sees_all and len(seats) >= self.request.count:
                return seats
        return self._choose(groups) if self.sees_all else self._too_few(groups)

    def _still_wanted(self, seats: Sequence[Seat]) -> int | None:
        return None if self.sees_all else self.request.count - len(seats)

    def _asks_too_many(self) -> bool:
        """More devices than there are; a device that can be cut may serve one container several times."""
        return self.request.count > len(self.members) and not any(self.room.devices[i].cells for i in self.members)

    def _node_refuses(self) -> Refusals:
        placing = self.question.family.placing
        if placing.counts is not None and self.request.count not in placing.counts:
            return (self._node_refusal(Reason.COUNT_NOT_ALLOWED, curable=False),)
        for rule in self.question.node_rules:
            try:
                refused = rule.refuses(self.room.node.view)
            except Exception:  # noqa: BLE001 - a stranger's rule may raise anything; it only strikes its own requests
                return (self._node_refusal(Reason.BACKEND_FAILED, curable=False),)
            if refused:
                return (self._node_refusal(rule.reason, detail=rule.sentence, curable=False),)
        return ()

    def _tried_in_order(self) -> list[int]:
        devices, usage = self.room.devices, self.room.usage
        # Equal devices keep the order of the container before, as the stable sort of v2.10 does.
        before = list(reversed(self.room.order[self.question.family.name]))
        ranked = {
            i: select.Ranked(self.scores[i], devices[i].numa, usage[i].slots, devices[i].index, place)
            for place, i in enumerate(before)
        }
        key = select.trial_order(self.room.policies.device, self.request.numa_bind)
        order = sorted(before, key=lambda i: key(ranked[i]))
        self.room.order[self.question.family.name] = order
        return order

    def _seats_of(self, position: int, wanted: int | None) -> list[Seat]:
        """Seats that one open device offers: one, or as many cuts as still have a place."""
        standing = self._standing(position)
        seats: list[Seat] = []
        if not id_selected(standing.device.id, self.request.selection):
            self._strike(Reason.NOT_SELECTED, position, standing)
            return seats
        while wanted is None or len(seats) < wanted:
            share = fit(self.question, standing)
            if isinstance(share, Reason):
                self._strike(share, position, standing)
                break
            seats.append((position, share))
            if not share.cells:
                break
            standing = replace(standing, now=add_share(standing.now, share))
        return seats

    def _standing(self, position: int) -> Standing:
        room, placing = self.room, self.question.family.placing
        device = room.devices[position]
        elsewhere = placing.one_device_per_pod and any(room.pod_shares[i] for i in self.members if i != position)
        group_used = 0
        if placing.mutex_group and (group := device.groups.get(placing.mutex_group)):
            group_used = sum(
                room.usage[i].slots for i in self.members if room.devices[i].groups.get(placing.mutex_group) == group
            )
        return Standing(
            device=device,
            before=room.usage[position],
            now=room.usage[position],
            pod_shares=room.pod_shares[position],
            pod_elsewhere=elsewhere,
            group_used=group_used,
            links=select.link_indexes(device, room.indexes) if device.links else no_facts(),
        )

    def _choose(self, groups: Sequence[list[Seat]]) -> list[Seat] | Refusals:
        """The best combination; with NUMA binding the best of all groups that have enough."""
        enough = [g for g in groups if len(g) >= self.request.count]
        refused: Refusals = ()
        best: list[Seat] | None = None
        for seats in enough:
            chosen = self._combine(seats)
            if isinstance(chosen, tuple):
                refused = refused or chosen
            elif best is None or self._linked(chosen) > self._linked(best):
                best = chosen
        if best is not None:
            return best
        return (*self.refusals, *refused) if refused else self._too_few(groups)

    def _linked(self, seats: Sequence[Seat]) -> int:
        devices = [self.room.devices[i] for i, _ in seats]
        return sum(a.links.get(b.id, 0) for n, a in enumerate(devices) for b in devices[n + 1 :])

    def _combine(self, seats: list[Seat]) -> list[Seat] | Refusals:
        count, placing, policies = self.request.count, self.question.family.placing, self.room.policies
        if self.question.combines:
            try:
                answer = self.room.ask.select_devices(self.request, self._candidates(seats))
            except BackendError as problem:
                return (self._node_refusal(Reason.BACKEND_FAILED, detail=str(problem)),)
            if isinstance(answer, Refusal):
                return (replace(answer, container=self.question.container),)
            if answer is not None:
                return [seats[i] for i in answer]
        devices = [self.room.devices[i] for i, _ in seats]
        if placing.whole_groups and count > 1:
            sizes: dict[str, int] = {}
            for i in self.members:
                if name := self.room.devices[i].groups.get(placing.whole_groups):
                    sizes[name] = sizes.get(name, 0) + 1
            whole = select.by_whole_groups(devices, count, placing.whole_groups, sizes)
            if whole is None:
                return (self._node_refusal(Reason.NO_COMBINATION, usable=len(seats)),)
            return [seats[i] for i in whole]
        if len(seats) > count and select.wants_links(policies):
            return [seats[i] for i in select.by_links(devices, count)]
        if len(seats) > count and placing.together:
            return [seats[i] for i in select.by_together(devices, count, placing.together)]
        return seats[:count]

    def _candidates(self, seats: Sequence[Seat]) -> tuple[Candidate, ...]:
        numbers = {i: n for n, i in enumerate(dict.fromkeys(i for i, _ in seats))}
        return tuple(candidate(self._standing(i), share, numbers[i]) for i, share in seats)

    def _too_few(self, groups: Sequence[list[Seat]]) -> Refusals:
        """Not enough seats: those found in NUMA nodes before the last one are struck for that, the rest is counted."""
        for group in groups[:-1]:
            for position, _ in group:
                self._strike(Reason.NUMA, position, self._standing(position))
        if groups and groups[-1]:
            self.refusals.append(self._node_refusal(Reason.TOO_FEW_DEVICES, usable=len(groups[-1])))
        return tuple(self.refusals)

    def _strike(self, reason: Reason, position: int, standing: Standing) -> None:
        describe = self.room.describe
        self.refusals.append(
            Refusal(
                reason=reason,
                device=self.room.devices[position].id,
                container=self.question.container,
                detail=describe(reason, self.question, standing) if describe else "",
                out_of=len(self.members),
            )
        )

    def _node_refusal(self, reason: Reason, *, usable: int = 0, detail: str = "", curable: bool = True) -> Refusal:
        return Refusal(
            reason=reason,
            container=self.question.container,
            detail=detail,
            usable=usable,
            out_of=len(self.members),
            curable=curable,
        )
