"""Inventories that a v2.10 node plugin writes into a node annotation: delimited text, or a JSON list."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hami_core_py.codecs.fields import Fields, folded, parse_json, render_json, shown
from hami_core_py.codecs.v210.numbers import INT32_MIN, parse_flag, parse_int
from hami_core_py.errors import InventoryError
from hami_core_py.models.devices import no_facts

OLD_WIDTH: Final = 7
WIDTH: Final = 9
OLD_MODE: Final = "hami-core"
"""Mode of a device in the old text form, which had no field for it."""

_MAX_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredProfile:
    """A size a device can be cut into; ``placements`` are pairs of first cell and number of cells."""

    name: str
    memory_mib: int
    core_units: int
    cells: int
    placements: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredDevice:
    """One device as the plugin states it. Numbers may be negative here: what they mean is judged by the reader."""

    id: str
    index: int = 0
    slots: int = 0
    memory_mib: int = 0
    core_units: int = 0
    model: str = ""
    numa: int = 0
    mode: str = ""
    healthy: bool = False
    profiles: tuple[RegisteredProfile, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=no_facts)
    vendor: str = ""


def parse_text(text: str, where: str) -> tuple[RegisteredDevice, ...]:
    """Read the delimited form; ``:`` alone means no devices.

    :raises InventoryError: one record of it is wrong; nothing of a half-readable text is used.
    """
    if ":" not in text:
        raise InventoryError(where, "device records, each ended by ':'", shown(text))
    records = [piece for piece in text.split(":") if piece]
    return tuple(_record(piece, f"{where}: device {i}") for i, piece in enumerate(records))


def render_text(devices: Iterable[RegisteredDevice]) -> str:
    """Write the delimited form, nine fields each. :raises InventoryError: a field holds a delimiter."""
    return "".join(_render_record(device) for device in devices)


def parse_list(text: str, where: str, *, profiles_key: str | None = None) -> tuple[RegisteredDevice, ...]:
    """Read the JSON form. Keys count in any case, unknown ones are skipped, and a missing value is the zero of its kind.

    :param profiles_key: the key of a device that lists its profiles; ``None``: this family has none.
    :raises InventoryError: the text is no list of devices.
    """
    values = parse_json(text, where, InventoryError)
    if values is None:
        return ()
    if not isinstance(values, list):
        raise InventoryError(where, "a list of devices", shown(values))
    return tuple(_device(value, f"{where}: device {i}", profiles_key) for i, value in enumerate(values))


def render_list(devices: Iterable[RegisteredDevice], *, profiles_key: str | None = None) -> str:
    """Write the JSON form as our agent does for older readers: zeros left out, neither facts nor vendor."""
    return render_json([_render_device(device, profiles_key) for device in devices])


def _record(piece: str, where: str) -> RegisteredDevice:
    if "," not in piece:
        raise InventoryError(where, f"{WIDTH} fields joined by ','", shown(piece))
    fields = piece.split(",")
    if len(fields) not in (OLD_WIDTH, WIDTH):
        raise InventoryError(where, f"{OLD_WIDTH} or {WIDTH} fields", f"{len(fields)}: {shown(piece)}")
    device, slots, memory, cores, model, numa, healthy, *rest = fields
    index, mode = rest or ("0", OLD_MODE)
    return RegisteredDevice(
        id=device,
        slots=parse_int(slots, f"{where}: count", InventoryError),
        memory_mib=parse_int(memory, f"{where}: memory", InventoryError),
        core_units=parse_int(cores, f"{where}: core", InventoryError),
        model=model,
        healthy=parse_flag(healthy, f"{where}: health", InventoryError),
        numa=parse_int(numa, f"{where}: numa", InventoryError, lowest=-_MAX_INT64, highest=_MAX_INT64),
        index=parse_int(index, f"{where}: index", InventoryError, lowest=0, highest=_MAX_INT64),
        mode=mode,
    )


def _render_record(device: RegisteredDevice) -> str:
    health = "true" if device.healthy else "false"
    numbers = (device.slots, device.memory_mib, device.core_units)
    fields = (device.id, *map(str, numbers), device.model, str(device.numa), health, str(device.index), device.mode)
    for text in (device.id, device.model, device.mode):
        if "," in text or ":" in text:
            raise InventoryError(f"device {device.id}", "texts without ',' and ':'", shown(text))
    return ",".join(fields) + ":"


def _device(values: object, where: str, profiles_key: str | None) -> RegisteredDevice:
    fields = _fields(values, where)
    profiles = fields.items(profiles_key.lower()) if profiles_key else []
    return RegisteredDevice(
        id=fields.text("id", ""),
        index=fields.whole("index", 0, highest=2 * _MAX_INT64 + 1),
        slots=fields.whole("count", 0, lowest=INT32_MIN),
        memory_mib=fields.whole("devmem", 0, lowest=INT32_MIN),
        core_units=fields.whole("devcore", 0, lowest=INT32_MIN),
        model=fields.text("type", ""),
        numa=fields.whole("numa", 0, lowest=-_MAX_INT64, highest=_MAX_INT64),
        mode=fields.text("mode", ""),
        healthy=fields.flag("health", False),
        profiles=tuple(_profile(p, f"{where}: profile {i}") for i, p in enumerate(profiles)),
        facts=fields.table("custominfo"),
        vendor=fields.text("devicevendor", ""),
    )


def _profile(values: object, where: str) -> RegisteredProfile:
    fields = _fields(values, where)
    places = [_fields(value, f"{where}: placement {i}") for i, value in enumerate(fields.items("placements"))]
    return RegisteredProfile(
        name=fields.text("name", ""),
        memory_mib=fields.whole("memorymb", 0),
        core_units=fields.whole("core", 0),
        cells=fields.whole("slicecount", 0),
        placements=tuple((place.whole("start", 0), place.whole("size", 0)) for place in places),
    )


def _fields(values: object, where: str) -> Fields:
    return Fields(folded(values), where, InventoryError)


def _render_device(device: RegisteredDevice, profiles_key: str | None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": device.id,
        "index": device.index,
        "count": device.slots,
        "devmem": device.memory_mib,
        "devcore": device.core_units,
        "type": device.model,
        "numa": device.numa,
        "mode": device.mode,
    }
    if profiles_key:
        fields[profiles_key] = [_render_profile(profile) for profile in device.profiles]
    fields["health"] = device.healthy
    return {name: value for name, value in fields.items() if value}


def _render_profile(profile: RegisteredProfile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "memoryMB": profile.memory_mib,
        "core": profile.core_units,
        "sliceCount": profile.cells,
        "placements": [{"start": start, "size": size} for start, size in profile.placements],
    }
