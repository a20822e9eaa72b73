"""The device manager: which devices there are, who holds them, and what their plugins say to a container's start.

The order of calls, the texts and the moments at which ids become free again are a real kubelet's.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hami_core_py.codecs.quantities import parse_quantity
from hami_core_py.lab.kubelet import checkpoint, pods
from hami_core_py.lab.kubelet.api import Json
from hami_core_py.lab.kubelet.checkpoint import Entry
from hami_core_py.lab.kubelet.endpoint import Endpoint, PluginDevice, PluginError
from hami_core_py.lab.kubelet.holdings import Holdings
from hami_core_py.servers.kubelet import deviceplugin_pb2 as dp

WITHOUT_NUMA = -1

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resources:
    """The node's extended resources, as device plugins offer them."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]


class DeviceManager:
    """State of all device plugins of one node, behind one lock that is never held during a call to a plugin."""

    def __init__(
        self,
        directory: Path,
        *,
        active_pods: Callable[[], Iterable[str]],
        on_change: Callable[[], None],
        prestart_timeout_seconds: float = 30.0,
        plugin_grace_seconds: float = 300.0,
        seed: int | None = None,
    ) -> None:
        """``active_pods`` answers the UIDs that may keep devices; ``on_change`` hears of new capacities."""
        self._directory = directory
        self._active_pods, self._on_change = active_pods, on_change
        self._prestart_timeout, self._plugin_grace = prestart_timeout_seconds, plugin_grace_seconds
        self._random = random.Random(seed)
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self._endpoints: dict[str, Endpoint] = {}
        self._devices: dict[str, dict[str, PluginDevice]] = {}
        self._healthy: dict[str, set[str]] = {}
        self._held = Holdings()
        self._allocated: dict[str, set[str]] = {}
        self._reusable: tuple[str, dict[str, set[str]]] = ("", {})
        self._sources_ready = False
        self._running_at_start: frozenset[tuple[str, str]] = frozenset()
        self._removed: set[str] = set()

    def load(self, running: Iterable[tuple[str, str]]) -> bool:
        """Read the checkpoint of an earlier kubelet; False when there is none.

        ``running`` are the (pod UID, container) pairs whose processes live: they keep their devices without a call.
        """
        found = checkpoint.read(self._directory)
        with self._lock:
            self._running_at_start = frozenset(running)
            if found is None:
                return (self._directory / checkpoint.NAME).exists()
            for entry in found.entries:
                self._held.add(entry)
            self._allocated = self._held.ids()
            for resource in found.registered:
                self._devices[resource], self._healthy[resource] = {}, set()
                self._endpoints[resource] = Endpoint(resource)
        return True

    def sources_ready(self) -> None:
        """All pods of this node are known now; until then nothing is taken from anybody."""
        self._sources_ready = True

    def connect(self, resource: str, socket: Path) -> None:
        """Take up a plugin that has registered.

        :raises PluginError: it does not answer.
        """
        endpoint = Endpoint(resource, socket)
        endpoint.connect()
        with self._lock:
            previous = self._endpoints.get(resource)
            self._endpoints[resource] = endpoint
        if previous is not None:
            previous.close()
        log.info("device plugin registered", extra={"resource": resource, "socket": str(socket)})
        endpoint.watch(self._devices_changed, self._plugin_gone)

    def resources(self) -> Resources:
        """Capacity and allocatable by resource; a plugin that went long ago leaves a zero behind."""
        with self._lock:
            for resource, endpoint in list(self._endpoints.items()):
                gone = endpoint.stopped_at
                if gone is not None and time.monotonic() - gone > self._plugin_grace:
                    for table in (self._endpoints, self._devices, self._healthy):
                        table.pop(resource, None)
                    self._removed.add(resource)
            zero = dict.fromkeys(self._removed, 0)
            return Resources(
                zero | {name: len(devices) for name, devices in self._devices.items()},
                zero | {name: len(healthy) for name, healthy in self._healthy.items()},
            )

    def allocate(self, pod: Json, container: Json) -> None:
        """Give a container of a pod its devices, at the pod's admission.

        Containers come in the order of admission: what an ordinary init container holds may be used again by
        the ones after it.

        :raises PluginError: too few devices, or a plugin refused.
        """
        uid, name = pods.uid(pod), container["name"]
        if self._reusable[0] != uid:
            self._reusable = (uid, {})
        reusable = self._reusable[1]
        is_init = any(one["name"] == name for one in pods.init_containers(pod))
        self._allocate_container(uid, container, reusable)
        with self._lock:
            for entry in self._held.of(uid, name):
                if is_init and not pods.is_sidecar(container):
                    reusable.setdefault(entry.resource, set()).update(entry.ids)
                else:
                    reusable.get(entry.resource, set()).difference_update(entry.ids)

    def prepare(self, pod: Json, container: Json) -> list[dp.ContainerAllocateResponse]:
        """Call PreStartContainer where a plugin wants it, and answer what the container receives.

        :raises PluginError: a plugin refused, was too slow, or is gone.
        """
        uid, name = pods.uid(pod), container["name"]
        is_missing = False
        for resource, amount in pods.limits(container).items():
            if not self._serves(resource) or parse_quantity(amount) == 0:
                continue
            with self._lock:
                endpoint = self._endpoints.get(resource)
                entry = self._held.find(uid, name, resource)
            if endpoint is None:
                raise PluginError(f"endpoint not found in cache for a registered resource: {resource}")
            if endpoint.options is not None and endpoint.options.pre_start_required:
                if entry is None:
                    raise PluginError(
                        f"no devices found allocated in local cache for pod {uid}, container {name}, "
                        f"resource {resource}"
                    )
                endpoint.pre_start(self._shuffled(entry.ids), self._prestart_timeout)
            is_missing = is_missing or (entry is None and uid in set(self._active_pods()))
        if is_missing:
            self.allocate(pod, container)
        return [dp.ContainerAllocateResponse.FromString(entry.response) for entry in self.holdings(uid, name)]

    def holdings(self, uid: str, container: str) -> list[Entry]:
        """The devices that a container holds."""
        with self._lock:
            return self._held.of(uid, container)

    def forget_finished(self) -> None:
        """Take devices back from pods that have ended.

        PodResources List does this too, as in a real kubelet, where it can hand one id to two pods: the ids of an
        Allocate in flight are not yet anybody's, and so look free again.
        """
        active = set(self._active_pods())
        if not self._sources_ready:
            return
        with self._lock:
            if self._held.keep_only(active):
                self._allocated = self._held.ids()

    def close(self) -> None:
        """End the connections to all plugins."""
        with self._lock:
            endpoints = list(self._endpoints.values())
        for endpoint in endpoints:
            endpoint.close()

    def _allocate_container(self, uid: str, container: Json, reusable: Mapping[str, set[str]]) -> None:
        name = container["name"]
        is_swept, is_changed = False, False
        for resource, amount in pods.limits(container).items():
            if not self._serves(resource):
                continue
            if not is_swept:
                self.forget_finished()
                is_swept = True
            chosen = self._choose(uid, name, resource, int(parse_quantity(amount)), reusable.get(resource, set()))
            if not chosen:
                continue
            is_changed = True
            try:
                response = self._endpoints[resource].allocate(self._shuffled(chosen))
            except PluginError:
                with self._lock:
                    self._allocated = self._held.ids()
                raise
            with self._lock:
                by_numa = self._by_numa(resource, chosen)
                self._held.add(Entry(uid, name, resource, by_numa, response.SerializeToString()))
        if is_changed:
            self._write_checkpoint()

    def _choose(self, uid: str, name: str, resource: str, count: int, reusable: set[str]) -> set[str]:
        """The ids a container is to get; empty when it has them, or needs none."""
        with self._lock:
            entry = self._held.find(uid, name, resource)
            own = entry.ids if entry else frozenset()
            if entry is not None and len(own) != count:
                raise PluginError(
                    f'pod "{uid}" container "{name}" changed request for resource "{resource}" '
                    f"from {len(own)} to {count}"
                )
            if not self._sources_ready and (uid, name) in self._running_at_start:
                return set()
            if resource not in self._healthy:
                raise PluginError(f"cannot allocate unregistered device {resource}")
            healthy = self._healthy[resource]
            if not healthy:
                raise PluginError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
            if not own <= healthy:
                raise PluginError(
                    f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
                )
            needed = count - len(own)
            if needed == 0:
                return set()
            chosen = set(self._shuffled(reusable)[:needed])
            self._allocated.setdefault(resource, set()).update(chosen)
            if len(chosen) == needed:
                return chosen
            available = healthy - self._allocated[resource]
            if len(available) < needed - len(chosen):
                raise PluginError(
                    f"requested number of devices unavailable for {resource}. "
                    f"Requested: {needed - len(chosen)}, Available: {len(available)}"
                )
            endpoint = self._endpoints[resource]
        preferred = endpoint.preferred(self._shuffled(available | chosen), self._shuffled(chosen), count)
        with self._lock:
            liked = available & (preferred or frozenset())
            ranked = self._shuffled(liked) + self._shuffled(available - liked)
            chosen.update(ranked[: needed - len(chosen)])
            self._allocated.setdefault(resource, set()).update(chosen)
        return chosen

    def _serves(self, resource: str) -> bool:
        """Whether a device plugin offers, or has ever given, this resource."""
        with self._lock:
            return resource in self._healthy or resource in self._allocated

    def _by_numa(self, resource: str, ids: Iterable[str]) -> dict[int, list[str]]:
        known = self._devices.get(resource, {})
        found: dict[int, list[str]] = {}
        for one in self._shuffled(ids):
            for numa in known[one].numa_nodes if one in known and known[one].numa_nodes else (WITHOUT_NUMA,):
                found.setdefault(numa, []).append(one)
        return found

    def _shuffled(self, ids: Iterable[str]) -> list[str]:
        """The ids in an order that means nothing, as from a set in Go, but repeatable with a seed."""
        ordered = sorted(ids)
        self._random.shuffle(ordered)
        return ordered

    def _write_checkpoint(self) -> None:
        with self._writing:
            with self._lock:
                entries, healthy = self._held.entries(), {name: set(ids) for name, ids in self._healthy.items()}
            checkpoint.write(self._directory, entries, healthy)

    def _devices_changed(self, endpoint: Endpoint, devices: Mapping[str, PluginDevice]) -> None:
        with self._lock:
            if self._endpoints.get(endpoint.resource) is not endpoint:
                return
            self._devices[endpoint.resource] = dict(devices)
            self._healthy[endpoint.resource] = {one for one, device in devices.items() if device.is_healthy}
            self._removed.discard(endpoint.resource)
        self._write_checkpoint()
        log.info("devices changed", extra={"resource": endpoint.resource, "devices": len(devices)})
        self._on_change()

    def _plugin_gone(self, endpoint: Endpoint) -> None:
        with self._lock:
            if self._endpoints.get(endpoint.resource) is not endpoint:
                return
            if endpoint.resource in self._healthy:
                self._healthy[endpoint.resource] = set()
        log.info("device plugin gone", extra={"resource": endpoint.resource})
        self._on_change()
