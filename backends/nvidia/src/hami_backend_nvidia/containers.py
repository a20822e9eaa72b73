"""What containers use of their devices: by the limiter's ledger, by the driver, and where the two differ."""

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hami_backend_nvidia.feedback import IDLE, Contender, Orders, arbitrate, read_marks, write_orders
from hami_backend_nvidia.grants import REGION
from hami_backend_nvidia.processes import Place, places
from hami_backend_nvidia.region import Region, RegionError, Use, read_region
from hami_core_py.models.allocations import Allocation
from hami_core_py.models.samples import Sample

log = logging.getLogger(__name__)

MIB = 2**20
PATIENCE_SECONDS = 30.0
"""How long a process may be on a device without the limiter's knowledge: it may just have been started."""
SLACK_BYTES = 64 * MIB
"""What the driver keeps beside a container's blocks and contexts; more than that over the limit counts as over."""
DEFAULT_PRIORITY = 1
ESCAPED = (
    "container {container!r} has processes on {device} that its limits do not reach; a program that is linked statically, "
    "or against another C library than glibc, does not load the limiter"
)
ELSEWHERE = "container {container!r} has processes on {device}, which it has no share of"
ABOVE = "container {container!r} holds more memory of {device} than its limit, by the driver's count"
ZONE = {"zone": "vGPU"}

HELP = {
    "hami_container_memory_used_bytes": "Memory of the device that the container uses, by the limiter's ledger.",
    "hami_container_memory_driver_bytes": "Memory of the device that the container's processes hold, by the driver.",
    "hami_container_memory_over_limit_bytes": "How far the container is over its limit, by the driver; 0: it is not.",
    "hami_container_process_count": "Processes of the container on the device, by the driver.",
    "hami_container_unlimited_process_count": "Those that the limiter has not known for half a minute or longer.",
    "hami_device_foreign_process_count": "Processes on the device that belong to no container of ours.",
    "hami_device_unknown_process_count": "Processes on the device that we may not look at to see whose they are.",
    "hami_container_utilization_ratio": "Part of the device's compute that the container uses, 0-1.",
    "hami_container_last_launch_age_seconds": "Time since the container last launched a kernel.",
    "hami_vgpu_memory_used_bytes": "Memory of the device that the container uses.",
    "hami_container_device_memory_bytes": "Memory of the device that the container uses.",
    "hami_vgpu_memory_context_bytes": "Part of it that contexts take.",
    "hami_vgpu_memory_module_bytes": "Part of it that modules take.",
    "hami_vgpu_memory_buffer_bytes": "Part of it that blocks take.",
    "hami_container_device_utilization_ratio": "Compute of the device that the container uses, in percent.",
    "hami_container_last_kernel_elapsed_seconds": "Time since the container last launched a kernel.",
}


@dataclass(frozen=True, slots=True)
class OnDevice:
    """One process on one device, as the driver tells. ``bytes`` is ``None`` where it does not."""

    uuid: str
    pid: int
    bytes: int | None


@dataclass
class Watch:
    """Remembers since when processes have been on a device, and which regions were complained about."""

    since: dict[tuple[int, int, str], float] = field(default_factory=dict)
    complained: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def seconds(self, seen: Mapping[tuple[int, int, str], None], now: float) -> dict[tuple[int, int, str], float]:
        """How long each has been there; those that left are forgotten."""
        with self.lock:
            self.since = {key: self.since.get(key, now) for key in seen}
            return {key: now - since for key, since in self.since.items()}

    def region(self, path: Path) -> Region | None:
        """A region, an empty one where none is made yet; ``None``: it cannot be read, which costs one line of the log."""
        try:
            region = read_region(path) or Region((), (), 0)
        except RegionError as problem:
            with self.lock:
                is_new = self.complained.get(str(path)) != str(problem)
                self.complained[str(path)] = str(problem)
            if is_new:
                log.warning("region left out", extra={"problem": str(problem)})
            return None
        with self.lock:
            self.complained.pop(str(path), None)
        return region


def on_devices(told: Iterable[Mapping[str, Any]]) -> list[OnDevice]:
    """Processes, from the probe's answer about devices."""
    return [
        OnDevice(one["uuid"], process["pid"], process["bytes"])
        for one in told
        if "problem" not in one
        for process in one.get("processes") or ()
    ]


def collect(
    allocations: Sequence[Allocation], running: Sequence[OnDevice], watch: Watch, *, proc: Path = Path("/proc")
) -> tuple[Sample, ...]:
    """Samples of all containers, and of devices with strangers."""
    where = places({one.pid for one in running}, [one.directory for one in allocations], proc)
    keys = {(one.pid, where[one.pid].started, one.uuid): None for one in running if one.pid in where}
    ages = watch.seconds(keys, time.monotonic())
    found = []
    for allocation in allocations:
        path = Path(allocation.directory, "shared", Path(REGION).name)
        region = watch.region(path) if allocation.directory else None
        own = [one for one in running if allocation.directory and _directory(where, one) == allocation.directory]
        found += list(_container(allocation, region, own, where, ages, time.time()))
    return (*found, *_strays(allocations, running, where, ages), *_strangers(running, where))


