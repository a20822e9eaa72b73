"""The kubelet's checkpoint file: which container holds which devices, and what its plugin answered.

Device plugins read this file to learn whom they serve, so its shape is the one a real kubelet writes.
"""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "kubelet_internal_checkpoint"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """The devices of one resource that one container holds."""

    pod_uid: str
    container: str
    resource: str
    ids_by_numa: Mapping[int, Sequence[str]]
    """Device ids by NUMA node; node -1 for devices that have none."""
    response: bytes
    """The plugin's ContainerAllocateResponse, serialized."""

    @property
    def ids(self) -> frozenset[str]:
        """All device ids; one that is near two NUMA nodes counts once."""
        return frozenset(one for ids in self.ids_by_numa.values() for one in ids)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything that the file holds."""

    entries: Sequence[Entry]
    registered: Mapping[str, Sequence[str]]
    """Healthy device ids by resource."""


def write(directory: Path, entries: Iterable[Entry], registered: Mapping[str, Iterable[str]]) -> None:
    """Replace the file at once; a reader sees the old one or the new one."""
    data: dict[str, Any] = {
        "PodDeviceEntries": [
            {
                "PodUID": entry.pod_uid,
                "ContainerName": entry.container,
                "ResourceName": entry.resource,
                "DeviceIDs": {str(numa): list(ids) for numa, ids in entry.ids_by_numa.items()},
                "AllocResp": base64.b64encode(entry.response).decode(),
            }
            for entry in entries
        ]
        or None,
        "RegisteredDevices": {resource: sorted(ids) for resource, ids in registered.items()},
    }
    temporary = directory / f".{NAME}.{os.getpid()}"
    temporary.write_text(json.dumps({"Data": data, "Checksum": checksum(data)}))
    temporary.replace(directory / NAME)


def read(directory: Path) -> Checkpoint | None:
    """What the file holds; None when there is none, or when it is damaged."""
    path = directory / NAME
    try:
        document = json.loads(path.read_text())
        data = document["Data"]
        if document["Checksum"] != checksum(data):
            raise ValueError("the checksum does not match")
        entries = [
            Entry(
                pod_uid=one["PodUID"],
                container=one["ContainerName"],
                resource=one["ResourceName"],
                ids_by_numa={int(numa): tuple(ids) for numa, ids in one["DeviceIDs"].items()},
                response=base64.b64decode(one["AllocResp"]),
            )
            for one in data["PodDeviceEntries"] or ()
        ]
        return Checkpoint(entries, {name: tuple(ids) for name, ids in data["RegisteredDevices"].items()})
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("checkpoint is damaged, going on without it", extra={"path": str(path), "error": str(error)})
        return None


def checksum(data: Mapping[str, Any]) -> int:
    """FNV-1a of the content; 32 bits, as wide as a real kubelet's."""
    value = 0x811C9DC5
    for byte in json.dumps(data, sort_keys=True).encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value
