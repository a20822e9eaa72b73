"""Health that a person toggles by editing the file."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from hami_backend_mock.settings import Settings
from hami_backend_mock.world import is_healthy, read_world
from hami_core_py.models.allocations import HealthChange
from hami_core_py.models.devices import Device

LONGEST_WAIT_SECONDS = 4.0
"""Below the 5 s that a health check may take."""

_seen: dict[Path, int] = {}
_lock = threading.Lock()


def changes(devices: Sequence[Device], settings: Settings) -> tuple[HealthChange, ...]:
    """Devices whose health in the file differs from what they say themselves.

    The first call answers at once, later ones when the file changes or after a few seconds.
    """
    path = settings.file()
    if path is None:
        time.sleep(min(settings.poll_seconds, LONGEST_WAIT_SECONDS))
        return ()
    _wait_for_change(path, settings.poll_seconds)
    written = {device.id: device for device in read_world(path).on(settings.node())}
    return tuple(
        HealthChange(device=device.id, healthy=is_healthy(written[device.id]), detail=f"as {path} says")
        for device in devices
        if device.id in written and written[device.id].health is not device.health
    )


def _wait_for_change(path: Path, poll_seconds: float) -> None:
    end = time.monotonic() + LONGEST_WAIT_SECONDS
    while True:
        stamp = path.stat().st_mtime_ns
        with _lock:
            if _seen.get(path) != stamp:
                _seen[path] = stamp
                return
        if time.monotonic() >= end:
            return
        time.sleep(poll_seconds)
