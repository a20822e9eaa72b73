"""Container Device Interface: from a qualified device name to the edits its spec asks for."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

log = logging.getLogger(__name__)


class UnresolvableDevices(Exception):
    """No spec, or more than one, defines these devices."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(f"CDI device injection failed: unresolvable CDI devices {', '.join(names)}")


@dataclass(frozen=True, slots=True)
class Edits:
    """What the named devices change in a container, in the order in which it applies."""

    env: Mapping[str, str]
    mounts: Sequence[Mapping[str, Any]]
    device_nodes: Sequence[Mapping[str, Any]]
    hooks: Sequence[Mapping[str, Any]]


def resolve(directory: Path, names: Sequence[str]) -> Edits:
    """The edits of these devices; a spec's own edits come once, before those of its first device.

    :raises UnresolvableDevices: some names have no spec, or two specs.
    """
    found: dict[str, list[tuple[Path, Mapping[str, Any], Mapping[str, Any]]]] = {}
    for path, spec in _specs(directory) if names else ():
        for device in spec.get("devices") or ():
            name = f"{spec['kind']}={device['name']}"
            edits = device.get("containerEdits") or {}
            found.setdefault(name, []).append((path, spec.get("containerEdits") or {}, edits))
    unresolvable = [name for name in names if len(found.get(name, ())) != 1]
    if unresolvable:
        raise UnresolvableDevices(unresolvable)
    applied: list[Mapping[str, Any]] = []
    seen: set[Path] = set()
    for name in dict.fromkeys(names):
        path, common, own = found[name][0]
        if path not in seen:
            applied.append(common)
            seen.add(path)
        applied.append(own)
    pairs = [str(pair).partition("=") for edits in applied for pair in edits.get("env") or ()]
    return Edits(
        env={key: value for key, _, value in pairs},
        mounts=[one for edits in applied for one in edits.get("mounts") or ()],
        device_nodes=[one for edits in applied for one in edits.get("deviceNodes") or ()],
        hooks=[one for edits in applied for one in edits.get("hooks") or ()],
    )


def _specs(directory: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    """All readable specs by file name; a broken one is reported and stops none of the others."""
    specs: list[tuple[Path, Mapping[str, Any]]] = []
    for path in sorted(directory.glob("*")):
        if path.suffix not in {".json", ".yaml", ".yml"} or path.name.startswith("."):
            continue
        try:
            text = path.read_text()
            spec = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
            if not isinstance(spec.get("kind"), str) or not isinstance(spec.get("cdiVersion"), str):
                raise ValueError("expected cdiVersion and kind")
            if not all(isinstance(device.get("name"), str) for device in spec.get("devices") or ()):
                raise ValueError("expected a name for each device")
        except FileNotFoundError:
            continue
        except (ValueError, AttributeError, yaml.YAMLError) as error:
            log.warning("CDI spec left out", extra={"path": str(path), "error": str(error)})
            continue
        specs.append((path, spec))
    return specs
