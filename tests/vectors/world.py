"""Backends of one configuration: the installed one for NVIDIA, tables for all others."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import hami_backend_nvidia.plugin as nvidia

from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.services.tables import CoreDefaults
from tests.vectors.files import Vector, changed, default_config
from tests.vectors.vendors import Vendors

NEEDS_OWN_RULES = frozenset({"Metax-SGPU", "Enflame", "AWSNeuron"})
"""Families whose requests and inventories only their own backend can read."""

FLAGS: Mapping[str, Any] = {
    "schedulerName": "hami-scheduler",
    "nodeSchedulerPolicy": "binpack",
    "gpuSchedulerPolicy": "spread",
    "forceOverwriteDefaultScheduler": True,
}


def ask_for(vector: Vector) -> Ask:
    """The façade over the backends of a vector's configuration."""
    return _ask(json.dumps(vector.config, sort_keys=True))


def flags_of(vector: Vector) -> dict[str, Any]:
    """The scheduler's flags for a vector."""
    return {**FLAGS, **vector.flags}


@lru_cache(maxsize=32)
def _ask(changes: str) -> Ask:
    config = changed(default_config(), json.loads(changes))
    # A key that a vector removes has no value in v2.10; ours would take its default for one that is missing.
    removed = {key: None for key, value in json.loads(changes).get("nvidia", {}).items() if value is None}
    backends = load_backends(
        plugins=[("nvidia", nvidia), ("vendors", Vendors(config))],
        sections={"nvidia": {**config.get("nvidia", {}), **removed}},
        defaults=CoreDefaults(),
    )
    return Ask(backends)


def default_families() -> Mapping[str, Any]:
    """All families of the default configuration."""
    return _ask("{}").families


def resources_named(pod: Any, ask: Ask) -> set[str]:
    """Names of the families whose resources a pod names anywhere in its containers; empty for what is no pod."""
    owners = {name: family.name for family in ask.families.values() for name in family.resources.names()}
    spec = pod.get("spec") if isinstance(pod, Mapping) else None
    containers = [*(spec or {}).get("initContainers", ()), *(spec or {}).get("containers", ())]
    amounts = [c.get("resources") or {} for c in containers if isinstance(c, Mapping)]
    names = {name for a in amounts for part in ("limits", "requests") for name in a.get(part) or ()}
    return {owners[name] for name in names if name in owners}
