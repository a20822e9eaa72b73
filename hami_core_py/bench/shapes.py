"""Many different requests made from one pod: what a verdict that is remembered for one shape cannot answer for the next."""

import copy
from collections.abc import Mapping
from typing import Any

from hami_core_py.codecs.quantities import whole_number
from hami_core_py.models.families import Family

JsonObject = dict[str, Any]


def shapes_of(pod: JsonObject, families: Mapping[str, Family], count: int) -> list[JsonObject]:
    """So many pods like this one, each asking for other amounts of memory and compute; the first is the pod itself.

    :raises BadInputError: an amount of the pod cannot be read.
    """
    resources = {name: family for family in families.values() for name in family.resources.names()}
    return [_varied(pod, resources, number) for number in range(max(1, count))]


def _varied(pod: JsonObject, resources: Mapping[str, Family], number: int) -> JsonObject:
    if number == 0:
        return pod
    varied = copy.deepcopy(pod)
    for container in varied["spec"]["containers"]:
        for amounts in (container.get("resources") or {}).values():
            for name in amounts:
                family = resources.get(name)
                if family is None:
                    continue
                if name == family.resources.memory and family.memory.allowed_units is None:
                    amounts[name] = str(max(1, whole_number(str(amounts[name]), name) + number * 37))
                elif name == family.resources.core:
                    amounts[name] = str((whole_number(str(amounts[name]), name) + number) % 60)
    return varied
