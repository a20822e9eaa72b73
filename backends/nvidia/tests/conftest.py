"""A driver that says what a test wants; the real probe reads it in its own process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hami_backend_nvidia import nvml


class Driver:
    """What the fake SDK in the probe's process answers."""

    def __init__(self, path: Path) -> None:
        self.path, self.events = path / "driver.json", path / "events"
        self.says(devices=[])

    def says(self, **world: Any) -> None:
        """Devices, levels, or how its start fails."""
        self.path.write_text(json.dumps({"devices": [], "levels": {}, **world}))

    def event(self, uuid: str, xid: int | str) -> None:
        """A critical event; ``lost`` and ``hang`` break the driver itself."""
        with self.events.open("a") as file:
            file.write(f"{uuid} {xid}\n")


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    made = Driver(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "fake_driver"))
    monkeypatch.setenv("FAKE_NVML", str(made.path))
    monkeypatch.setenv("FAKE_NVML_EVENTS", str(made.events))
    monkeypatch.setattr(nvml, "_said", set())
    monkeypatch.setattr(nvml, "_books", {})
    monkeypatch.setattr(nvml, "_watchers", {})
    yield made
    for watcher in nvml._watchers.values():
        watcher.stop()
