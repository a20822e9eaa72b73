"""The devices of this node, who offers them, and how they are."""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Condition

from hami_core_py.errors import BackendError, HamiError
from hami_core_py.models.allocations import HealthChange
from hami_core_py.models.devices import Device, DeviceId, Health
from hami_core_py.models.families import Family

log = logging.getLogger(__name__)

FAILURES_UNTIL_UNHEALTHY = 3
"""Discoveries in a row that may fail before a backend's devices stop taking new containers."""


class SourceConflict(HamiError):
    """Two backends offer devices of one family on this node."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All devices at one moment.

    :ivar version: grows with every change. :ivar devices: sorted by family, index and id, with their health now.
    :ivar sources: family → backend that offers its devices.
    :ivar pending: backends that have not answered yet; devices they are known for come from an earlier run.
    :ivar offered: families that have had a device in this run or the one before, whether they have one now or not.
    """

    version: int
    devices: tuple[Device, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    offered: frozenset[str] = frozenset()

    @property
    def by_id(self) -> dict[DeviceId, Device]:
        """Devices by id."""
        return {device.id: device for device in self.devices}

    def family(self, name: str) -> tuple[Device, ...]:
        """The devices of one family."""
        return tuple(device for device in self.devices if device.family == name)


@dataclass
class _Source:
    devices: tuple[Device, ...] = ()
    answered: bool = False
    failures: int = 0
    unhealthy: dict[DeviceId, str] = field(default_factory=dict)


class DeviceTable:
    """The agent's knowledge of devices; whoever follows it is woken by each change.

    :param sources: names of the backends that will be asked.
    """

    def __init__(self, sources: Iterable[str]) -> None:
        self._condition = Condition()
        self._closed = False
        self._sources = {name: _Source() for name in sorted(sources)}
        self._snapshot = Snapshot(version=0, pending=frozenset(self._sources))

    @property
    def snapshot(self) -> Snapshot:
        """The devices now."""
        with self._condition:
            return self._snapshot

    def wait(self, version: int, timeout_seconds: float, until: Callable[[], bool] = lambda: False) -> Snapshot:
        """Wait until the table is newer than a version, is closed, or the time is over.

        :param until: a further end of the waiting; whoever makes it true calls ``wake``.
        """
        with self._condition:
            self._condition.wait_for(
                lambda: self._closed or self._snapshot.version != version or until(), timeout_seconds
            )
            return self._snapshot

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._condition:
            self._condition.notify_all()

    def close(self) -> None:
        """Let nobody wait any more."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def wait_answered(self, backend: str, timeout_seconds: float) -> bool:
        """Wait until a backend has answered for the first time in this run."""
        with self._condition:
            return self._condition.wait_for(lambda: backend not in self._snapshot.pending, timeout_seconds)

    def remember(self, backend: str, devices: Sequence[Device]) -> None:
        """Take devices of an earlier run until the backend answers."""
        with self._condition:
            if backend in self._sources and not self._sources[backend].answered:
                self._sources[backend].devices = tuple(devices)
                self._renew()

    def discovered(self, backend: str, devices: Sequence[Device]) -> None:
        """Take a backend's answer. :raises SourceConflict: another backend offers one of the families."""
        families = {device.family for device in devices}
        with self._condition:
            for other, source in self._sources.items():
                both = families & {d.family for d in source.devices if source.answered}
                if other != backend and both:
                    raise SourceConflict(
                        f"devices of family {min(both)!r} are offered on this node by {min(other, backend)!r} and "
                        f"{max(other, backend)!r}; block one of the two backends here"
                    )
            mine = self._sources[backend]
            mine.devices, mine.answered, mine.failures = tuple(devices), True, 0
            mine.unhealthy = {d: why for d, why in mine.unhealthy.items() if d in {one.id for one in devices}}
            for other, source in self._sources.items():
                if other != backend and not source.answered:
                    source.devices = tuple(d for d in source.devices if d.family not in families)
            self._renew()

    def failed(self, backend: str) -> None:
        """A discovery raised or took too long: the known devices stay, and stop taking containers when it lasts."""
        with self._condition:
            source = self._sources[backend]
            source.failures += 1
            source.answered = True
            self._renew()

    def health_changed(self, backend: str, changes: Sequence[HealthChange]) -> None:
        """Take what a backend's health check says; devices it does not name stay as they were."""
        with self._condition:
            source = self._sources[backend]
            known = {device.id for device in source.devices}
            for change in changes:
                if change.device not in known:
                    continue
                if change.healthy:
                    source.unhealthy.pop(change.device, None)
                else:
                    source.unhealthy[change.device] = change.detail
                log.warning(
                    "device health changed",
                    extra={"device": change.device, "healthy": change.healthy, "detail": change.detail},
                )
            self._renew()

    def _renew(self) -> None:
        devices = sorted(
            (_with_health(device, source) for source in self._sources.values() for device in source.devices),
            key=lambda d: (d.family, d.index, d.id),
        )
        sources = {d.family: name for name, source in self._sources.items() for d in source.devices}
        pending = frozenset(name for name, source in self._sources.items() if not source.answered)
        old = self._snapshot
        if (old.devices, old.sources, old.pending) != (tuple(devices), sources, pending):
            self._snapshot = Snapshot(
                version=old.version + 1,
                devices=tuple(devices),
                sources=sources,
                pending=pending,
                offered=old.offered | frozenset(sources),
            )
            self._condition.notify_all()


def check_devices(
    backend: str, own: Iterable[str], stands_in: bool, devices: Sequence[Device], families: Mapping[str, Family]
) -> None:
    """Whether a backend may offer these devices.

    :param own: names of the backend's own families. :raises BackendError: it may not; says which device and why.
    """
    allowed = set(families) if stands_in else set(own)
    seen: set[DeviceId] = set()
    for device in devices:
        problem = ""
        if device.family not in allowed:
            problem = f"family {device.family!r} is not one it may offer ({', '.join(sorted(allowed)) or 'none'})"
        elif device.id in seen:
            problem = "its id stands for two devices"
        elif device.slots < 1 or device.memory_mib < 0 or device.core_units < 0:
            problem = "slots must be at least 1, memory and core units not negative"
        if problem:
            raise BackendError(backend, "hami_discover_devices", f"device {device.id!r}: {problem}")
        seen.add(device.id)


def _with_health(device: Device, source: _Source) -> Device:
    is_lost = device.id in source.unhealthy or source.failures >= FAILURES_UNTIL_UNHEALTHY
    if is_lost and device.health is Health.HEALTHY:
        return dataclasses.replace(device, health=Health.UNHEALTHY)
    return device
