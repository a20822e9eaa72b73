"""Cutting a device: the smallest profile that covers what is asked and still has a place."""

from hami_core_py.models.answers import Reason
from hami_core_py.models.devices import Device, Profile, Share, Usage
from hami_core_py.models.families import Family
from hami_core_py.models.requests import Cells, DeviceRequest


def profiles_for(device: Device, family: Family, request: DeviceRequest) -> tuple[Profile, ...]:
    """Sizes that the request must be cut to on this device, smallest first; empty: free amounts are given.

    A device that lists profiles of its own can only be cut; a family's sizes bind the requests that want to be cut.
    """
    profiles = device.profiles or (family.profiles if request.profiled else ())
    return tuple(sorted(profiles, key=lambda p: (p.memory_mib, p.cells))) if len(profiles) > 1 else profiles


def free_start(profile: Profile, device: Device, used: Usage) -> int | None:
    """First legal place of the profile that nobody holds; ``None`` when there is none."""
    taken = used.occupied | device.blocked_cells
    mask = (1 << profile.cells) - 1
    return next((start for start in profile.starts if not taken & mask << start), None)


def has_place(profile: Profile, device: Device, used: Usage) -> bool:
    """Whether one more cut of this profile fits beside those there are."""
    if profile.starts:
        return free_start(profile, device, used) is not None
    if not profile.cells or not device.cells:
        return True
    return used.cells + device.blocked_cells.bit_count() + profile.cells <= device.cells


def covers(
    profile: Profile, family: Family, request: DeviceRequest, memory_mib: int | None, core_units: int, device: Device
) -> bool:
    """Whether a profile reaches what is asked. :param memory_mib: ``None``: the whole device."""
    if isinstance(request.memory, Cells) and profile.cells < request.memory.value:
        return False
    if "memory" in family.profile_covers and profile.memory_mib < (memory_mib or 0):
        return False
    if "core" in family.profile_covers and profile.core_units < core_units:
        return False
    return memory_mib is not None or profile.memory_mib == _largest_mib(device, family)


def cut(
    device: Device,
    family: Family,
    request: DeviceRequest,
    profiles: tuple[Profile, ...],
    used: Usage,
    memory_mib: int | None,
    core_units: int,
) -> Share | Reason:
    """The share of the smallest profile that covers the request and has a place, or why there is none.

    :param profiles: smallest first. :param memory_mib: asked memory; ``None``: the whole device, that is the largest.
    :returns: ``NO_PROFILE`` when none is large enough, ``NOT_ENOUGH_CELLS`` when no large enough one has a place.
    """
    large_enough = [p for p in profiles if covers(p, family, request, memory_mib, core_units, device)]
    if not large_enough:
        return Reason.NO_PROFILE
    accounts = family.placing.accounts
    lack = Reason.NOT_ENOUGH_CELLS
    for profile in large_enough:
        if not has_place(profile, device, used):
            continue
        cores = profile.core_units or core_units
        if "memory" in accounts and used.memory_mib + profile.memory_mib > device.memory_mib:
            lack = Reason.NOT_ENOUGH_MEMORY
        elif "core" in accounts and used.core_units + cores > device.core_units:
            lack = Reason.NOT_ENOUGH_CORES
        else:
            return Share(
                memory_mib=profile.memory_mib,
                core_units=cores,
                profile=profile.name,
                start=free_start(profile, device, used) if profile.starts else None,
                cells=profile.cells,
                labels=request.labels,
            )
    return lack


def _largest_mib(device: Device, family: Family) -> int:
    return max(p.memory_mib for p in device.profiles or family.profiles)
