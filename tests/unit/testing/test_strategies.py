"""The kit's strategies cover the models and keep to what the core could have made."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hami_core_py.codecs.requests import read_by_table
from hami_core_py.models import allocations, answers, devices, requests, samples, views
from hami_core_py.models.devices import Device
from hami_core_py.models.views import PodView
from hami_core_py.testing import strategies
from hami_core_py.testing.builders import family


def models() -> list[type[Any]]:
    found = []
    for module in (allocations, answers, devices, requests, samples, views):
        values = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
        found += [value for value in values if dataclasses.is_dataclass(value)]
    return found


@pytest.mark.parametrize("model", models(), ids=lambda m: m.__name__)
def test_every_model_has_a_strategy_that_makes_it(model: type[Any]) -> None:
    @settings(max_examples=5, deadline=None, database=None)
    @given(strategies.STRATEGIES[model])
    def draw(value: object) -> None:
        assert isinstance(value, model)

    draw()


@settings(max_examples=50, deadline=None, database=None)
@given(st.data(), strategies.devices())
def test_share_of_a_device_fits_it_when_it_is_idle(data: st.DataObject, device: Device) -> None:
    share = data.draw(strategies.shares(device))
    assert share.memory_mib <= device.memory_mib
    assert share.core_units <= device.core_units
    assert share.mask < 2 ** max(1, device.cells)


@settings(max_examples=50, deadline=None, database=None)
@given(strategies.pods())
def test_pod_can_be_read_and_its_early_containers_come_first(pod: PodView) -> None:
    kinds = [container.kind is requests.ContainerKind.APP for container in pod.containers]
    assert kinds == sorted(kinds)
    for container in pod.containers:
        read_by_table(container, pod, family())
