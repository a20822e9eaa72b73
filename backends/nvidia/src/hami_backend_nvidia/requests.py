"""What a container asks of NVIDIA GPUs: the table's reading, with percentages brought into range (pure)."""

from dataclasses import replace

from hami_core_py.codecs.quantities import parse_quantity
from hami_core_py.codecs.requests import read_by_table
from hami_core_py.errors import BadInputError
from hami_core_py.models.families import Family
from hami_core_py.models.requests import DeviceRequest
from hami_core_py.models.views import ContainerView, PodView


def read(container: ContainerView, pod: PodView, family: Family) -> tuple[DeviceRequest, ...]:
    """Requests of one container; empty when it asks for nothing.

    The webhook refuses percentages outside 0–100. In a pod that went around it, more than 100 means the whole device, and a
    negative or unreadable percentage none was given, as other HAMi versions on the same cluster take it. Of memory and
    percentage, memory counts.
    """
    name = family.resources.memory_percent
    percent = container.limits.get(name, container.requests.get(name)) if name else None
    if name is None or percent is None:
        return read_by_table(container, pod, family)
    limits = {key: amount for key, amount in container.limits.items() if key != name}
    requests = {key: amount for key, amount in container.requests.items() if key != name}
    asked = _in_range(percent)
    if asked and not _has_memory(container, family):
        limits[name] = str(asked)
    return read_by_table(replace(container, limits=limits, requests=requests), pod, family)


def _in_range(percent: str) -> int:
    """Percentage from 0 (none given) to 100."""
    try:
        amount = parse_quantity(percent)
    except BadInputError:
        return 0
    return max(0, min(100, int(amount))) if amount == int(amount) else 0


def _has_memory(container: ContainerView, family: Family) -> bool:
    """Whether memory is given and not 0; an unreadable amount counts as given, so that the table refuses it."""
    name = family.resources.memory
    text = container.limits.get(name, container.requests.get(name)) if name else None
    if text is None:
        return False
    try:
        return parse_quantity(text) != 0
    except BadInputError:
        return True
