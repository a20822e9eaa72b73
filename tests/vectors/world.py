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
    backends = load_backends(
        plugins=[("nvidia", nvidia), ("vendors", Vendors(config))],
        sections={"nvidia": config.get("nvidia", {})},
        defaults=CoreDefaults(),
    )
    return Ask(backends)


def default_families() -> Mapping[str, Any]:
    """All families of the default configuration."""
    return _ask("{}").families
