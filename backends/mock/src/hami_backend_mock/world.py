"""The file of invented devices: what it may say, and what one node has of it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hami_backend_mock.lines import Document, Place
from hami_backend_mock.tables import read_as
from hami_core_py.models.devices import Device, DeviceId, Health
from hami_core_py.models.families import Family

KEYS = ("families", "devices", "nodes")
REPEAT = "count"


@dataclass(frozen=True)
class World:
    """Everything one file says.

    :ivar families: invented kinds of device; devices of installed backends' families need none here.
    :ivar devices: on every node that ``nodes`` does not name.
    :ivar nodes: node name → its devices.
    """

    families: tuple[Family, ...] = ()
    devices: tuple[Device, ...] = ()
    nodes: tuple[tuple[str, tuple[Device, ...]], ...] = ()

    def on(self, node: str) -> tuple[Device, ...]:
        """Devices of one node; ids and places in the order of the file."""
        return dict(self.nodes).get(node, tuple(_at_home(device, node) for device in self.devices))


def read_world(path: Path | None) -> World:
    """Read the file; without one there is nothing. :raises SettingsError: names file, line and field."""
    if path is None:
        return World()
    document = Document(path)
    content = document.content or {}
    if not isinstance(content, dict):
        raise document.wrong((), f"a mapping with {', '.join(KEYS)}", type(content).__name__)
    for key in content:
        if key not in KEYS:
            raise document.wrong((key,), f"one of {', '.join(KEYS)}", "an unknown key")
    nodes = content.get("nodes") or {}
    if not isinstance(nodes, dict):
        raise document.wrong(("nodes",), "node names with their devices", type(nodes).__name__)
    families = tuple(
        read_as(Family, value, document, ("families", i))
        for i, value in enumerate(_list(content, document, ("families",)))
    )
    return World(
        families=families,
        devices=_devices(content, document, ("devices",)),
        nodes=tuple((str(name), _devices(nodes, document, ("nodes", name))) for name in nodes),
    )


def _devices(parent: dict[str, Any], document: Document, place: Place) -> tuple[Device, ...]:
    """Devices of one list. ``count: 4`` in an entry makes four alike; ``{index}`` in their id is their position."""
    found: list[Device] = []
    for i, entry in enumerate(_list(parent, document, place)):
        here = (*place, i)
        if not isinstance(entry, dict):
            raise document.wrong(here, "a mapping", type(entry).__name__)
        repeat = entry.get(REPEAT, 1)
        if not isinstance(repeat, int) or isinstance(repeat, bool) or not 0 <= repeat <= 1024:
            raise document.wrong((*here, REPEAT), "a whole number from 0 to 1024", repr(repeat))
        value = {key: inner for key, inner in entry.items() if key != REPEAT}
        for _ in range(repeat):
            position = len(found)
            named = {"id": "{family}-{node}-{index}", "index": position, **value}
            device: Device = read_as(Device, named, document, here)
            _check(device, document, here)
            identity = str(device.id).replace("{index}", str(position)).replace("{family}", device.family)
            if len(place) > 1:
                identity = identity.replace("{node}", str(place[1]))
            if any(other.id == identity for other in found):
                raise document.wrong((*here, "id"), "a different id", repr(identity), "write {index} into it")
            found.append(replace(device, id=DeviceId(identity)))
    return tuple(found)


def _check(device: Device, document: Document, place: Place) -> None:
    for field in ("slots", "memory_mib", "core_units", "cells", "index"):
        if getattr(device, field) < 0:
            raise document.wrong((*place, field), "a whole number from 0", str(getattr(device, field)))


def _list(parent: dict[str, Any], document: Document, place: Place) -> list[Any]:
    value = parent.get(str(place[-1])) or []
    if not isinstance(value, list):
        raise document.wrong(place, "a list", type(value).__name__)
    return value


def _at_home(device: Device, node: str) -> Device:
    """A device of the list for all nodes, with an id of its own on each."""
    return replace(device, id=DeviceId(str(device.id).replace("{node}", node)))


def is_healthy(device: Device) -> bool:
    """Whether the file says so."""
    return device.health is Health.HEALTHY
