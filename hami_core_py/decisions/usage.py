"""Adding and removing shares, and what one pod holds of a device while it lives."""

from collections.abc import Iterable, Mapping, Sequence

from hami_core_py.models.devices import IDLE, NO_FACTS, DeviceId, Share, Usage
from hami_core_py.models.requests import ContainerKind

HeldShares = Sequence[tuple[DeviceId, Share]]
"""The shares of one container."""


def as_usage(share: Share) -> Usage:
    """What one share alone puts on a device."""
    return Usage(
        slots=share.slots,
        memory_mib=share.memory_mib,
        core_units=share.core_units,
        cells=share.cells,
        occupied=share.mask,
        labels=dict.fromkeys(share.labels, 1) if share.labels else NO_FACTS,
    )


def add_share(used: Usage, share: Share) -> Usage:
    """Usage once the share has been given away."""
    return plus(used, as_usage(share))


def plus(one: Usage, other: Usage) -> Usage:
    """Both together: amounts and labels add up, cells unite."""
    return Usage(
        slots=one.slots + other.slots,
        memory_mib=one.memory_mib + other.memory_mib,
        core_units=one.core_units + other.core_units,
        cells=one.cells + other.cells,
        occupied=one.occupied | other.occupied,
        labels=_merged(one.labels, other.labels, 1) if other.labels else one.labels,
    )


def minus(whole: Usage, part: Usage, occupied: int) -> Usage:
    """The whole without one part of it.

    :param occupied: cells that the remaining parts hold; a mask cannot be subtracted, since parts may overlap on a device
        that was over-committed by a split brain.
    """
    return Usage(
        slots=whole.slots - part.slots,
        memory_mib=whole.memory_mib - part.memory_mib,
        core_units=whole.core_units - part.core_units,
        cells=whole.cells - part.cells,
        occupied=occupied,
        labels=_merged(whole.labels, part.labels, -1) if part.labels else whole.labels,
    )


def peak(one: Usage, other: Usage) -> Usage:
    """The larger of each amount: what must be kept free for two moments of one pod."""
    labels = {name: max(one.labels.get(name, 0), count) for name, count in other.labels.items()}
    return Usage(
        slots=max(one.slots, other.slots),
        memory_mib=max(one.memory_mib, other.memory_mib),
        core_units=max(one.core_units, other.core_units),
        cells=max(one.cells, other.cells),
        occupied=one.occupied | other.occupied,
        labels={**one.labels, **labels} if labels else one.labels,
    )


def total(parts: Iterable[Usage]) -> Usage:
    """Sum of all parts."""
    result = IDLE
    for part in parts:
        result = plus(result, part)
    return result


def pod_usage(containers: Iterable[tuple[ContainerKind, HeldShares]]) -> dict[DeviceId, Usage]:
    """What one pod holds of each device at its peak.

    An ordinary init container runs beside the sidecars started before it and is gone before the next one starts; sidecars
    and app containers run together.

    :param containers: in the pod's order, init containers and sidecars first.
    """
    lasting: dict[DeviceId, Usage] = {}
    peaks: dict[DeviceId, Usage] = {}
    for kind, shares in containers:
        if kind is ContainerKind.INIT:
            for device, used in _by_device(shares).items():
                moment = plus(lasting.get(device, IDLE), used)
                peaks[device] = peak(peaks.get(device, IDLE), moment)
        else:
            for device, share in shares:
                lasting[device] = add_share(lasting.get(device, IDLE), share)
    for device, used in lasting.items():
        peaks[device] = peak(peaks.get(device, IDLE), used)
    return peaks


def _by_device(shares: HeldShares) -> dict[DeviceId, Usage]:
    held: dict[DeviceId, Usage] = {}
    for device, share in shares:
        held[device] = add_share(held.get(device, IDLE), share)
    return held


def _merged(labels: Mapping[str, int], change: Mapping[str, int], sign: int) -> Mapping[str, int]:
    merged = dict(labels)
    for name, count in change.items():
        merged[name] = merged.get(name, 0) + sign * count
        if not merged[name]:
            del merged[name]
    return merged or NO_FACTS
