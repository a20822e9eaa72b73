"""The v2.10 work list of one pod: which devices each container still has to be given, family by family."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from hami_core_py.codecs.v210.pods import Containers, PodDevice, parse_pod_devices, render_pod_devices
from hami_core_py.errors import RecordError
from hami_core_py.models.devices import DeviceId
from hami_core_py.models.families import Family
from hami_core_py.models.views import PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkList:
    """One family's part.

    :ivar containers: per container, init first, what is still to be given.
    """

    key: str
    containers: Containers

    @property
    def next(self) -> int | None:
        """Position of the first container that still waits; ``None``: all are served."""
        return next((place for place, devices in enumerate(self.containers) if devices), None)

    def take(self, place: int) -> "WorkList":
        """The list once a container has been served."""
        left = tuple(() if i == place else devices for i, devices in enumerate(self.containers))
        return dataclasses.replace(self, containers=left)

    def render(self) -> str:
        """The annotation's text: one entry per container, without the empty one behind the last delimiter."""
        return render_pod_devices(self.containers)


def work_list(pod: PodView, family: Family) -> WorkList:
    """What is still to be given of a family. :raises RecordError: the pod has no such list, or it cannot be read."""
    key = family.v210.to_allocate if family.v210 is not None else None
    where = f"pod {pod.namespace}/{pod.name}"
    if key is None:
        raise RecordError(
            where, f"a family with a v2.10 work list, which ordered identity needs, not {family.name!r}", "none"
        )
    text = pod.annotations.get(key)
    if text is None:
        raise RecordError(where, f"annotation {key}", "none", "let the scheduler that HAMi extends bind the pod")
    parsed = parse_pod_devices(text, f"{where}: {key}")
    # Older writers append a delimiter each time; what stands behind the last container is empty.
    used = max((place + 1 for place, devices in enumerate(parsed) if devices), default=0)
    return WorkList(key=key, containers=parsed[: max(used, min(len(parsed), len(pod.containers)))])


def is_finished(pod: PodView, families: Mapping[str, Family]) -> bool:
    """Whether no family of the pod has work left; a list that cannot be read is work left."""
    for family in families.values():
        if family.v210 is None or family.v210.to_allocate not in pod.annotations:
            continue
        try:
            if work_list(pod, family).next is not None:
                return False
        except RecordError:
            return False
    return True


def device_ids(devices: tuple[PodDevice, ...]) -> tuple[DeviceId, ...]:
    """The devices of one container's entry."""
    return tuple(DeviceId(device.id) for device in devices)
