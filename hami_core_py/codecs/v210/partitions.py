"""Reserved hardware partitions of a pod, a JSON list; the keys are as the node plugin that realises them expects."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hami_core_py.codecs.fields import Fields, folded, parse_json, render_json, shown
from hami_core_py.errors import RecordError

_MAX_UINT32: Final = 2**32 - 1
_MAX_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Realised:
    """What a partition is called once it exists."""

    uuid: str
    gpu_instance: int
    compute_instance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """One partition: whose it is, and where it lies.

    :ivar container: index of the container, init first. :ivar position: of the device within the container's list.
    :ivar start: first cell. :ivar cells: number of cells. :ivar realised: ``None`` until it exists.
    """

    container: int
    position: int
    device: str
    profile: str
    start: int
    cells: int
    realised: Realised | None = None


def parse_reservations(text: str, where: str) -> tuple[Reservation, ...]:
    """Read all reservations; an empty text has none.

    :raises RecordError: an entry is incomplete or half realised, or two are for one device of one container.
    """
    if not text:
        return ()
    values = parse_json(text, where, RecordError)
    if values is None:
        return ()
    if not isinstance(values, list):
        raise RecordError(where, "a list of reservations", shown(values))
    found: dict[tuple[int, int], Reservation] = {}
    for i, value in enumerate(values):
        reservation = _reservation(value, f"{where}: reservation {i}")
        place = (reservation.container, reservation.position)
        if place in found:
            raise RecordError(where, "one reservation per device", f"two for container {place[0]}, device {place[1]}")
        found[place] = reservation
    return tuple(found.values())


def render_reservations(reservations: Iterable[Reservation]) -> str:
    """Write reservations in the given order."""
    return render_json([_fields(reservation) for reservation in reservations])


def _reservation(value: object, where: str) -> Reservation:
    values = folded(value)
    fields = Fields(values, where, RecordError)
    place = Fields(folded(fields.table("placement")), f"{where}: placement", RecordError)
    return Reservation(
        container=fields.whole("containerindex", 0),
        position=fields.whole("deviceindex", 0),
        device=fields.text("gpuuuid"),
        profile=fields.text("profile"),
        start=place.whole("start", 0, highest=_MAX_UINT32),
        cells=place.whole("size", lowest=1, highest=_MAX_UINT32),
        realised=_realised(values, fields, where),
    )


def _realised(values: Mapping[str, object], fields: Fields, where: str) -> Realised | None:
    names = ("miguuid", "gpuinstanceid", "computeinstanceid")
    given = [name for name in names if values.get(name) not in (None, "")]
    if not given:
        return None
    if len(given) < len(names):
        raise RecordError(where, f"all of {', '.join(names)} or none", f"only {', '.join(given)}")
    uuid, gpu_instance, compute_instance = names
    return Realised(
        uuid=fields.text(uuid),
        gpu_instance=fields.whole(gpu_instance, highest=_MAX_INT64),
        compute_instance=fields.whole(compute_instance, highest=_MAX_INT64),
    )


def _fields(reservation: Reservation) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "containerIndex": reservation.container,
        "deviceIndex": reservation.position,
        "gpuUUID": reservation.device,
        "profile": reservation.profile,
        "placement": {"start": reservation.start, "size": reservation.cells},
    }
    if reservation.realised is not None:
        fields["migUUID"] = reservation.realised.uuid
        fields["gpuInstanceID"] = reservation.realised.gpu_instance
        fields["computeInstanceID"] = reservation.realised.compute_instance
    return fields
