"""A local process held to a share of this machine's devices, without any cluster: what a container would get, in a folder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hami_core_py.errors import BackendError, BadInputError, HamiError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.models.allocations import Allocation, Mount
from hami_core_py.models.devices import Device, Share
from hami_core_py.services.agent.files import put
from hami_core_py.services.agent.holdings import SHARED
from hami_core_py.services.agent.hostfiles import HostFiles


@dataclass(frozen=True)
class Local:
    """What a process needs so that it is held to its share."""

    env: Mapping[str, str]
    mounts: tuple[Mount, ...]
    devices: tuple[Device, ...]


def prepare(
    ask: Ask, folder: Path, *, memory_mib: int | None, core_percent: int | None, devices: Sequence[str] = ()
) -> Local:
    """Fill a folder with what holds a process to a share. May block.

    :param folder: belongs to the process from now on; it must outlive it.
    :param memory_mib: of each device; ``None``: all of it. :param core_percent: likewise.
    :param devices: ids or positions; empty: the first device.
    :raises HamiError: there is no such device, or nothing that would hold a process.
    """
    backend, chosen = _choose(ask, devices)
    host = HostFiles(folder).install(backend)
    if host is None:
        name = backend.info.name
        raise HamiError(f"backend {name!r} of this installation has no limiter, so nothing would hold the program")
    pairs = tuple((device, _share(device, memory_mib, core_percent)) for device in chosen)
    directory = folder / "container"
    (directory / SHARED).mkdir(parents=True)
    grant = ask.allocate(
        Allocation(
            family=chosen[0].family,
            pod_uid="local",
            namespace="local",
            pod="local",
            container="local",
            pairs=pairs,
            directory=str(directory),
            host_directory=str(host),
        )
    )
    for name, content in sorted(grant.files.items()):
        put(directory / name, content.encode())
    return Local(grant.env, grant.mounts, chosen)


def _choose(ask: Ask, wanted: Sequence[str]) -> tuple[LoadedBackend, tuple[Device, ...]]:
    """Devices of one family, and the backend that owns it."""
    found: list[Device] = []
    problems = []
    for backend in ask.backends.loaded:
        try:
            found += ask.discover_devices(backend)
        except (BackendError, BadInputError) as problem:
            problems.append(str(problem))
    found.sort(key=lambda device: (device.family, device.index, device.id))
    if not found:
        raise HamiError(
            "; ".join(problems) or "this machine has no device of an installed backend; see `hami backends`"
        )
    known = ", ".join(f"{position} ({device.id})" for position, device in enumerate(found))
    chosen = []
    for text in wanted or ("0",):
        matching = [d for position, d in enumerate(found) if text in (str(d.id), str(position))]
        if not matching:
            raise BadInputError("--device", "a device of this machine", repr(text), f"known: {known}")
        chosen.append(matching[0])
    families = {device.family for device in chosen}
    if len(families) > 1:
        raise BadInputError("--device", "devices of one family", ", ".join(sorted(families)))
    return ask.owner(chosen[0].family), tuple({device.id: device for device in chosen}.values())


def _share(device: Device, memory_mib: int | None, core_percent: int | None) -> Share:
    if memory_mib is not None and memory_mib > device.memory_mib:
        raise BadInputError("--memory", f"at most {device.memory_mib}Mi, which {device.id} has", f"{memory_mib}Mi")
    cores = device.core_units if core_percent is None else -(-device.core_units * core_percent // 100)
    return Share(memory_mib=device.memory_mib if memory_mib is None else memory_mib, core_units=cores)
