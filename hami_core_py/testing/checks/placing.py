"""Checks that the core's common rules hold for the plugin's devices, whatever rules of its own come beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hami_core_py.decisions.nodes import NodeState
from hami_core_py.decisions.placement import Walk
from hami_core_py.decisions.plan import compile_plan
from hami_core_py.decisions.requests import read_pod_request
from hami_core_py.decisions.seating import Refusals
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Placement
from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import Device, DeviceId, Health
from hami_core_py.models.families import Family
from hami_core_py.models.requests import Policies
from hami_core_py.testing.builders import node
from hami_core_py.testing.checks.scene import Scene


class PlacementChecks(Scene):
    """Which of two devices the container that asks for one is given."""

    @pytest.fixture
    def two(self, mine: Sequence[Device]) -> tuple[Device, Device]:
        """The first two of the given devices."""
        if len(mine) < 2:
            pytest.skip("fewer than two devices of the family are given")
        return mine[0], mine[1]

    def test_unhealthy_device_is_never_chosen(self, ask: Ask, two: tuple[Device, Device]) -> None:
        ill, well = replace(two[0], health=Health.UNHEALTHY), two[1]
        assert self._chosen(ask, (ill, well)) == well.id
        assert self._refused(ask, (ill,)) == {ill.id: Reason.UNHEALTHY}

    def test_cordoned_device_is_never_chosen(self, ask: Ask, two: tuple[Device, Device]) -> None:
        closed, other = two
        assert self._chosen(ask, two, cordoned=closed) == other.id
        assert self._refused(ask, (closed,), cordoned=closed) == {closed.id: Reason.CORDONED}

    def test_wanted_and_unwanted_ids_are_obeyed(self, ask: Ask, family: Family, two: tuple[Device, Device]) -> None:
        keys = family.selectors
        if not (keys.ids and keys.not_ids):
            pytest.skip("no annotations select devices of the family by id")
        for wanted, other in (two, two[::-1]):
            assert self._chosen(ask, two, {keys.ids[0]: f" {wanted.id} "}) == wanted.id
            assert self._chosen(ask, two, {keys.not_ids[0]: f"{other.id},"}) == wanted.id
            both = {keys.ids[0]: wanted.id, keys.not_ids[0]: wanted.id}
            assert set(self._refused(ask, two, both).values()) == {Reason.NOT_SELECTED}

    def _chosen(
        self,
        ask: Ask,
        devices: Sequence[Device],
        annotations: Mapping[str, str] | None = None,
        cordoned: Device | None = None,
    ) -> DeviceId:
        placed = self._placed(ask, devices, annotations or {}, cordoned)
        assert isinstance(placed, Placement), placed
        ((chosen, _),) = placed.containers[0].pairs
        return chosen.id

    def _refused(
        self,
        ask: Ask,
        devices: Sequence[Device],
        annotations: Mapping[str, str] | None = None,
        cordoned: Device | None = None,
    ) -> dict[DeviceId | None, Reason]:
        placed = self._placed(ask, devices, annotations or {}, cordoned)
        assert not isinstance(placed, Placement), placed
        return {refusal.device: refusal.reason for refusal in placed}

    def _placed(
        self, ask: Ask, devices: Sequence[Device], annotations: Mapping[str, str], cordoned: Device | None
    ) -> Placement | Refusals:
        asking = replace(self.asking()[1], annotations=annotations)
        plan = compile_plan(read_pod_request(asking, ask, Policies()), asking, ask)
        shut = frozenset({cordoned.id} if cordoned else ())
        return Walk(plan, NodeState(name="n1", view=node(), devices=tuple(devices), cordoned=shut), {}, ask).place()
