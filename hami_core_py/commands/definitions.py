"""A backend as the Helm chart sees it: one page of data, written from the backend itself.

Helm runs no Python, so everything that templates need of a vendor travels as a values file. What the core knows is read
from the backend's identity, settings and families; what only its author knows, such as how its node agent's pod must look,
lies in a file ``chart.yaml`` of the backend's package.
"""

import importlib.resources
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from pydantic import BaseModel

from hami_core_py.codecs.native import inventory_key
from hami_core_py.errors import BackendError
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.models.families import AnnotatedDevices, Family, Handshake

AUTHORED: Final = "chart.yaml"
AUTHORED_KEYS: Final = ("agent", "settings", "files", "aliases", "everyPod", "monitorWrites", "figures")
"""What ``chart.yaml`` may say; ``agent: null`` means that there is no node agent to run."""

_AGENT_HOOKS: Final = frozenset({"hami_discover_devices", "hami_allocate"})
_MONITOR_HOOK: Final = "hami_collect_metrics"


def definition(backend: LoadedBackend) -> dict[str, Any]:
    """Everything about a backend that the chart's templates use, by the keys of the chart's schema.

    :raises BackendError: its ``chart.yaml`` cannot be read.
    """
    authored = _authored(backend)
    settings = {**_settings(backend), **authored.get("settings", {})}
    found: dict[str, Any] = {
        "vendor": backend.info.vendor or backend.info.name,
        "section": backend.info.section or backend.info.name,
        "standsIn": backend.info.stands_in,
        "settings": settings,
        "managed": list(_managed(backend.families, settings)),
        "bookkeeping": {"pods": _pod_keys(backend), "nodes": _node_keys(backend)},
    }
    if set(backend.hooks) >= _AGENT_HOOKS and authored.get("agent", {}) is not None:
        found["agent"] = {"monitor": _MONITOR_HOOK in backend.hooks, **authored.get("agent", {})}
    for key in AUTHORED_KEYS[2:]:
        if authored.get(key):
            found[key] = authored[key]
    return found


def values_file(backend: LoadedBackend) -> str:
    """The definition as a values file: what ``helm install -f`` takes, and what lies in the chart for our own backends."""
    head = f"# Written by `hami backends chart {backend.info.name}`; overrides belong under backends.{backend.info.name}.\n"
    content = {"backends": {"definitions": {backend.info.name: definition(backend)}}}
    return head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)


def _settings(backend: LoadedBackend) -> dict[str, Any]:
    """The section's defaults, as they are written into the device configuration."""
    model = backend.info.settings
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return {}
    dumped: dict[str, Any] = _plain(model().model_dump(mode="python", by_alias=True))
    return dumped


def _plain(value: Any) -> Any:
    """Values that YAML has; sets in order."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(_plain(one) for one in value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _managed(families: tuple[Family, ...], settings: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Resource names with their roles; where a setting holds the name, the setting, so that renaming it is one edit."""
    places = dict(_texts(settings, ""))
    seen = set()
    for family in families:
        resources = family.resources
        roles = {
            "count": resources.count,
            "memory": resources.memory,
            "memoryPercent": resources.memory_percent,
            "core": resources.core,
            "priority": resources.priority,
        }
        for role, name in roles.items():
            if not name:
                continue
            place = places.get(name)
            entry = {"role": role, "setting": place} if place else {"role": role, "name": name}
            if str(entry) not in seen:
                seen.add(str(entry))
                yield entry


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Every text below a value, with where it is: ``resourceName``, ``configs[].resourceName``."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _texts(one, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, f"{path}[]")
    elif isinstance(value, str) and value:
        yield value, path


def _pod_keys(backend: LoadedBackend) -> list[str]:
    spellings = [family.v210 for family in backend.families if family.v210 is not None]
    keys = {key for one in spellings for key in (one.allocated, one.to_allocate) if key}
    return sorted(keys | set(backend.info.annotations))


def _node_keys(backend: LoadedBackend) -> list[str]:
    keys = {inventory_key(backend.info.name)}
    for family in backend.families:
        if isinstance(family.inventory, AnnotatedDevices):
            table = family.inventory
            keys |= {key for key in (table.key, table.profiles_key, table.links_key) if key}
        if isinstance(family.liveness, Handshake):
            keys.add(family.liveness.key)
        if family.lock is not None:
            keys.add(family.lock.key)
    return sorted(keys)


def _authored(backend: LoadedBackend) -> dict[str, Any]:
    """What the backend's package says of its chart; empty when it says nothing."""
    module = str(getattr(backend.plugin, "__package__", None) or getattr(backend.plugin, "__name__", ""))
    try:
        file = importlib.resources.files(module).joinpath(AUTHORED)
    except (ImportError, TypeError, ValueError):
        return {}  # a plugin that lies in no package has no files
    if not file.is_file():
        return {}
    try:
        said = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise BackendError(backend.info.name, "", f"{AUTHORED}: {' '.join(str(problem).split())}") from problem
    if not isinstance(said, dict) or not set(said) <= set(AUTHORED_KEYS):
        raise BackendError(
            backend.info.name, "", f"{AUTHORED}: expected keys {', '.join(AUTHORED_KEYS)}, got {said!r:.200}"
        )
    return said
