"""A driver that says what a test wants, which the real probe reads in its own process; and regions written by hand."""

import fcntl
import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
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


UUID = "GPU-01234567-89ab-cdef-0123-456789abcdef"
REGION_BYTES = 2008960 + 8


class Written:
    """A region as a file whose fields a test sets by their offsets in the header that C programs share."""

    def __init__(self, path: Path, *, extended: bool = True) -> None:
        self.path = path
        with path.open("wb") as file:
            file.truncate(REGION_BYTES)
        self.put(0, "<iII", 19920718, 1, 2)
        self.put(56, "<Q", 1)
        self.put(64, "96s", UUID.encode())
        if extended:
            self.put(2008960, "8s", b"hamiext1")

    def put(self, at: int, form: str, *values: object) -> None:
        with self.path.open("r+b") as file:
            file.seek(at)
            file.write(struct.pack(form, *values))

    def slot(self, index: int, pid: int, *, total: int = 0, status: int = 1) -> None:
        at = 1856 + index * 1960
        self.put(at, "<ii", pid, pid + 1000)
        self.put(at + 8, "<5Q", 1, 2, 3, 0, total)
        self.put(at + 1160 + 16, "<Q", 25)
        self.put(at + 1928, "<i", status)
        self.put(2008896, "<i", index + 1)

    @contextmanager
    def living(self, *slots: int) -> Iterator[None]:
        """Hold the bytes that say which slots live, as their processes do."""
        descriptor = os.open(self.path, os.O_RDWR)
        try:
            for slot in slots:
                lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 4194304 + slot, 1, 0)
                fcntl.fcntl(descriptor, 37, lock)  # F_OFD_SETLK
            yield
        finally:
            os.close(descriptor)


@pytest.fixture
def write_region() -> type[Written]:
    """Makes regions as a test wants them."""
    return Written
