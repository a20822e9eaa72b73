"""Whether the node takes a pod: its devices first, then everything else that must fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from hami_core_py.errors import RequestError
from hami_core_py.lab.kubelet import pods
from hami_core_py.lab.kubelet.api import Json
from hami_core_py.lab.kubelet.devices import DeviceManager
from hami_core_py.lab.kubelet.endpoint import PluginError
from hami_core_py.lab.kubescheduler.predicates import pod_demand


class Rejected(Exception):
    """The pod ends as Failed with this reason and message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason, self.message = reason, message


def admit(pod: Json, others: Iterable[Json], devices: DeviceManager, allocatable: Mapping[str, Decimal]) -> None:
    """Allocate the pod's devices, container by container, and see that the rest fits.

    ``others`` are the active pods of the node. A pod that was admitted before the kubelet's restart keeps its
    place, whatever the node offers now.

    :raises Rejected: the pod cannot run here.
    """
    for container in pods.containers(pod):
        try:
            devices.allocate(pod, container)
        except (PluginError, RequestError) as error:
            message = f"Allocate failed due to {error}, which is unexpected"
            raise Rejected("UnexpectedAdmissionError", message) from error
    if pod.get("status", {}).get("startTime"):
        return
    served = devices.resources().allocatable
    used: dict[str, Decimal] = {}
    for other in others:
        for name, value in pod_demand(other).items():
            used[name] = used.get(name, Decimal(0)) + value
    for name, asked in sorted(pod_demand(pod).items()):
        room = allocatable.get(name)
        if room is None or name in served:  # unknown to the node, or already given by Allocate
            continue
        if used.get(name, Decimal(0)) + asked > room:
            raise Rejected(
                f"OutOf{name}",
                f"Node didn't have enough resource: {name}, requested: {asked.normalize():f}, "
                f"used: {used.get(name, Decimal(0)).normalize():f}, capacity: {room.normalize():f}",
            )
