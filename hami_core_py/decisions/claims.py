"""Whether a container may have what its pod's record says: the node's check of the scheduler's word."""

from collections.abc import Mapping
from dataclasses import dataclass

from hami_core_py.models.allocations import Pair, PodRecord
from hami_core_py.models.devices import Device, DeviceId
from hami_core_py.models.views import PodView

ENDED = frozenset({"Succeeded", "Failed"})
"""Phases of a pod whose containers will not run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the kubelet asks about one container.

    :ivar count: how many ids of the family's count resource the kubelet gave it.
    """

    uid: str
    container: str
    family: str
    count: int


def check_claim(
    claim: Claim, pod: PodView, record: PodRecord | None, *, node: str, devices: Mapping[DeviceId, Device]
) -> tuple[Pair, ...] | str:
    """The devices and shares of the container by its pod's record, in the record's order.

    :param devices: the devices of this node by id.
    :returns: the pairs; or one sentence for the pod's author that says why the container gets nothing.
    """
    where = f"pod {pod.namespace}/{pod.name}, container {claim.container!r}"
    if pod.uid != claim.uid:
        return f"{where}: the kubelet asks for the pod with UID {claim.uid}, this name now belongs to UID {pod.uid}"
    if claim.container not in {container.name for container in pod.containers}:
        return f"{where}: the pod has no container of this name"
    if record is None:
        return f"{where}: the pod has no allocation record; let it be scheduled by the scheduler that HAMi extends"
    if pod.node not in ("", node):
        return f"{where}: the pod is bound to node {pod.node!r}, this is node {node!r}; delete the pod"
    if record.node != node:
        return f"{where}: the record is for node {record.node!r}, this is node {node!r}; delete the pod"
    shares = [s for s in record.shares if s.container == claim.container and s.family == claim.family and s.share.slots]
    if len(shares) != claim.count:
        return (
            f"{where}: the kubelet gave {claim.count} {claim.family} devices, the record names {len(shares)}; "
            "delete the pod so that it is scheduled again"
        )
    pairs = []
    for share in shares:
        device = devices.get(share.device)
        if device is None or device.family != claim.family:
            return f"{where}: the record names {claim.family} device {share.device}, which this node does not have"
        pairs.append((device, share.share))
    return tuple(pairs)
