"""Amounts that no device could ever grant, refused where the author still sees the answer.

The reader of requests is kinder: it also serves pods that went around the webhook, and there takes more than a whole device
for the whole device, as other HAMi versions in the same cluster do.
"""

from typing import Final

from hami_core_py.codecs.fields import shown
from hami_core_py.codecs.policies import empty_wishes
from hami_core_py.codecs.quantities import bytes_suffix, parse_quantity, same_amount, units_of_bytes, whole_number
from hami_core_py.codecs.requests import amount_of, place, read_units
from hami_core_py.errors import BadInputError, RequestError
from hami_core_py.models.families import Family
from hami_core_py.models.views import ContainerView, PodView

_LARGE_BYTE_SUFFIXES: Final = ("Mi", "Gi", "Ti", "Pi", "Ei")


def impossible_percent(container: ContainerView, family: Family) -> str | None:
    """Why a percentage of memory cannot be granted, in the words that v2.10 uses; ``None`` when it can."""
    resource = family.resources.memory_percent
    text = amount_of(container, resource, family.resources)
    if resource is None or text is None:
        return None
    try:
        whole_number(text, resource, highest=100)
    except BadInputError:
        return f"invalid {resource} value {text} in container {container.name}: must be an integer between 0 and 100"
    return None


def doubled_memory(container: ContainerView, family: Family) -> str | None:
    """A warning when memory is asked both as an amount and as a percentage, of which the amount counts everywhere."""
    names = family.resources
    memory, percent = (amount_of(container, name, names) for name in (names.memory, names.memory_percent))
    if memory is None or percent is None or same_amount(memory, "0") or same_amount(percent, "0"):
        return None
    both = f"both {names.memory} and {names.memory_percent} are given"
    return f"container {container.name!r}: {both}; only {names.memory} counts"


def unfulfillable(pod: PodView, family: Family) -> str | None:
    """A warning when a list of wanted devices names none, as a stray comma does not; every device is refused then."""
    keys = empty_wishes(pod.annotations, family)
    return f"annotation {keys[0]} names nothing, so that no device will do; leave it out or name one" if keys else None


def refuse_impossible(container: ContainerView, pod: PodView, family: Family) -> None:
    """Check what the author wrote for one family.

    :raises RequestError: memory in bytes where units are counted, a number of units that the vendor does not offer, or more
        compute than the asked devices have.
    """
    names = family.resources
    text = amount_of(container, names.count, names)
    count = family.admission.default_count if text is None else whole_number(text, place(pod, container, names.count))
    _refuse_memory(container, pod, family, count or 1)
    _refuse_core(container, pod, family, count or 1)


def _refuse_memory(container: ContainerView, pod: PodView, family: Family, count: int) -> None:
    names, rule = family.resources, family.memory
    text = amount_of(container, names.memory, names)
    if names.memory is None or text is None or (rule.bytes_with_suffix and bytes_suffix(text)):
        return
    where = place(pod, container, names.memory)
    read_units(text, where, rule)
    if text.endswith(_LARGE_BYTE_SUFFIXES):
        hint = f"write {units_of_bytes(text, rule.unit_mib, where)}: one unit is {rule.unit_mib} MiB"
        raise RequestError(where, f"a number of units of {rule.unit_mib} MiB, not of bytes", shown(text), hint)
    if rule.allowed_units is not None and (units := parse_quantity(text, where)):
        each = units / count if rule.per == "container" else units
        if each not in rule.allowed_units:
            allowed = ", ".join(str(number) for number in sorted(rule.allowed_units))
            raise RequestError(where, f"one of {allowed} per device", shown(text))


def _refuse_core(container: ContainerView, pod: PodView, family: Family, count: int) -> None:
    names, most = family.resources, family.core.clamp_at
    text = amount_of(container, names.core, names)
    if names.core is None or text is None or most is None:
        return
    where = place(pod, container, names.core)
    amount = whole_number(text, where)
    if amount > most * count:
        devices = "1 device has" if count == 1 else f"{count} devices have"
        raise RequestError(where, f"at most {most * count}", shown(text), f"{devices} no more; ask for more devices")
