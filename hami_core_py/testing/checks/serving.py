"""Checks of what a plugin does on a node and in the monitor."""

from collections.abc import Sequence

import pytest

from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend, load_backends
from hami_core_py.models.devices import Device
from hami_core_py.testing.builders import allocation
from hami_core_py.testing.checks.scene import Capability, Scene, share_of

UNITS = ("_bytes", "_seconds", "_ratio", "_celsius", "_watts", "_joules", "_hertz", "_total", "_info", "_count")
"""Endings of metric names, as base units are written."""


class NodeChecks(Scene):
    """Discovery, grants and metrics."""

    def test_without_hardware_it_discovers_nothing(self, name: str) -> None:
        if self.has_hardware:
            pytest.skip("this machine may have its hardware")
        alone = Ask(load_backends(plugins=[(name, self.plugin)]))
        assert alone.discover_devices(alone.backends.loaded[0]) == ()

    def test_discovered_devices_are_of_its_own_families(self, ask: Ask, backend: LoadedBackend) -> None:
        found = ask.discover_devices(backend)
        own = {family.name for family in backend.families}
        assert backend.info.stands_in or {device.family for device in found} <= own
        assert len({device.id for device in found}) == len(found)

    def test_same_allocation_gives_the_same_grant(self, ask: Ask, mine: Sequence[Device]) -> None:
        if Capability.GRANTS not in self.capabilities:
            pytest.skip("it serves no devices through our node agent")
        first, last = (allocation((device, share_of(device))) for device in (mine[0], mine[-1]))
        grant = ask.allocate(first)
        ask.allocate(last)
        assert ask.allocate(first) == grant
        assert grant.env or grant.device_paths or grant.mounts or grant.cdi_devices

    def test_grant_overrides_what_closes_a_container(self, ask: Ask, mine: Sequence[Device]) -> None:
        closing = self.plugin.hami_backend().closing_env
        if Capability.GRANTS not in self.capabilities or not closing:
            pytest.skip("it closes no containers")
        grant = ask.allocate(allocation((mine[0], share_of(mine[0]))))
        assert grant.cdi_devices or all(grant.env.get(name, value) != value for name, value in closing.items())

    def test_metrics_carry_units_and_vanish_with_their_pod(
        self, ask: Ask, backend: LoadedBackend, devices: Sequence[Device]
    ) -> None:
        live = [allocation((device, share_of(device)), pod="short-lived") for device in devices[:1]]
        samples = ask.collect_metrics(backend, live)
        for sample in (*samples, *ask.collect_metrics(backend, ())):
            assert sample.name.endswith(UNITS), sample.name
            assert sample.help
        assert not [s for s in ask.collect_metrics(backend, ()) if "short-lived" in s.labels.values()]
        if Capability.METRICS in self.capabilities and devices:
            assert samples or not self.has_hardware
