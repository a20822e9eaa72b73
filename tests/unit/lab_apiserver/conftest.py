from __future__ import annotations

import pytest

from hami_core_py.lab.apiserver import Store


class Clock:
    """Time that passes only when told to."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    store = Store(clock=clock, seed=7)
    store.seed_defaults()
    return store
