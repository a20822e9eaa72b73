"""The kubelet's device checkpoint: which container holds which device ids, and what its plugin answered.

The file is not an API of the kubelet. Its shape is checked as a whole, so that a kubelet that changes it is noticed rather
than half understood; whoever reads it has another way to fall back on.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from hami_core_py.errors import BadInputError

CHECKPOINT_FILE = "kubelet_internal_checkpoint"
"""Name of the file, beside the plugins' sockets."""


class CheckpointError(BadInputError):
    """The checkpoint cannot be read, or has a shape we do not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointEntry:
    """The ids of one resource that one container holds.

    :ivar container: init containers have entries too.
    :ivar ids: all of them, whatever NUMA node they are near.
    :ivar answer: the plugin's serialized ``ContainerAllocateResponse``.
    """

    pod_uid: str
    container: str
    resource: str
    ids: frozenset[str]
    answer: bytes


def parse_checkpoint(text: bytes, where: str) -> tuple[CheckpointEntry, ...]:
    """All entries of the file, in its order; empty when no container holds a device.

    :raises CheckpointError: it is torn, or has another shape.
    """
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise CheckpointError(where, "the kubelet's checkpoint, a JSON object", str(problem)) from problem
    data = document.get("Data") if isinstance(document, dict) else None
    if not isinstance(data, dict) or "PodDeviceEntries" not in data:
        raise CheckpointError(where, "an object with Data.PodDeviceEntries", _shown(document))
    entries = data["PodDeviceEntries"]
    if entries is None:
        return ()
    if not isinstance(entries, list):
        raise CheckpointError(f"{where}: Data.PodDeviceEntries", "a list", _shown(entries))
    return tuple(_entry(one, f"{where}: entry {number}") for number, one in enumerate(entries))


def render_checkpoint(entries: tuple[CheckpointEntry, ...]) -> bytes:
    """The text of these entries as a kubelet writes it, without NUMA knowledge and checksum."""
    found = [
        {
            "PodUID": entry.pod_uid,
            "ContainerName": entry.container,
            "ResourceName": entry.resource,
            "DeviceIDs": {"-1": sorted(entry.ids)},
            "AllocResp": base64.b64encode(entry.answer).decode(),
        }
        for entry in entries
    ]
    return orjson.dumps({"Data": {"PodDeviceEntries": found or None, "RegisteredDevices": {}}, "Checksum": 0})


def _entry(one: Any, where: str) -> CheckpointEntry:
    if not isinstance(one, Mapping):
        raise CheckpointError(where, "an object", _shown(one))
    texts = {}
    for key in ("PodUID", "ContainerName", "ResourceName", "AllocResp"):
        value = one.get(key)
        if not isinstance(value, str):
            raise CheckpointError(f"{where}: {key}", "text", _shown(value))
        texts[key] = value
    by_numa = one.get("DeviceIDs")
    if not isinstance(by_numa, Mapping):
        raise CheckpointError(f"{where}: DeviceIDs", "lists of ids by NUMA node", _shown(by_numa))
    ids: set[str] = set()
    for names in by_numa.values():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise CheckpointError(f"{where}: DeviceIDs", "lists of ids by NUMA node", _shown(names))
        ids.update(names)
    try:
        answer = base64.b64decode(texts["AllocResp"], validate=True)
    except binascii.Error as problem:
        raise CheckpointError(f"{where}: AllocResp", "base64", str(problem)) from problem
    return CheckpointEntry(
        pod_uid=texts["PodUID"],
        container=texts["ContainerName"],
        resource=texts["ResourceName"],
        ids=frozenset(ids),
        answer=answer,
    )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
