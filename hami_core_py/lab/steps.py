"""The steps of a scenario as values: things to do, and expectations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

Action = Literal["pause", "resume", "kill", "start", "restart"]
Program = Literal["device-plugin", "kubelet", "monitor", "scheduler", "webhook", "kube-scheduler"]


class _Part(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]


class NodeShape(_Part):
    """One node of the lab and its simulated devices, as the mock backend's devices file describes them."""

    name: str
    devices: tuple[dict[str, Any], ...] = ()
    simulator: dict[str, Any] | None = None
    """Settings of a simulated driver, which the node's backends then discover as they would a real one."""


class LabShape(_Part):
    """The lab's nodes, and settings of the processes (as in a configuration file)."""

    nodes: tuple[NodeShape, ...] = Field(min_length=1)
    families: tuple[dict[str, Any], ...] = ()
    """Invented kinds of device, as the mock backend's devices file describes them."""
    settings: dict[str, Any] = {}


class ExpectedShare(_Part):
    """A share that a container must hold; fields that are left out may be anything."""

    container: str | None = None
    device: str | None = None
    memory_mib: int | None = None
    core_units: int | None = None


class Expect(_Part):
    """What must become true of one pod, or of one of several, before ``within_seconds`` have passed."""

    pod: str
    """``namespace/name`` or ``name``."""
    phase: Names = ()
    """One of these phases."""
    node: Names = ()
    """Bound to one of these nodes."""
    unbound: bool = False
    """Not bound, and told why."""
    message: str = ""
    """Part of the text that tells why it is not running, in any case."""
    shares: tuple[ExpectedShare, ...] | None = None
    """Exactly these shares, in any order."""
    same_device_as: str = ""
    """Pod that shares at least one device with it."""
    other_device_than: str = ""
    """Pod that shares no device with it."""
    env: dict[str, str] = {}
    """Variables of its first container that asks for a device, as its process received them."""
    log: str = ""
    """Part of what that container wrote, in any case."""
    restarts_at_least: int = 0
    """Smallest restart count of a container."""
    gone: bool = False
    """Deleted."""
    within_seconds: float = Field(default=60.0, gt=0)


class ExpectCount(_Part):
    """How many of these pods must be in a phase, before ``within_seconds`` have passed."""

    pods: tuple[str, ...] = Field(min_length=1)
    phase: str
    exactly: int = Field(ge=0)
    settled_seconds: float = Field(default=1.0, ge=0)
    """How long it must stay so."""
    within_seconds: float = Field(default=60.0, gt=0)


class Measure(_Part):
    """What pods on simulated devices of one node did with them, as the simulator knows it."""

    cores: dict[str, float] = Field(min_length=1)
    """Pod → percent of a device's time that it gets, between the ends of ``seconds``."""
    seconds: float = Field(default=4.0, gt=0)
    tolerance: float = Field(default=5.0, gt=0)
    """How many points a percentage may be off."""
    within_seconds: float = Field(default=60.0, gt=0)
    """How long it is measured again while it is off."""


class MeasureMemory(_Part):
    """How much memory of a simulated device a pod ever held, as the simulator knows it."""

    pod: str
    memory_mib_at_most: int = Field(ge=0)
    memory_mib_at_least: int = Field(default=0, ge=0)


class Metric(_Part):
    """What the monitor of a node must show, before ``within_seconds`` have passed."""

    node: str
    name: str
    labels: dict[str, str] = {}
    """Labels that the series has, among others."""
    at_least: float | None = None
    at_most: float | None = None
    absent: bool = False
    """No such series."""
    within_seconds: float = Field(default=60.0, gt=0)


class Refused(_Part):
    """An object whose creation must be refused, with ``message`` as a part of the text, in any case."""

    message: str
    object: dict[str, Any]


class DeleteOne(_Part):
    """Delete the first of these pods that is in a phase."""

    pods: tuple[str, ...] = Field(min_length=1)
    phase: str


class ProcessStep(_Part):
    """Something that happens to one process of the lab."""

    program: Program
    action: Action
    node: str = ""
    """Which node's, for programs that run on every node."""


@dataclass(frozen=True)
class Step:
    """One item of a scenario and where it stands."""

    where: str
    kind: Literal[
        "object",
        "say",
        "expect",
        "expect-count",
        "measure",
        "measure-memory",
        "metric",
        "refused",
        "delete",
        "delete-one",
        "process",
    ]
    value: Any


@dataclass(frozen=True)
class Scenario:
    """A whole scenario file."""

    path: Path
    shape: LabShape
    steps: tuple[Step, ...]
