"""What the driver says, as devices and samples of HAMi."""

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hami_backend_nvidia import child, containers, metrics, topology
from hami_backend_nvidia.families import NAME, SOFT_MODE
from hami_backend_nvidia.health import HealthBook
from hami_backend_nvidia.rounds import Rounds
from hami_backend_nvidia.settings import Settings
from hami_backend_nvidia.watcher import NoDriver, Watcher
from hami_backend_nvidia.xids import xid_rule
from hami_core_py.models.allocations import Allocation, HealthChange
from hami_core_py.models.devices import Device, DeviceId
from hami_core_py.models.samples import Sample

log = logging.getLogger(__name__)

MIB = 2**20
NOT_FOR_COMPUTE = ("DGX Display", "NVIDIA DGX Display")

HEALTH_SECONDS = 4.0
"""Longest wait for events; a health check may take 5 s."""

_said: set[str] = set()
_watch = containers.Watch()
_books: dict[Settings, HealthBook] = {}
_watchers: dict[Settings, Watcher] = {}
_feedback: dict[Settings, Rounds] = {}
_lock = threading.Lock()


def discover(settings: Settings) -> tuple[Device, ...]:
    """GPUs that the driver shows; ``()`` without a driver. :raises DriverError: the driver does not answer."""
    answer = child.ask("devices", settings.probe_timeout_seconds)
    if answer is None:
        _say_once("no driver on this node: no GPU is offered")
        return ()
    scores = topology.pair_scores(answer["links"]) if settings.topology_scores else {}
    return tuple(_devices(answer["devices"], scores, settings))


def collect(allocations: Sequence[Allocation], settings: Settings) -> tuple[Sample, ...]:
    """Memory and utilisation of the GPUs of this host, and what each container uses of them.

    Without a driver there is what the limiter's ledgers say.
    """
    answer = child.ask("use", settings.probe_timeout_seconds)
    told = answer["devices"] if answer else ()
    if settings.priority_feedback:
        _rounds(settings).tell(allocations)
    return (*metrics.samples(told), *containers.collect(allocations, containers.on_devices(told), _watch))


def _rounds(settings: Settings) -> Rounds:
    with _lock:
        if settings not in _feedback:
            name = settings.resource_priority_name
            _feedback[settings] = Rounds(lambda held: containers.give_feedback(held, name), containers.release)
        return _feedback[settings]


def check_health(devices: Sequence[Device], settings: Settings) -> tuple[HealthChange, ...]:
    """Devices whose health changed; waits for the driver's events, a few seconds at most."""
    disabled = settings.health_checks_disabled or os.environ.get("DP_DISABLE_HEALTHCHECKS", "")
    enabled = settings.health_checks_enabled or os.environ.get("DP_ENABLE_HEALTHCHECKS", "")
    with _lock:
        book = _books.setdefault(settings, HealthBook(xid_rule(disabled, enabled), settings.recovery_seconds))
        watcher = _watchers.setdefault(settings, Watcher())
    if book.rule.off:
        time.sleep(HEALTH_SECONDS)
        return ()
    events = watcher.events(HEALTH_SECONDS)
    if NoDriver() in events:
        time.sleep(HEALTH_SECONDS)
    book.note(events, time.monotonic())
    return book.changes(devices, time.monotonic())


def _devices(
    told: Iterable[Mapping[str, Any]], scores: Mapping[str, Mapping[str, int]], settings: Settings
) -> Iterable[Device]:
    for one in told:
        why = _unusable(one, settings)
        if why:
            _say_once(f"GPU {one.get('uuid', one['index'])} is not offered: {why}")
            continue
        peers = scores.get(one["uuid"], {})
        yield Device(
            id=DeviceId(one["uuid"]),
            family=NAME,
            index=one["index"],
            model=model(one["name"]),
            slots=settings.device_split_count,
            memory_mib=int(_memory_mib(one, settings) * settings.device_memory_scaling),
            core_units=int(settings.device_core_scaling * 100),
            numa=numa(one["bus_id"]),
            modes=(SOFT_MODE,),
            links={DeviceId(peer): score for peer, score in sorted(peers.items())},
            facts={} if one["minor"] is None else {"minor": one["minor"]},
        )


def _unusable(one: Mapping[str, Any], settings: Settings) -> str:
    """Why a GPU is left to others; empty when it is offered."""
    if "problem" in one:
        return f"the driver fails on it: {one['problem']}"
    if one["name"] in NOT_FOR_COMPUTE:
        return "it drives a display"
    if one["uuid"] in settings.filter_devices.uuid or one["index"] in settings.filter_devices.index:
        return "filterDevices names it"
    if one["mig"]:
        return "it is in MIG mode, which is not offered yet; switch it off with nvidia-smi -mig 0"
    if not _memory_mib(one, settings):
        return "its driver does not report memory; set preConfiguredDeviceMemory"
    return ""


def _memory_mib(one: Mapping[str, Any], settings: Settings) -> int:
    reported = one["memory_bytes"]
    return settings.pre_configured_device_memory if reported is None else int(reported) // MIB


def model(name: str) -> str:
    """The product name as other HAMi versions write it: it begins with the vendor."""
    return name if name.startswith("NVIDIA") else f"NVIDIA-{name}"


def numa(bus_id: str, sys: Path = Path("/sys")) -> int:
    """NUMA node of a PCI device; 0 where the machine does not tell."""
    domain, _, rest = bus_id.lower().partition(":")
    try:
        address = f"{int(domain, 16):04x}:{rest}"
        return max(0, int((sys / "bus/pci/devices" / address / "numa_node").read_text()))
    except (OSError, ValueError):
        return 0


def _say_once(sentence: str) -> None:
    with _lock:
        if sentence in _said:
            return
        _said.add(sentence)
    log.info(sentence)
