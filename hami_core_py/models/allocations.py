"""What was given: placements, records, and what a container receives at start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from hami_core_py.models.devices import Device, DeviceId, Share, no_facts
from hami_core_py.models.requests import ContainerKind

Pair = tuple[Device, Share]
"""A device and the share of it that one container holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlacement:
    """The shares of one container; ``pairs`` is empty when it asked for nothing, and it keeps its position."""

    name: str
    kind: ContainerKind
    pairs: tuple[Pair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The node and shares chosen for a pod, not yet promised.

    :ivar containers: init first, then app; one entry per container of the pod.
    :ivar score: 0.0–1.0, higher is better.
    """

    node: str
    containers: tuple[ContainerPlacement, ...]
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedShare:
    """One share as a record states it: which container holds how much of which device."""

    container: str
    family: str
    device: DeviceId
    share: Share
    model: str = ""
    numa: int = 0


class Dialect(Enum):
    """Which annotations a record was read from."""

    NATIVE = "native"
    V210 = "v2.10"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord:
    """The allocation that a pod's annotations state.

    :ivar node: node of record.
    :ivar shares: in the order of the pod's containers.
    :ivar epoch: of the scheduler that wrote it; 0 while leadership has none.
    :ivar phase: bind phase, ``success`` from the Binding on; empty when there is none.
    :ivar at_ns: when it was written, nanoseconds since the Unix epoch; 0 when unknown.
    """

    node: str
    shares: tuple[RecordedShare, ...]
    dialect: Dialect = Dialect.NATIVE
    epoch: int = 0
    phase: str = ""
    at_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A realised hardware partition, named for the record."""

    uuid: str
    device: DeviceId
    ids: Mapping[str, int] = field(default_factory=no_facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPod:
    """One family's part of a placement, as ``hami_write_record`` sees it.

    :ivar at_ns: time of the bind, nanoseconds since the Unix epoch.
    :ivar containers: per container of the pod, init first, empty ones kept: pairs of device and share.
    """

    uid: str
    namespace: str
    name: str
    node: str
    family: str
    at_ns: int
    containers: tuple[tuple[Pair, ...], ...]
    annotations: Mapping[str, str] = field(default_factory=no_facts)
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One container's live share set of one family on this node.

    :ivar directory: host directory made by the agent for this container; it is mounted into the container read-only at
        ``/etc/hami/<family>``. Its subdirectory ``shared``, which anybody may write, is there for a grant to mount.
    :ivar limits: what the container's spec says under ``resources.limits``, amounts as text; empty where it is not known.
    :ivar host_directory: host directory with the installed ``BackendInfo.host_files`` of the family's backend.
    """

    family: str
    pod_uid: str
    namespace: str
    pod: str
    container: str
    pairs: tuple[Pair, ...]
    directory: str = ""
    host_directory: str = ""
    annotations: Mapping[str, str] = field(default_factory=no_facts)
    limits: Mapping[str, str] = field(default_factory=no_facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A host path shown inside a container."""

    host_path: str
    container_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a container receives at start.

    :ivar device_paths: device nodes of the host, same path inside.
    :ivar cdi_devices: fully qualified CDI names of the vendor whose edits are merged into ours.
    :ivar files: name → content, written into the container's directory.
    :ivar partitions: one per share, where the grant realised hardware partitions.
    """

    env: Mapping[str, str] = field(default_factory=no_facts)
    mounts: tuple[Mount, ...] = ()
    device_paths: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=no_facts)
    partitions: tuple[Partition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthChange:
    """A device became healthy or unhealthy."""

    device: DeviceId
    healthy: bool
    detail: str = ""
