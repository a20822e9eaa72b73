from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hami_core_py.hooks.ask import Ask
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.services.scheduling.assembly import Options
from tests.integration.scheduler.world import World, acme_ask


@pytest.fixture
def api() -> Iterator[ApiServer]:
    with ApiServer() as server:
        yield server


@pytest.fixture
def make_world(api: ApiServer, tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Starts a scheduler; fields are its options, and the time that its calls of the API server have."""
    worlds: list[World] = []

    def make(*, ask: Ask | None = None, timeout_seconds: float = 5.0, **options: Any) -> World:
        fields = {"back_off_seconds": (0.02, 0.2), **options}
        made = World(tmp_path, api, ask or acme_ask(), Options(**fields), timeout_seconds=timeout_seconds)
        worlds.append(made.start())
        return worlds[-1]

    yield make
    for world in worlds:
        world.stop()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()
