"""Devices of an earlier run, kept on disk.

A kubelet that starts before discovery is done would refuse pods for good, so the agent offers at once what it had; nobody
receives a device before this run's discovery has shown that it is still there.
"""

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from hami_core_py.codecs.native import Identity, parse_inventory, render_inventory
from hami_core_py.errors import BadInputError
from hami_core_py.services.agent.files import put, read
from hami_core_py.services.agent.table import DeviceTable

log = logging.getLogger(__name__)


class Remembered:
    """Follows the device table and keeps what each backend offers in a file of its own.

    :param backends: names of those that are asked for devices. :param families: names of the installed families.
    """

    def __init__(
        self, directory: Path, table: DeviceTable, backends: Iterable[str], families: Iterable[str], identity: Identity
    ) -> None:
        self._directory, self._table, self._identity = directory, table, identity
        self._backends, self._families = tuple(backends), frozenset(families)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="remember devices", daemon=True)

    def recall(self) -> None:
        """Put the devices of an earlier run into the table. :raises OSError: the directory cannot be made."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for backend in self._backends:
            path = self._path(backend)
            text = read(path)
            if text is None:
                continue
            try:
                devices = parse_inventory(text.decode(), str(path)).devices
            except (BadInputError, UnicodeDecodeError) as problem:
                log.warning("remembered devices left out", extra={"path": str(path), "problem": str(problem)})
                continue
            self._table.remember(backend, [device for device in devices if device.family in self._families])

    def start(self) -> None:
        """Begin to follow; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End; the table must be closed before."""
        self._stopped.set()
        self._thread.join(2.0)

    def _follow(self) -> None:
        version = 0
        while not self._stopped.is_set():
            snapshot = self._table.wait(version, 5.0)
            version = snapshot.version
            for backend in self._backends:
                if backend in snapshot.pending:
                    continue
                devices = [d for d in snapshot.devices if snapshot.sources.get(d.family) == backend]
                try:
                    put(self._path(backend), render_inventory(backend, devices, self._identity).encode())
                except OSError as problem:
                    log.warning("devices not remembered", extra={"backend": backend, "problem": str(problem)})

    def _path(self, backend: str) -> Path:
        return self._directory / f"{backend}.json"
