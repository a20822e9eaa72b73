"""What one container asks of one vendor, in the five numbers of v2.10."""

from typing import Any

from hami_core_py.errors import RequestError
from hami_core_py.models.families import Family
from hami_core_py.models.requests import CoreUnits, DeviceRequest, MemoryMib, MemoryPercent
from hami_core_py.models.views import pod_view
from tests.vectors.files import Vector
from tests.vectors.runner import NotCoveredError
from tests.vectors.world import NEEDS_OWN_RULES, ask_for

Json = dict[str, Any]

NOTHING: Json = {"nums": 0, "type": "", "mem": 0, "pct": 0, "cores": 0}
WHOLE = ("whole", 0)
WHOLE_WITH_MEMORY = frozenset({"GCU", "XPU"})
"""Vendors that write the memory of a whole device beside 100 percent."""


def request(vector: Vector) -> Json:
    vendor, ask = vector.input["vendor"], ask_for(vector)
    if vendor in NEEDS_OWN_RULES:
        raise NotCoveredError("a vendor with requests of its own")
    pod = pod_view({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [vector.input["container"]]}})
    try:
        requests = ask.read_request(pod.containers[0], pod, ask.families[vendor])
        return _simplified(_numbers(requests[0], ask.families[vendor]) if requests else NOTHING)
    except RequestError:
        # v2.10 takes what it cannot read for no request; we refuse it, at admission and at filter alike.
        return _simplified(NOTHING)


def _numbers(request: DeviceRequest, family: Family) -> Json:
    memory, core = request.memory, request.core
    if family.profiles and isinstance(memory, MemoryMib):
        # v2.10 rounds to a size of the hardware while it reads; we do when a device is cut.
        covering = [profile for profile in family.profiles if profile.memory_mib >= memory.value]
        if not covering:
            raise RequestError(family.name, f"at most {family.profiles[-1].memory_mib} MiB", str(memory.value))
        memory, core = MemoryMib(covering[0].memory_mib), CoreUnits(covering[0].core_units)
    return {
        "nums": request.count,
        "type": request.family,
        "mem": memory.value if isinstance(memory, MemoryMib) else 0,
        "pct": memory.value if isinstance(memory, MemoryPercent) else 0 if isinstance(memory, MemoryMib) else 100,
        "cores": core.value,
    }


def _simplified(numbers: Json) -> Json:
    """The numbers without their sentinels: nothing asked is nothing, and memory is one statement."""
    if numbers["nums"] <= 0:
        return {"asks": "nothing"}
    percent, mib = numbers["pct"], numbers["mem"]
    memory = ("MiB", mib) if mib else ("percent", percent)
    if (not mib and percent in (0, 100, 101)) or (percent == 100 and numbers["type"] in WHOLE_WITH_MEMORY):
        memory = WHOLE
    return {"nums": numbers["nums"], "type": numbers["type"], "memory": list(memory), "cores": numbers["cores"]}


def expected(_: Vector, numbers: Any) -> Any:
    """The vector's answer in the same simplified words."""
    return _simplified(numbers) if isinstance(numbers, dict) and "nums" in numbers else numbers


def may_differ(vector: Vector) -> str:
    """Amounts that v2.10 passes over when they are not written as whole numbers; we refuse them."""
    resources = vector.input["container"].get("resources") or {}
    texts = [text for part in ("limits", "requests") for text in (resources.get(part) or {}).values()]
    if any("." in text or text[-1:] in "num" for text in texts):
        return "an amount that is no whole number is refused, in v2.10 it is passed over or rounded"
    family = ask_for(vector).families[vector.input["vendor"]]
    amounts = [(resources.get(part) or {}).get(family.resources.memory) for part in ("limits", "requests")]
    if family.profiles and not all(_is_within(text, family.profiles[-1].memory_mib) for text in amounts if text):
        return "more than the largest size is refused and 0 is as good as none, in v2.10 both are rounded to a size"
    return ""


def _is_within(text: str, largest_mib: int) -> bool:
    return text.isdigit() and 0 < int(text) <= largest_mib


KINDS = {"request": request}
EXPECTED = {"request": expected}
MAY_DIFFER = {"request": may_differ}
