"""Allocation of an invented device → what the container receives (pure)."""

import re

from hami_core_py.models.allocations import Allocation, Grant

VISIBLE = "MOCK_VISIBLE_DEVICES"


def grant(allocation: Allocation) -> Grant:
    """Ids and limits, in variables that begin with the family's name; the ids also where a closed container has ``none``."""
    prefix = re.sub(r"[^A-Z0-9]", "_", allocation.family.upper())
    ids = ",".join(device.id for device, _ in allocation.pairs)
    env = {VISIBLE: ids, f"{prefix}_VISIBLE_DEVICES": ids}
    for i, (_, share) in enumerate(allocation.pairs):
        env[f"{prefix}_MEMORY_LIMIT_MIB_{i}"] = str(share.memory_mib)
        env[f"{prefix}_CORE_LIMIT_{i}"] = str(share.core_units)
        if share.profile:
            env[f"{prefix}_PROFILE_{i}"] = share.profile
    return Grant(env=env)
