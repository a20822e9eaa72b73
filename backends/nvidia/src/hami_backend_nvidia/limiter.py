"""The limiter's library: where this installation has it, where a container sees it, and the limits file it reads."""

import os
from collections.abc import Iterable
from pathlib import Path

from hami_backend_nvidia.settings import Settings
from hami_core_py.models.allocations import Allocation, Mount
from hami_core_py.models.backends import HostFile

LIBRARY = "libvgpu.so"
LIMITS, PRELOAD = "limits", "ld.so.preload"
PLACE = "/usr/local/hami"
"""Folder of library and limits in a container; apart from the region's, which the container may write."""
VARIABLE = "HAMI_LIMITER_LIBRARY"
"""Path of a library to use instead of the bundled one."""
MIB = 2**20
MOST_PERCENT, MOST_PRIORITY = 100, 2**31 - 1


def library() -> Path | None:
    """The library of this installation; ``None``: it was built without one.

    In a source checkout it is where ``hami-core-c/compile.py build/limiter`` leaves it.
    """
    here = Path(__file__).resolve()
    told = os.environ.get(VARIABLE)
    places = [Path(told)] if told else [here.with_name(LIBRARY), *_built(here)]
    return next((place for place in places if place.is_file()), None)


def _built(here: Path) -> Iterable[Path]:
    root = here.parents[4] if len(here.parents) > 4 else here.parent
    return [root / "build" / "limiter" / LIBRARY] if (root / "hami-core-c" / "compile.py").is_file() else []


def host_files() -> tuple[HostFile, ...]:
    """What the node agent installs on the host."""
    found = library()
    return (HostFile(name=LIBRARY, source=str(found)),) if found else ()


def mounts(allocation: Allocation) -> tuple[Mount, ...]:
    """Library, limits beside it, and the loader's file that names the library, all out of the container's reach.

    No variable preloads it: a variable would reach programs of another C library, which then do not start.
    """
    return (
        Mount(host_path=f"{allocation.host_directory}/{LIBRARY}", container_path=f"{PLACE}/{LIBRARY}"),
        Mount(host_path=f"{allocation.directory}/{LIMITS}", container_path=f"{PLACE}/{LIMITS}"),
        Mount(host_path=f"{allocation.directory}/{PRELOAD}", container_path="/etc/ld.so.preload"),
    )


def files(allocation: Allocation, settings: Settings, region: str) -> dict[str, str]:
    """Content of the files that :func:`mounts` shows, by name in the container's directory."""
    return {PRELOAD: f"{PLACE}/{LIBRARY}\n", LIMITS: limits(allocation, settings, region)}


def limits(allocation: Allocation, settings: Settings, region: str) -> str:
    """The limits file: what holds for the container, whatever its environment says.

    :param region: path of the shared region as the container sees it.
    """
    policy = "disable" if settings.disable_core_limit else settings.gpu_core_policy or "default"
    lines = ["hami-limits 1", f"region={region}", f"policy={policy}"]
    priority = allocation.limits.get(settings.resource_priority_name or "", "")
    if priority.isascii() and priority.isdigit():
        lines.append(f"priority={min(int(priority), MOST_PRIORITY)}")
    if settings.device_memory_scaling > 1:
        lines.append("oversubscribe=1")
    context = f" context={settings.context_memory * MIB}" if settings.context_memory else ""
    for device, share in allocation.pairs:
        cores = min(share.core_units, MOST_PERCENT)
        lines.append(f"device={device.id} memory={share.memory_mib * MIB} cores={cores}{context}")
    return "\n".join(lines) + "\n"
