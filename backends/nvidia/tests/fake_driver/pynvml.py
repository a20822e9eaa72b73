"""A driver SDK for tests: answers what the JSON file named by ``FAKE_NVML`` says.

``{"init": CODE | "hang", "devices": [{"uuid", "name", "bus_id", "memory", "minor", "mig", "fails", "events", "links"}],
"levels": {"A B": LEVEL}}``; events are lines ``UUID XID`` appended to the file named by ``FAKE_NVML_EVENTS``.
"""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

NVML_ERROR_INVALID_ARGUMENT = 2
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_DRIVER_NOT_LOADED = 9
NVML_ERROR_TIMEOUT = 10
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_GPU_IS_LOST = 15
NVML_NVLINK_MAX_LINKS = 4
NVML_FEATURE_ENABLED = 1
NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
NVML_TEMPERATURE_GPU = 0
nvmlEventTypeXidCriticalError = 8

world = json.loads(Path(os.environ["FAKE_NVML"]).read_text())


class NVMLError(Exception):
    def __init__(self, value):
        self.value = value
        super().__init__(f"code {value}")


def nvmlInit():
    if world.get("init") == "hang":
        time.sleep(3600)
    if world.get("init"):
        raise NVMLError(world["init"])


def nvmlDeviceGetCount():
    return len(world["devices"])


def nvmlDeviceGetHandleByIndex(index):
    device = world["devices"][index]
    if "fails" in device:
        raise NVMLError(device["fails"])
    return device


def of(device, key, default):
    value = device.get(key, default)
    if value == "unsupported":
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)
    return value


def nvmlDeviceGetComputeRunningProcesses(device):
    return [SimpleNamespace(pid=pid, usedGpuMemory=held) for pid, held in of(device, "processes", [])]


def nvmlDeviceGetUUID(device):
    return device["uuid"]


def nvmlDeviceGetName(device):
    return of(device, "name", "NVIDIA A100")


def nvmlDeviceGetPciInfo(device):
    return SimpleNamespace(busId=of(device, "bus_id", "00000000:01:00.0"))


def nvmlDeviceGetMemoryInfo(device):
    return SimpleNamespace(total=of(device, "memory", 40 * 2**30), used=2**30)


def nvmlDeviceGetMinorNumber(device):
    return of(device, "minor", 0)


def nvmlDeviceGetMigMode(device):
    return [of(device, "mig", 0), 0]


def nvmlDeviceGetUtilizationRates(device):
    rates = of(device, "rates", [40, 20])
    return SimpleNamespace(gpu=rates[0], memory=rates[1])


def nvmlDeviceGetTemperature(device, _sensor):
    return of(device, "celsius", 50)


def nvmlDeviceGetPowerUsage(device):
    return of(device, "milliwatts", 250_500)


def nvmlDeviceGetTopologyCommonAncestor(one, other):
    if f"{one['uuid']} {other['uuid']}" not in world["levels"]:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)
    return world["levels"][f"{one['uuid']} {other['uuid']}"]


def nvmlDeviceGetNvLinkState(device, link):
    if link >= len(device.get("links", ())):
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return NVML_FEATURE_ENABLED


def nvmlDeviceGetNvLinkRemotePciInfo(device, link):
    return SimpleNamespace(busId=device["links"][link])


def nvmlDeviceGetNvLinkRemoteDeviceType(device, link):
    return NVML_NVLINK_DEVICE_TYPE_SWITCH if device["links"][link].startswith("switch") else 0


def nvmlEventSetCreate():
    return []


def nvmlDeviceGetSupportedEventTypes(device):
    return of(device, "events", nvmlEventTypeXidCriticalError)


def nvmlDeviceRegisterEvents(device, _kinds, events):
    events.append(device)


def nvmlEventSetWait_v2(events, milliseconds):
    path = Path(os.environ["FAKE_NVML_EVENTS"])
    end = time.monotonic() + milliseconds / 1000
    while time.monotonic() < end:
        lines = path.read_text().splitlines() if path.exists() else []
        seen = getattr(nvmlEventSetWait_v2, "seen", 0)
        if len(lines) > seen:
            nvmlEventSetWait_v2.seen = seen + 1
            uuid, xid = lines[seen].split()
            if xid == "lost":
                raise NVMLError(NVML_ERROR_GPU_IS_LOST)
            if xid == "hang":
                time.sleep(3600)
            return SimpleNamespace(device={"uuid": uuid}, eventType=nvmlEventTypeXidCriticalError, eventData=int(xid))
        time.sleep(0.01)
    raise NVMLError(NVML_ERROR_TIMEOUT)
