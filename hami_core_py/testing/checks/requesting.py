"""Checks of what a plugin makes of containers."""

from dataclasses import replace

import pytest

from hami_core_py.errors import RequestError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.models.families import Family
from hami_core_py.models.requests import WHOLE_DEVICE, DeviceRequest
from hami_core_py.models.views import ContainerView, PodView
from hami_core_py.testing.builders import container, pod
from hami_core_py.testing.checks.scene import Capability, Scene
from hami_core_py.testing.recording import frozen

NEVER_RIGHT = ("-1", "many", "9999999999999", "1.5")
"""Amounts that no resource of a device can have."""


class RequestChecks(Scene):
    """Admission and requests."""

    def test_container_that_names_none_of_its_resources_asks_nothing(self, ask: Ask) -> None:
        stranger = container(limits={"cpu": "1", "stranger.example/device": "1"})
        for family in ask.families.values():
            assert ask.read_request(stranger, pod(stranger), family) == ()

    def test_count_of_zero_asks_nothing(self, ask: Ask, family: Family) -> None:
        assert ask.read_request(*self.asking(**{family.resources.count: "0"}), family) == ()

    def test_one_device_is_read(self, request_: DeviceRequest, family: Family) -> None:
        assert (request_.family, request_.count >= 1) == (family.name, True)

    @pytest.mark.parametrize("amount", NEVER_RIGHT)
    @pytest.mark.parametrize("role", ["count", "memory", "memory_percent", "core"])
    def test_bad_amount_is_refused_and_its_resource_named(
        self, ask: Ask, backend: LoadedBackend, family: Family, role: str, amount: str
    ) -> None:
        resource = getattr(family.resources, role)
        if resource is None:
            pytest.skip("the family has no such resource")
        others = {} if role == "count" else {family.resources.count: "1"}
        asking = container(limits={**others, resource: amount})
        answer = refusal(ask, backend, asking, family)
        assert answer is not None, f"{resource}: {amount!r} is accepted"
        assert resource in answer

    def test_admitting_twice_equals_admitting_once(self, ask: Ask, backend: LoadedBackend) -> None:
        if not self.one_device:
            pytest.skip("it asks for nothing")
        once = admitted(ask, backend, *self.asking())
        assert frozen(admitted(ask, backend, once, pod(once))) == frozen(once)

    def test_parts_of_memory_can_be_asked(self, ask: Ask, family: Family) -> None:
        if Capability.MEMORY_SHARES not in self.capabilities:
            pytest.skip("no memory shares")
        assert family.resources.memory is not None
        asks = [ask.read_request(*self.asking(**{family.resources.memory: a}), family)[0].memory for a in ("1", "2")]
        assert WHOLE_DEVICE not in asks

    def test_parts_of_compute_can_be_asked(self, ask: Ask, family: Family) -> None:
        if Capability.CORE_SHARES not in self.capabilities:
            pytest.skip("no core shares")
        assert family.resources.core is not None
        asks = [ask.read_request(*self.asking(**{family.resources.core: a}), family)[0].core for a in ("10", "20")]
        assert asks[0] != asks[1]


def refusal(ask: Ask, backend: LoadedBackend, asking: ContainerView, family: Family) -> str | None:
    """What the webhook would refuse the container with; ``None``: it would admit it."""
    try:
        admission = ask.admit_container(backend, asking, pod(asking))
        if admission.denied is None:
            ask.read_request(asking, pod(asking), family)
    except RequestError as problem:
        return str(problem)
    return admission.denied


def admitted(ask: Ask, backend: LoadedBackend, asking: ContainerView, its_pod: PodView) -> ContainerView:
    admission = ask.admit_container(backend, asking, its_pod)
    assert admission.denied is None, admission.denied
    env = {**asking.env, **admission.env}
    return replace(
        asking,
        limits={**asking.limits, **admission.limits},
        requests={**asking.requests, **admission.requests},
        env=env,
        env_names=frozenset(env),
    )
