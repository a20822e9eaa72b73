"""Container resources → what a container asks of one family, by the family's tables.

The count alone makes a request: without one, or with 0, a container asks for nothing. What cannot be read, or would mean
an amount below 0 or above what the wire holds, is an error, never "nothing" and never "everything".
"""

from dataclasses import replace

from hami_core_py.codecs.fields import MAX_AMOUNT, shown
from hami_core_py.codecs.policies import read_mode, read_selection, read_switch
from hami_core_py.codecs.quantities import MIB, bytes_suffix, parse_quantity, whole_number
from hami_core_py.errors import RequestError
from hami_core_py.models.families import CoreRule, Family, MemoryRule, Resources
from hami_core_py.models.requests import (
    CoreAsk,
    CorePercent,
    CoreUnits,
    DeviceRequest,
    MemoryAsk,
    MemoryMib,
    MemoryPercent,
)
from hami_core_py.models.views import ContainerView, PodView


def read_by_table(container: ContainerView, pod: PodView, family: Family) -> tuple[DeviceRequest, ...]:
    """What one container asks of a family; empty when it asks for nothing.

    Memory wins where memory and a percentage are both given. An amount of 0, of memory or percent, is as good as none.

    :raises RequestError: an amount cannot be read, or no device of the family could ever give it.
    """
    names = family.resources
    text = amount_of(container, names.count, names)
    if text is None:
        return ()
    count = whole_number(text, place(pod, container, names.count), unit="devices")
    if count == 0:
        return ()
    selectors, annotations = family.selectors, pod.annotations
    request = DeviceRequest(
        family=family.name,
        count=count,
        memory=_memory(container, pod, family, count),
        core=_core(container, pod, family, count),
        profiled=bool(family.profiles),
    )
    if not annotations:
        return (request,)
    return (
        replace(
            request,
            mode=read_mode(annotations, selectors.mode),
            selection=read_selection(annotations, family),
            numa_bind=read_switch(annotations, selectors.numa_bind),
        ),
    )


def amount_of(container: ContainerView, resource: str | None, names: Resources) -> str | None:
    """The text of one resource, from where the family reads it; limits go first. ``None``: it is not given."""
    if resource is None:
        return None
    text = container.limits.get(resource)
    if text is None and names.read_from == "limits-then-requests":
        text = container.requests.get(resource)
    return text


def place(pod: PodView, container: ContainerView, resource: str) -> str:
    """Where an amount stands, for errors."""
    return f"pod {pod.namespace}/{pod.name}, container {container.name!r}: {resource}"


def read_percent(container: ContainerView, pod: PodView, family: Family) -> int | None:
    """The percentage of memory as it is written, also below 0 and above 100; ``None``: it is not given.

    :raises RequestError: it is no whole number.
    """
    resource = family.resources.memory_percent
    text = amount_of(container, resource, family.resources)
    if resource is None or text is None:
        return None
    where, digits = place(pod, container, resource), text.removeprefix("-")
    highest = max(MAX_AMOUNT, int(parse_quantity(digits, where)))
    percent = whole_number(digits, where, highest=highest, unit="percent")
    return percent if digits == text else -percent


def read_units(text: str, where: str, rule: MemoryRule) -> int:
    """The number of a memory resource in MiB, rounded up to the family's step; 0 when it is 0.

    :raises RequestError: it is no whole number of units, or more than one device can give.
    """
    if rule.bytes_with_suffix and bytes_suffix(text):
        return _step(_bytes_to_mib(text, where), where, text, rule)
    units = whole_number(text, where, highest=MAX_AMOUNT // rule.unit_mib, unit=_unit(rule), unit_mib=rule.unit_mib)
    return _step(units * rule.unit_mib, where, text, rule)


def _memory(container: ContainerView, pod: PodView, family: Family, count: int) -> MemoryAsk:
    rule, names = family.memory, family.resources
    text = amount_of(container, names.memory, names)
    percent = read_percent(container, pod, family)
    if names.memory and text is not None:
        where = place(pod, container, names.memory)
        mib = read_units(text, where, rule)
        if rule.per == "container" and mib:
            mib = max(1, mib // count)  # a little of something must not become nothing, which asks for everything
        if rule.max_mib is not None and mib > rule.max_mib:
            hint = f"one device gives at most {rule.max_mib} MiB"
            raise RequestError(where, f"at most {rule.max_mib // rule.unit_mib} of {_unit(rule)}", shown(text), hint)
        if mib:
            return MemoryMib(mib)
    if percent is not None and percent > 0:
        return MemoryPercent(min(percent, 100))  # more than everything is everything; the webhook refuses it
    return rule.default


def _core(container: ContainerView, pod: PodView, family: Family, count: int) -> CoreAsk:
    rule, names = family.core, family.resources
    text = amount_of(container, names.core, names)
    if names.core is None or text is None:
        return rule.default
    where = place(pod, container, names.core)
    amount = whole_number(text, where, unit="percent" if rule.asked_in == "percent" else "core units")
    if rule.per == "container":
        amount //= count
    if amount < rule.lowest or (rule.highest is not None and amount > rule.highest):
        raise RequestError(where, _bounds(rule), shown(text))
    return CorePercent(amount) if rule.asked_in == "percent" else CoreUnits(amount)


def _bounds(rule: CoreRule) -> str:
    return f"at least {rule.lowest}" if rule.highest is None else f"a whole number from {rule.lowest} to {rule.highest}"


def _unit(rule: MemoryRule) -> str:
    return "MiB" if rule.unit_mib == 1 else f"units of {rule.unit_mib} MiB"


def _bytes_to_mib(text: str, where: str) -> int:
    size = parse_quantity(text, where)
    if not 0 <= size <= MAX_AMOUNT * MIB:
        raise RequestError(where, f"0 to {MAX_AMOUNT} MiB", shown(text))
    mib = int(size) // MIB
    if size and not mib:
        raise RequestError(where, "at least 1 MiB", shown(text), "write 1Mi")
    return mib


def _step(mib: int, where: str, text: str, rule: MemoryRule) -> int:
    rounded = -(-mib // rule.step_mib) * rule.step_mib
    if rounded > MAX_AMOUNT:
        raise RequestError(where, f"0 to {MAX_AMOUNT} MiB", shown(text))
    return rounded
