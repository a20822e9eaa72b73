"""The native dialect: a node's inventory, the shares of a pod, and the proof of who wrote them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from hami_core_py.codecs.fields import MAX_AMOUNT, Fields, parse_json, render_json, shown
from hami_core_py.codecs.times import parse_time, render_time
from hami_core_py.errors import InventoryError, RecordError
from hami_core_py.models.allocations import RecordedShare
from hami_core_py.models.devices import Device, DeviceId, Health, Profile, Share

RECORD: Final = "hami.io/device-allocated"
PROOF: Final = "hami.io/device-allocated-proof"
BIND_NODE: Final = "hami.io/bind-node"
BIND_PHASE: Final = "hami.io/device-bind-phase"

VERSION: Final = 1
"""Of the inventory and of the record, raised when an older reader would misunderstand a newer text."""

MAX_CELLS: Final = 1024
"""Most cells a device can have; bounds the bit masks that a hostile text could ask for."""

Identity = Literal["late", "ordered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInventory:
    """What our node agent says about one backend's devices on its node.

    :ivar devices: sorted by family, index and id.
    :ivar identity: how its Allocate learns whose container it serves; ``ordered`` needs the v2.10 work list and node lock.
    """

    devices: tuple[Device, ...]
    identity: Identity = "late"
    backend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What stands beside a record: who wrote it, and when.

    :ivar at_ns: nanoseconds since the Unix epoch, 0 when unknown. :ivar epoch: of the scheduler that wrote it.
    """

    at_ns: int = 0
    epoch: int = 0


def inventory_key(backend: str) -> str:
    """The node annotation that holds a backend's inventory."""
    return f"hami.io/node-{backend}-inventory"


def render_inventory(backend: str, devices: Iterable[Device], identity: Identity) -> str:
    """The inventory annotation's text; equal devices in any order give the same text."""
    ordered = sorted(devices, key=lambda d: (d.family, d.index, d.id))
    return render_json(
        {"version": VERSION, "backend": backend, "identity": identity, "devices": [_device_fields(d) for d in ordered]}
    )


def parse_inventory(text: str, where: str) -> NodeInventory:
    """Read an inventory annotation. Fields that are not known are skipped.

    :param where: names the text in errors, such as ``node n1: hami.io/node-acme-inventory``.
    :raises InventoryError: the text is no inventory of this version, or a device is not as it should be.
    """
    fields = Fields(parse_json(text, where, InventoryError), where, InventoryError)
    _check_version(fields.whole("version"), where, InventoryError)
    identity = fields.text("identity")
    if identity not in get_args(Identity):
        raise InventoryError(f"{where}: identity", " or ".join(get_args(Identity)), shown(identity))
    devices = tuple(_device(value, f"{where}: device {i}") for i, value in enumerate(fields.items("devices")))
    refuse_doubles((d.id for d in devices), where)
    devices = tuple(sorted(devices, key=lambda d: (d.family, d.index, d.id)))
    return NodeInventory(devices=devices, identity=identity, backend=fields.text("backend"))  # type: ignore[arg-type]


def refuse_doubles(ids: Iterable[str], where: str) -> None:
    """:raises InventoryError: one id stands for two devices."""
    seen: set[str] = set()
    for device in ids:
        if device in seen:
            raise InventoryError(where, "every device once", f"{device!r} twice")
        seen.add(device)


def render_shares(shares: Sequence[RecordedShare]) -> str:
    """The record annotation's text: one object per share, in the given order."""
    return render_json([_share_fields(share) for share in shares])


def parse_shares(text: str, where: str) -> tuple[RecordedShare, ...]:
    """Read a record annotation. Fields that are not known are skipped.

    :raises RecordError: an entry is not as it should be, or two claim one seat; it names no node and no devices yet.
    """
    values = parse_json(text, where, RecordError)
    if not isinstance(values, list):
        raise RecordError(where, "a list of shares", shown(values))
    shares = tuple(_share(value, f"{where}: share {i}") for i, value in enumerate(values))
    seats: set[tuple[str, str, int | None]] = set()
    for i, share in enumerate(shares):
        seat = (share.container, share.device, share.share.start)
        if seat in seats:
            raise RecordError(f"{where}: share {i}", "every seat once", f"{seat[1]!r} twice in container {seat[0]!r}")
        seats.add(seat)
    return shares


def readable_devices(text: str) -> frozenset[str]:
    """The device ids that a record names, as far as it can be read; empty when it cannot."""
    try:
        values = parse_json(text, "", RecordError)
    except RecordError:
        return frozenset()
    entries = values if isinstance(values, list) else [values]
    ids = (entry.get("uuid") for entry in entries if isinstance(entry, dict))
    return frozenset(i for i in ids if isinstance(i, str) and i)


def render_proof(proof: Proof) -> str:
    """The proof annotation's text."""
    return render_json({"version": VERSION, "time": render_time(proof.at_ns), "epoch": proof.epoch})


def parse_proof(text: str, where: str) -> Proof:
    """Read a proof annotation. :raises RecordError: it is no proof of this version."""
    fields = Fields(parse_json(text, where, RecordError), where, RecordError)
    _check_version(fields.whole("version"), where, RecordError)
    at_ns = parse_time(fields.text("time"), f"{where}: time", RecordError)
    return Proof(at_ns=at_ns, epoch=fields.whole("epoch", highest=2**63 - 1))


