"""Models with sensible defaults, so that a test names only what it is about.

Everything belongs to one invented vendor, Acme, whose devices have 16384 MiB, 100 core units and ten slots.
"""

from collections.abc import Mapping
from typing import Any

from hami_core_py.models.allocations import Allocation, Pair
from hami_core_py.models.answers import Candidate
from hami_core_py.models.devices import Device, DeviceId, Share, Usage
from hami_core_py.models.families import Family, Resources
from hami_core_py.models.requests import ContainerKind, DeviceRequest
from hami_core_py.models.views import ContainerView, NodeView, PodView

FAMILY = "Acme"
COUNT, MEMORY, PERCENT, CORE = (
    "acme.example/npu",
    "acme.example/npu-memory",
    "acme.example/npu-memory-percentage",
    "acme.example/npu-cores",
)


def family(name: str = FAMILY, **fields: Any) -> Family:
    """A family whose count, memory, percentage and core resources are Acme's, unless ``resources`` says otherwise."""
    resources = Resources(count=COUNT, memory=MEMORY, memory_percent=PERCENT, core=CORE)
    return Family(**{"name": name, "resources": resources, "backend": "acme", **fields})


def device(id: str = "npu-0", **fields: Any) -> Device:  # noqa: A002 - the field's own name
    """A healthy, idle device; its index is the number at the end of its id."""
    digits = id[len(id.rstrip("0123456789")) :]
    defaults = {
        "family": FAMILY,
        "index": int(digits or 0),
        "model": "Acme N1",
        "slots": 10,
        "memory_mib": 16384,
    }
    return Device(id=DeviceId(id), **{**defaults, **fields})


def devices(count: int, **fields: Any) -> tuple[Device, ...]:
    """Devices ``npu-0`` to ``npu-<count - 1>``, alike."""
    return tuple(device(f"npu-{i}", **fields) for i in range(count))


def share(**fields: Any) -> Share:
    """A share of 1024 MiB and 10 core units."""
    return Share(**{"memory_mib": 1024, "core_units": 10, **fields})


def usage(**fields: Any) -> Usage:
    """A usage; nothing in use unless said."""
    return Usage(**fields)


def request(**fields: Any) -> DeviceRequest:
    """A request for one device of Acme's."""
    return DeviceRequest(**{"family": FAMILY, "count": 1, **fields})


def candidate(**fields: Any) -> Candidate:
    """A seat on an idle device that would give ``share()``."""
    return Candidate(**{"index": 0, "share": share(), "slots": 10, "memory_mib": 16384, **fields})


def container(name: str = "main", limits: Mapping[str, object] | None = None, **fields: Any) -> ContainerView:
    """An app container; amounts may be numbers. ``env`` sets ``env_names`` too."""
    for key in ("requests",):
        if key in fields:
            fields[key] = _texts(fields[key])
    if "env" in fields:
        fields.setdefault("env_names", frozenset(fields["env"]))
    return ContainerView(**{"name": name, "limits": _texts(limits or {}), **fields})


def init_container(name: str = "init", limits: Mapping[str, object] | None = None, **fields: Any) -> ContainerView:
    """An ordinary init container."""
    return container(name, limits, kind=ContainerKind.INIT, **fields)


def sidecar(name: str = "sidecar", limits: Mapping[str, object] | None = None, **fields: Any) -> ContainerView:
    """An init container that keeps running."""
    return container(name, limits, kind=ContainerKind.SIDECAR, **fields)


def pod(*containers: ContainerView, name: str = "train", namespace: str = "default", **fields: Any) -> PodView:
    """A pod of these containers (one empty one if none is given), in the order init, sidecar, app as given."""
    return PodView(
        **{
            "uid": f"uid-{namespace}-{name}",
            "namespace": namespace,
            "name": name,
            "containers": containers or (container(),),
            **fields,
        }
    )


def node(name: str = "n1", **fields: Any) -> NodeView:
    """A ready node; ``capacity`` and ``allocatable`` may be numbers, and allocatable is capacity unless given."""
    capacity = _texts(fields.pop("capacity", {}))
    allocatable = _texts(fields.pop("allocatable", capacity))
    return NodeView(**{"name": name, "capacity": capacity, "allocatable": allocatable, **fields})


def allocation(*pairs: Pair, **fields: Any) -> Allocation:
    """What container ``main`` of pod ``default/train`` holds: a share of ``npu-0`` unless pairs are given."""
    defaults = {
        "family": pairs[0][0].family if pairs else FAMILY,
        "pod_uid": "uid-default-train",
        "namespace": "default",
        "pod": "train",
        "container": "main",
        "pairs": pairs or ((device(), share()),),
    }
    return Allocation(**{**defaults, **fields})


def _texts(amounts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
