"""What every check has at hand: the plugin in a core of its own, and what its author says about it."""

import types
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

import pytest

from hami_core_py.codecs.requests import read_by_table
from hami_core_py.decisions.fit import Standing, candidate
from hami_core_py.hooks import hookimpl
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend, load_backends
from hami_core_py.models.allocations import PlacedPod
from hami_core_py.models.answers import Candidate
from hami_core_py.models.devices import IDLE, Device, Share
from hami_core_py.models.families import Family
from hami_core_py.models.requests import DeviceRequest
from hami_core_py.models.views import ContainerView, PodView
from hami_core_py.testing.builders import container, pod


class Capability(Enum):
    """What a backend says it can do; the suite then asks for it."""

    MEMORY_SHARES = "containers may ask for a part of a device's memory"
    CORE_SHARES = "containers may ask for a part of a device's compute"
    GRANTS = "our node agent serves its devices: it discovers them and answers what a container receives"
    METRICS = "it measures its devices"


class _Tables:
    """The core's answer where a backend has none."""

    @hookimpl(trylast=True)
    def hami_read_request(self, container: ContainerView, pod: PodView, family: Family) -> Sequence[DeviceRequest]:
        return read_by_table(container, pod, family)


class Scene:
    """The fixtures and what an author says; see ``BackendContract``."""

    plugin: ClassVar[Any] = None
    settings: ClassVar[Mapping[str, Any]] = types.MappingProxyType({})
    capabilities: ClassVar[set[Capability] | frozenset[Capability]] = frozenset()
    one_device: ClassVar[Mapping[str, str]] = types.MappingProxyType({})
    driver_modules: ClassVar[tuple[str, ...]] = ()
    has_hardware: ClassVar[bool] = False

    @pytest.fixture
    def devices(self) -> tuple[Device, ...]:
        """Devices of the family that ``one_device`` asks for; at least two for a family that can combine some."""
        return ()

    @pytest.fixture
    def name(self) -> str:
        """The plugin's name."""
        return str(self.plugin.hami_backend().name)

    @pytest.fixture
    def ask(self, name: str) -> Ask:
        """A core with this plugin alone."""
        section = self.plugin.hami_backend().section or name
        sections = {section: dict(self.settings)} if self.settings else {}
        backends = load_backends(plugins=[(name, self.plugin)], sections=sections, defaults=_Tables())
        assert not backends.left_out, backends.left_out
        return Ask(backends)

    @pytest.fixture
    def backend(self, ask: Ask) -> LoadedBackend:
        """The plugin as the core sees it."""
        return ask.backends.loaded[0]

    @pytest.fixture
    def family(self, backend: LoadedBackend) -> Family:
        """The family that ``one_device`` asks for."""
        named = set(self.one_device)
        found = [f for f in backend.families if named & set(f.resources.names())]
        if not found:
            pytest.skip("the plugin owns no family that one_device asks for")
        return found[0]

    @pytest.fixture
    def request_(self, ask: Ask, family: Family) -> DeviceRequest:
        """What ``one_device`` asks for."""
        answer = ask.read_request(*self.asking(), family)
        assert len(answer) == 1, f"one_device must be one request of {family.name}, got {answer}"
        return answer[0]

    @pytest.fixture
    def mine(self, devices: Sequence[Device], family: Family) -> tuple[Device, ...]:
        """The given devices of that family."""
        found = tuple(d for d in devices if d.family == family.name)
        if not found:
            pytest.skip("no devices of the family are given")
        return found

    @pytest.fixture
    def candidates(self, mine: Sequence[Device]) -> tuple[Candidate, ...]:
        """An idle seat on each of these devices."""
        return tuple(seat(device, i) for i, device in enumerate(mine))

    @pytest.fixture
    def placed(self, mine: Sequence[Device], family: Family) -> PlacedPod:
        """A pod whose second container has a share of the first device."""
        return PlacedPod(
            uid="uid-default-train",
            namespace="default",
            name="train",
            node="n1",
            family=family.name,
            at_ns=1_700_000_000_000_000_000,
            containers=((), ((mine[0], share_of(mine[0])),)),
        )

    def asking(self, **amounts: str) -> tuple[ContainerView, PodView]:
        """A container that asks for one device, with these amounts instead, and its pod."""
        asking = container(limits={**self.one_device, **amounts})
        return asking, pod(asking)


def seat(device: Device, number: int) -> Candidate:
    """An idle seat on a device."""
    return candidate(Standing(device=device, before=IDLE, now=IDLE), share_of(device), number)


def share_of(device: Device) -> Share:
    """Half of a device, or its first profile."""
    profile = device.profiles[0] if device.profiles else None
    if profile is not None:
        return Share(
            memory_mib=profile.memory_mib,
            core_units=profile.core_units,
            profile=profile.name,
            start=next(iter(profile.starts), None),
            cells=profile.cells,
        )
    return Share(memory_mib=device.memory_mib // 2, core_units=device.core_units // 2)