def _check_version(version: int, where: str, error: type[InventoryError] | type[RecordError]) -> None:
    if version != VERSION:
        raise error(f"{where}: version", str(VERSION), str(version), "upgrade the older side")


def _device_fields(device: Device) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": device.id,
        "family": device.family,
        "index": device.index,
        "model": device.model,
        "slots": device.slots,
        "memory": device.memory_mib,
        "cores": device.core_units,
        "numa": device.numa,
        "healthy": device.health is Health.HEALTHY,
    }
    optional: Mapping[str, Any] = {
        "modes": list(device.modes),
        "groups": dict(sorted(device.groups.items())),
        "links": dict(sorted(device.links.items())),
        "facts": dict(sorted(device.facts.items())),
        "cells": device.cells,
        "blocked": f"{device.blocked_cells:x}" if device.blocked_cells else "",
        "profiles": [_profile_fields(profile) for profile in device.profiles],
    }
    return fields | {name: value for name, value in optional.items() if value}


def _profile_fields(profile: Profile) -> dict[str, Any]:
    return {
        "name": profile.name,
        "memory": profile.memory_mib,
        "cores": profile.core_units,
        "cells": profile.cells,
        "starts": list(profile.starts),
    }


def _device(values: object, where: str) -> Device:
    fields = Fields(values, where, InventoryError)
    cells = fields.whole("cells", 0, highest=MAX_CELLS)
    links = fields.table("links")
    groups = fields.table("groups")
    if not all(type(score) is int and abs(score) <= MAX_AMOUNT for score in links.values()):
        raise InventoryError(f"{where}: links", "a whole number for every peer", shown(links))
    if not all(isinstance(value, str) for value in groups.values()):
        raise InventoryError(f"{where}: groups", "a text for every group", shown(groups))
    return Device(
        id=DeviceId(fields.text("id")),
        family=fields.text("family"),
        index=fields.whole("index"),
        model=fields.text("model", ""),
        slots=fields.whole("slots"),
        memory_mib=fields.whole("memory"),
        core_units=fields.whole("cores"),
        numa=fields.whole("numa", 0),
        health=Health.HEALTHY if fields.flag("healthy", False) else Health.UNHEALTHY,
        modes=fields.texts("modes"),
        groups=groups,
        links={DeviceId(peer): score for peer, score in links.items()},
        facts=fields.table("facts"),
        cells=cells,
        blocked_cells=_mask(fields.text("blocked", ""), cells, f"{where}: blocked"),
        profiles=tuple(_profile(p, f"{where}: profile {i}") for i, p in enumerate(fields.items("profiles"))),
    )


def _mask(text: str, cells: int, where: str) -> int:
    """A bit mask in hexadecimal digits, because JSON numbers end where large masks begin."""
    if not text:
        return 0
    if len(text) > MAX_CELLS // 4 or not set(text) <= set("0123456789abcdef") or int(text, 16) >> cells:
        raise InventoryError(where, f"hexadecimal digits for {cells} cells", shown(text))
    return int(text, 16)


def _profile(values: object, where: str) -> Profile:
    fields = Fields(values, where, InventoryError)
    cells = fields.whole("cells", 0, highest=MAX_CELLS)
    starts = fields.items("starts")
    if not all(type(start) is int and 0 <= start < MAX_CELLS for start in starts):
        raise InventoryError(f"{where}: starts", f"cells from 0 to {MAX_CELLS - 1}", shown(starts))
    return Profile(
        name=fields.text("name", ""),
        memory_mib=fields.whole("memory"),
        core_units=fields.whole("cores", 0),
        cells=cells,
        starts=tuple(starts),
    )


def _share_fields(recorded: RecordedShare) -> dict[str, Any]:
    share = recorded.share
    fields: dict[str, Any] = {
        "container": recorded.container,
        "type": recorded.family,
        "model": recorded.model,
        "uuid": recorded.device,
        "memory": share.memory_mib,
        "cores": share.core_units,
        "slots": share.slots,
        "numa": recorded.numa,
    }
    if share.profile:
        fields["profile"] = share.profile
    if share.start is not None:
        fields["start"] = share.start
    if share.cells:
        fields["cells"] = share.cells
    if share.labels:
        fields["labels"] = list(share.labels)
    return fields


def _share(values: object, where: str) -> RecordedShare:
    fields = Fields(values, where, RecordError)
    start = fields.whole("start", -1, highest=MAX_CELLS)
    return RecordedShare(
        container=fields.text("container", ""),
        family=fields.text("type"),
        model=fields.text("model", ""),
        device=DeviceId(fields.text("uuid")),
        numa=fields.whole("numa", 0),
        share=Share(
            slots=fields.whole("slots", highest=1),
            memory_mib=fields.whole("memory"),
            core_units=fields.whole("cores"),
            profile=fields.text("profile", ""),
            start=None if start < 0 else start,
            cells=fields.whole("cells", 0, highest=MAX_CELLS),
            labels=fields.texts("labels"),
        ),
    )
