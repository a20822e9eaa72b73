"""Asking the backends for devices and health, each on threads of its own, so that none waits for another.

A call that hangs in a driver cannot be ended from outside: its backend is counted as failed while it hangs, its devices stop
taking containers, and everybody else goes on. A backend whose driver is known to hang or crash puts the call into a child
process with a time-out of its own.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from hami_core_py.errors import BackendError, BadInputError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.services.agent.meter import Meter
from hami_core_py.services.agent.table import DeviceTable, SourceConflict, check_devices

log = logging.getLogger(__name__)

SHORTEST_HEALTH_PAUSE_SECONDS = 1.0
"""Pause after a health check that answered at once."""


class Discovery:
    """Keeps the device table current.

    :param backends: those to ask. :param interval_seconds: between two discoveries.
    :param timeout_seconds: a discovery that takes longer counts as failed.
    :param on_conflict: called when two backends offer one family.
    """

    def __init__(
        self,
        ask: Ask,
        backends: Sequence[LoadedBackend],
        table: DeviceTable,
        meter: Meter,
        *,
        interval_seconds: float,
        timeout_seconds: float = 30.0,
        on_conflict: Callable[[SourceConflict], None] = lambda _conflict: None,
    ) -> None:
        self._ask, self._backends, self._table, self._meter = ask, tuple(backends), table, meter
        self._interval, self._timeout = interval_seconds, timeout_seconds
        self._on_conflict = on_conflict
        self._stopped = threading.Event()
        self._began: dict[str, float] = {}
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin; returns at once."""
        for backend in self._backends:
            self._spawn(f"discover {backend.info.name}", self._discover, backend)
            if "hami_check_health" in backend.hooks:
                self._spawn(f"health {backend.info.name}", self._check_health, backend)
        self._spawn("discovery watch", self._find_hung)

    def stop(self, timeout_seconds: float = 1.0) -> None:
        """End; a thread that hangs in a backend is left behind, it ends with the process."""
        self._stopped.set()
        deadline = time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _spawn(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _discover(self, backend: LoadedBackend) -> None:
        name = backend.info.name
        own = [family.name for family in backend.families]
        while not self._stopped.is_set():
            with self._lock:
                self._began[name] = time.monotonic()
            try:
                devices = self._ask.discover_devices(backend)
                check_devices(name, own, backend.info.stands_in, devices, self._ask.families)
                self._table.discovered(name, devices)
            except SourceConflict as conflict:
                log.error("two sources for one family", extra={"problem": str(conflict)})
                self._failed(name)
                self._on_conflict(conflict)
            except (BackendError, BadInputError) as problem:
                log.warning("discovery failed", extra={"backend": name, "problem": str(problem)})
                self._failed(name)
            finally:
                with self._lock:
                    self._began.pop(name, None)
            self._stopped.wait(self._interval)

    def _failed(self, name: str) -> None:
        self._meter.discovery_failed(name)
        self._table.failed(name)

    def _find_hung(self) -> None:
        while not self._stopped.wait(min(1.0, self._timeout / 4)):
            now = time.monotonic()
            with self._lock:
                late = [name for name, began in self._began.items() if now - began > self._timeout]
                for name in late:
                    self._began[name] = now
            for name in late:
                log.error("discovery does not answer", extra={"backend": name, "seconds": self._timeout})
                self._failed(name)

    def _check_health(self, backend: LoadedBackend) -> None:
        name = backend.info.name
        while not self._stopped.is_set():
            snapshot = self._table.snapshot
            devices = [d for d in snapshot.devices if snapshot.sources.get(d.family) == name]
            began = time.monotonic()
            pause = SHORTEST_HEALTH_PAUSE_SECONDS
            if devices and name not in snapshot.pending:
                try:
                    if changes := self._ask.check_health(backend, devices):
                        self._table.health_changed(name, changes)
                except (BackendError, BadInputError) as problem:
                    log.warning("health check failed", extra={"backend": name, "problem": str(problem)})
                    pause = 5.0
            self._stopped.wait(max(0.0, pause - (time.monotonic() - began)))
