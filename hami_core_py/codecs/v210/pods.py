"""The devices of a pod: per container, init first, the device records of one family.

``UUID,TYPE,MEMORY,CORES:`` for every device and ``;`` after every container, as in ``;a,ACME,3000,30:b,ACME,3000,30:;``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hami_core_py.codecs.fields import shown
from hami_core_py.codecs.v210.numbers import parse_int
from hami_core_py.errors import RecordError


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevice:
    """One device of one container. Numbers may be negative here: what they mean is judged by the reader."""

    id: str
    type: str
    memory_mib: int
    cores: int


Containers = tuple[tuple[PodDevice, ...], ...]


def render_pod_devices(containers: Iterable[Sequence[PodDevice]]) -> str:
    """One entry per container, empty ones kept.

    An id with a delimiter in it is written as it is, for plugins that know their own ids; nobody can read it back, so our own
    reading never relies on this text alone.
    """
    return "".join("".join(map(_render_device, devices)) + ";" for devices in containers)


def parse_pod_devices(text: str, where: str) -> Containers:
    """Read all containers; the part behind the last ``;`` is one more, usually empty.

    Pieces without ``,`` and fields beyond the fourth are skipped, as every v2.10 reader does.
    :raises RecordError: a device record is too short or holds no numbers; it names no node and no devices yet.
    """
    return tuple(
        tuple(_device(piece, f"{where}: container {i}") for piece in container.split(":") if "," in piece)
        for i, container in enumerate(text.split(";"))
    )


def readable_devices(text: str) -> frozenset[str]:
    """The device ids that a text names, as far as it can be read."""
    pieces = (piece for container in text.split(";") for piece in container.split(":") if "," in piece)
    return frozenset(piece.split(",", maxsplit=1)[0] for piece in pieces) - {""}


def _render_device(device: PodDevice) -> str:
    return f"{device.id},{device.type},{device.memory_mib},{device.cores}:"


def _device(piece: str, where: str) -> PodDevice:
    fields = piece.split(",")
    if len(fields) < 4:
        raise RecordError(where, "id, type, memory and cores joined by ','", shown(piece))
    return PodDevice(
        id=fields[0],
        type=fields[1],
        memory_mib=parse_int(fields[2], f"{where}: memory", RecordError),
        cores=parse_int(fields[3], f"{where}: cores", RecordError),
    )
