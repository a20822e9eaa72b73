"""The child process that talks to the driver: ``python -m hami_backend_nvidia.probe devices|use|watch``.

Answers are JSON lines on standard output. It is the only importer of the vendor's SDK and imports nothing of HAMi, so that it
starts quickly and may hang or crash alone.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pynvml as nvml

NO_DRIVER = (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED)
NOT_THERE = (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_INVALID_ARGUMENT)
EVENTS = nvml.nvmlEventTypeXidCriticalError
WAIT_MILLISECONDS = 2000


def main(question: str) -> int:
    """Answer one question. :returns: exit code, 0 also where there is no driver."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as problem:
        say(absent=problem.value in NO_DRIVER, problem=str(problem))
        return 0
    if question == "devices":
        say(devices=[device(i) for i in range(nvml.nvmlDeviceGetCount())], links=links())
    elif question == "use":
        say(devices=[use(i) for i in range(nvml.nvmlDeviceGetCount())])
    else:
        watch(os.getppid())
    return 0


def say(**answer: Any) -> None:
    """One line of answer."""
    print(json.dumps(answer), flush=True)


def device(index: int) -> dict[str, Any]:
    """What one GPU is; ``problem`` where the driver fails on it, ``memory_bytes`` null where it cannot tell."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        return {
            "index": index,
            "uuid": text(nvml.nvmlDeviceGetUUID(handle)),
            "name": text(nvml.nvmlDeviceGetName(handle)),
            "bus_id": text(nvml.nvmlDeviceGetPciInfo(handle).busId),
            "memory_bytes": memory(handle, "total"),
            "minor": supported(nvml.nvmlDeviceGetMinorNumber, handle),
            "mig": (supported(nvml.nvmlDeviceGetMigMode, handle) or [0])[0] == 1,
        }
    except nvml.NVMLError as problem:
        return {"index": index, "problem": str(problem)}


def use(index: int) -> dict[str, Any]:
    """What one GPU is doing; null where the driver cannot tell."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        rates = supported(nvml.nvmlDeviceGetUtilizationRates, handle)
        return {
            "index": index,
            "uuid": text(nvml.nvmlDeviceGetUUID(handle)),
            "name": text(nvml.nvmlDeviceGetName(handle)),
            "memory_used_bytes": memory(handle, "used"),
            "memory_total_bytes": memory(handle, "total"),
            "gpu_percent": rates and rates.gpu,
            "memory_controller_percent": rates and rates.memory,
            "celsius": supported(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "milliwatts": supported(nvml.nvmlDeviceGetPowerUsage, handle),
            "processes": processes(handle),
        }
    except nvml.NVMLError as problem:
        return {"index": index, "problem": str(problem)}


def processes(handle: Any) -> list[dict[str, Any]]:
    """Who computes on a device; ``bytes`` null where the driver does not tell how much each holds."""
    found = attempt(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
    return [{"pid": int(one.pid), "bytes": one.usedGpuMemory} for one in found]


def links() -> list[dict[str, Any]]:
    """For every ordered pair of GPUs: the level of their common ancestor, and how many direct links they have.

    A link is a nicety: what the driver fails on is left out, and no device is lost for it.
    """
    handles = [attempt(nvml.nvmlDeviceGetHandleByIndex, index) for index in range(nvml.nvmlDeviceGetCount())]
    ends = {}
    for handle in handles:
        uuid, pci = attempt(nvml.nvmlDeviceGetUUID, handle), attempt(nvml.nvmlDeviceGetPciInfo, handle)
        if uuid is not None and pci is not None:
            ends[text(uuid)] = (handle, text(pci.busId).lower(), list(link_ends(handle)))
    return [
        {
            "from": one,
            "to": other,
            "level": attempt(nvml.nvmlDeviceGetTopologyCommonAncestor, handle, peer),
            "direct": sum(bus == peer_bus for bus, _ in remotes),
            "switched": sum(is_switch for _, is_switch in remotes),
            "has_links": bool(remotes),
        }
        for one, (handle, _, remotes) in ends.items()
        for other, (peer, peer_bus, _) in ends.items()
        if one != other
    ]


def link_ends(handle: Any) -> Iterator[tuple[str, bool]]:
    """Bus id of what each enabled link of a GPU leads to, and whether that is a switch."""
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        if attempt(nvml.nvmlDeviceGetNvLinkState, handle, link) != nvml.NVML_FEATURE_ENABLED:
            continue
        remote = attempt(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
        if remote is not None:
            kind = attempt(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            yield text(remote.busId).lower(), kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH


def watch(parent: int) -> None:
    """Say which devices are watched, then each critical event, and at least every few seconds that we are alive."""
    events = nvml.nvmlEventSetCreate()
    for index in range(nvml.nvmlDeviceGetCount()):
        say(**register(index, events))
    while os.getppid() == parent:
        try:
            event = nvml.nvmlEventSetWait_v2(events, WAIT_MILLISECONDS)
        except nvml.NVMLError as problem:
            if problem.value == nvml.NVML_ERROR_TIMEOUT:
                say(alive=True)
                continue
            say(lost=str(problem))
            return
        if event.eventType != nvml.nvmlEventTypeXidCriticalError:
            continue
        try:
            say(uuid=text(nvml.nvmlDeviceGetUUID(event.device)), xid=int(event.eventData))
        except nvml.NVMLError as problem:
            say(lost=f"critical event {event.eventData} of a device that cannot be named: {problem}")


def register(index: int, events: Any) -> dict[str, Any]:
    """Have one device's events sent to us; a device that has none is well and unwatched."""
    uuid = ""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = text(nvml.nvmlDeviceGetUUID(handle))
        kinds = EVENTS & nvml.nvmlDeviceGetSupportedEventTypes(handle)
        nvml.nvmlDeviceRegisterEvents(handle, kinds, events)
    except nvml.NVMLError as problem:
        if problem.value == nvml.NVML_ERROR_NOT_SUPPORTED:
            return {"unwatched": uuid}
        return {"unreachable": uuid, "problem": str(problem)}
    return {"watched": uuid}


def memory(handle: Any, part: str) -> int | None:
    """``total`` or ``used`` bytes; ``None`` where the device shares the machine's memory."""
    information = supported(nvml.nvmlDeviceGetMemoryInfo, handle)
    return None if information is None else int(getattr(information, part))


def supported(question: Callable[..., Any], *arguments: Any) -> Any:
    """An answer of the driver; ``None`` where this device has none."""
    try:
        return question(*arguments)
    except nvml.NVMLError as problem:
        if problem.value in NOT_THERE:
            return None
        raise


def attempt(question: Callable[..., Any], *arguments: Any) -> Any:
    """An answer of the driver; ``None`` where it fails for whatever reason, as when a handle could not be had."""
    if None in arguments:
        return None
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def text(value: str | bytes) -> str:
    """Text of older and newer versions of the SDK."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
