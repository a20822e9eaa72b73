"""HAMi backend for Acme neural processors, read from sysfs."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from hami_core_py.hooks import BackendSettings, hookimpl
from hami_core_py.models.allocations import Allocation, Grant
from hami_core_py.models.backends import BackendInfo
from hami_core_py.models.devices import Device, DeviceId
from hami_core_py.models.families import CoreRule, Family, MemoryRule, Resources
from hami_core_py.models.requests import CoreUnits

FAMILY = "Acme"
COUNT, MEMORY, CORES = "acme.example/npu", "acme.example/npu-memory", "acme.example/npu-cores"
BLOCK_MIB = 512  # the driver hands out memory in blocks of this size
VISIBLE = "ACME_VISIBLE_DEVICES"
SYSFS = Path("/sys/class/acme_npu")


class Settings(BackendSettings):
    """The section ``acme`` of the device configuration."""

    slots: int = Field(default=10, ge=1)
    """How many containers may share a device."""


@hookimpl
def hami_backend() -> BackendInfo:
    """Who we are, and which variables decide what a container sees."""
    return BackendInfo(
        name="acme", vendor="Acme", api=1, settings=Settings, reserved_env=(VISIBLE,), closing_env={VISIBLE: ""}
    )


@hookimpl
def hami_families() -> Sequence[Family]:
    """One kind of device, as a table."""
    return (
        Family(
            name=FAMILY,
            resources=Resources(count=COUNT, memory=MEMORY, core=CORES),
            memory=MemoryRule(step_mib=BLOCK_MIB),
            core=CoreRule(default=CoreUnits(0)),
        ),
    )


@hookimpl
def hami_discover_devices(settings: Settings) -> Sequence[Device]:
    """Devices of this node; without the driver there is nothing to offer, and nothing is wrong."""
    if not SYSFS.is_dir():
        return ()
    return tuple(_read_device(i, path, settings) for i, path in enumerate(sorted(SYSFS.iterdir())))


def _read_device(index: int, path: Path, settings: Settings) -> Device:
    return Device(
        id=DeviceId((path / "serial").read_text().strip()),
        family=FAMILY,
        index=index,
        model=(path / "model").read_text().strip(),
        slots=settings.slots,
        memory_mib=int((path / "memory_mib").read_text()),
        facts={"node": f"/dev/acme/{path.name}"},
    )


@hookimpl
def hami_allocate(allocation: Allocation) -> Grant:
    """What a container receives: the ids it may see, its limits, and the device nodes."""
    env = {VISIBLE: ",".join(device.id for device, _ in allocation.pairs)}
    for i, (_, share) in enumerate(allocation.pairs):
        env[f"ACME_MEMORY_LIMIT_{i}"] = f"{share.memory_mib}m"
        env[f"ACME_CORE_LIMIT_{i}"] = str(share.core_units)
    nodes = (device.facts.get("node") for device, _ in allocation.pairs)
    return Grant(env=env, device_paths=tuple(dict.fromkeys(str(node) for node in nodes if node)))