def give_feedback(allocations: Sequence[Allocation], priority_name: str | None) -> None:
    """One round of arbitration between the containers of this node, by the priorities that their specs ask for."""
    contenders, paths = {}, {}
    for allocation in allocations:
        path = Path(allocation.directory, "shared", Path(REGION).name)
        marks = read_marks(path) if allocation.directory else None
        if marks is None:
            continue
        asked = allocation.limits.get(priority_name or "", "")
        rank = int(asked) if asked.isascii() and asked.isdigit() else DEFAULT_PRIORITY
        devices = frozenset(str(device.id) for device, _ in allocation.pairs)
        contenders[allocation.directory] = Contender(devices, rank, *marks)
        paths[allocation.directory] = path
    for name, orders in arbitrate(contenders).items():
        try:
            write_orders(paths[name], contenders[name], orders)
        except OSError as problem:
            log.warning("region not told", extra={"path": str(paths[name]), "problem": problem.strerror})


def release(allocations: Sequence[Allocation]) -> None:
    """Let all containers go that are paused."""
    for allocation in allocations:
        path = Path(allocation.directory, "shared", Path(REGION).name)
        marks = read_marks(path) if allocation.directory else None
        if marks is not None and marks[0] < IDLE:
            with contextlib.suppress(OSError):
                write_orders(path, Contender(frozenset(), 0, *marks), Orders(IDLE, marks[1]))


def _directory(where: Mapping[int, Place], one: OnDevice) -> str | None:
    place = where.get(one.pid)
    return None if place is None else place.directory


def _strangers(running: Sequence[OnDevice], where: Mapping[int, Place]) -> Iterator[Sample]:
    known = [(where[one.pid].directory, one.uuid) for one in running if one.pid in where]
    for name, meant in (("hami_device_foreign_process_count", ""), ("hami_device_unknown_process_count", None)):
        for uuid, count in sorted(Counter(uuid for directory, uuid in known if directory == meant).items()):
            yield _sample(name, count, {"device_uuid": uuid})


def _strays(
    allocations: Sequence[Allocation],
    running: Sequence[OnDevice],
    where: Mapping[int, Place],
    ages: Mapping[tuple[int, int, str], float],
) -> Iterator[Sample]:
    """Processes of containers on devices that they hold nothing of, whether the limiter knows them or not."""
    owners: dict[str, Allocation] = {one.directory: one for one in allocations if one.directory}
    held = {(one.directory, str(device.id)) for one in allocations for device, _ in one.pairs}
    counts = Counter(
        (place.directory, one.uuid)
        for one in running
        if (place := where.get(one.pid)) is not None
        and place.directory in owners
        and (place.directory, one.uuid) not in held
        and ages.get((one.pid, place.started, one.uuid), 0.0) >= PATIENCE_SECONDS
    )
    for (directory, uuid), count in sorted(counts.items(), key=str):
        owner = owners[directory or ""]
        names = {"namespace": owner.namespace, "pod": owner.pod, "container": owner.container}
        warning = ELSEWHERE.format(container=owner.container, device=uuid)
        yield _sample("hami_container_unlimited_process_count", count, {**names, "device_uuid": uuid}, warning)


def _container(
    allocation: Allocation,
    region: Region | None,
    running: Sequence[OnDevice],
    where: Mapping[int, Place],
    ages: Mapping[tuple[int, int, str], float],
    now: float,
) -> Iterator[Sample]:
    names = {"namespace": allocation.namespace, "pod": allocation.pod, "container": allocation.container}
    known = {slot.pid for slot in region.slots} if region else set()
    for position, (device, share) in enumerate(allocation.pairs):
        uuid = str(device.id)
        labels = {**names, "device_uuid": uuid}
        here = [one for one in running if one.uuid == uuid]
        held = sum(one.bytes or 0 for one in here)
        over = held - share.memory_mib * MIB
        unlimited = [
            one
            for one in here
            if where[one.pid].pid not in known
            and ages.get((one.pid, where[one.pid].started, uuid), 0.0) >= PATIENCE_SECONDS
        ]
        yield _sample("hami_container_process_count", len(here), labels)
        escaped = ESCAPED.format(container=allocation.container, device=uuid) if unlimited else ""
        yield _sample("hami_container_unlimited_process_count", len(unlimited), labels, escaped)
        yield _sample("hami_container_memory_driver_bytes", held, labels)
        above = ABOVE.format(container=allocation.container, device=uuid) if over > SLACK_BYTES else ""
        yield _sample("hami_container_memory_over_limit_bytes", over if above else 0, labels, above)
        if region and uuid in region.uuids:
            index = region.uuids.index(uuid)
            yield from _ledger(region.use(index), region, labels, str(index), now)
        elif region and not region.uuids:
            yield from _ledger(Use(), region, labels, str(position), now)


def _ledger(use: Use, region: Region, labels: Mapping[str, str], index: str, now: float) -> Iterator[Sample]:
    theirs = {**labels, "vdevice_index": index, **ZONE}
    yield _sample("hami_container_memory_used_bytes", use.total, labels)
    yield _sample("hami_container_utilization_ratio", min(use.percent, 100) / 100, labels)
    yield _sample("hami_vgpu_memory_used_bytes", use.total, theirs)
    yield _sample("hami_container_device_memory_bytes", use.total, theirs)
    yield _sample("hami_vgpu_memory_context_bytes", use.context, theirs)
    yield _sample("hami_vgpu_memory_module_bytes", use.module, theirs)
    yield _sample("hami_vgpu_memory_buffer_bytes", use.data, theirs)
    yield _sample("hami_container_device_utilization_ratio", use.percent, theirs)
    if region.last_launch:
        age = max(0.0, now - region.last_launch)
        yield _sample("hami_container_last_launch_age_seconds", age, labels)
        yield _sample("hami_container_last_kernel_elapsed_seconds", age, theirs)


def _sample(name: str, value: float, labels: Mapping[str, str], warning: str = "") -> Sample:
    return Sample(name=name, value=float(value), help=HELP[name], labels=labels, warning=warning)
