"""Our devices in the v2.10 register annotation, for readers that know no other."""

from collections.abc import Iterable

from hami_core_py.codecs.v210.register import RegisteredDevice, RegisteredProfile, render_list
from hami_core_py.models.devices import Device, Health, Profile


def render_offer(devices: Iterable[Device], profiles: tuple[Profile, ...] = (), *, profiles_key: str | None) -> str:
    """The JSON form of these devices, sorted by index and id.

    :param profiles: of devices that have none of their own. :param profiles_key: where a device lists them, if anywhere.
    """
    ordered = sorted(devices, key=lambda d: (d.index, d.id))
    return render_list((_registered(d, d.profiles or profiles) for d in ordered), profiles_key=profiles_key)


def _registered(device: Device, profiles: tuple[Profile, ...]) -> RegisteredDevice:
    return RegisteredDevice(
        id=device.id,
        index=device.index,
        slots=device.slots,
        memory_mib=device.memory_mib,
        core_units=device.core_units,
        model=device.model,
        numa=device.numa,
        mode=device.modes[0] if device.modes else "",
        healthy=device.health is Health.HEALTHY,
        profiles=tuple(
            RegisteredProfile(
                name=p.name,
                memory_mib=p.memory_mib,
                core_units=p.core_units,
                cells=p.cells,
                placements=tuple((start, p.cells) for start in p.starts),
            )
            for p in profiles
        ),
    )
