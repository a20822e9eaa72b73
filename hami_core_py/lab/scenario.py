"""A scenario: a YAML list of ordinary Kubernetes objects, things to do, and expectations, played from top to bottom.

An item with ``apiVersion`` and ``kind`` is created as it is. Every other item has exactly one key that names the step:
``lab``, ``say``, ``expect``, ``measure``, ``metric``, ``refused``, ``delete``, ``deleteOne`` or ``process``.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from hami_core_py.errors import BadInputError
from hami_core_py.lab.marked import MarkedDict, MarkedList, line_of, load_marked
from hami_core_py.models.devices import Device

M = TypeVar("M", bound=BaseModel)
Action = Literal["pause", "resume", "kill", "start", "restart"]
REPEAT = "count"
"""Key of a device that says how many of it there are."""
DEVICE_KEYS = frozenset({field.name for field in fields(Device)} | {REPEAT})
_DEVICE = TypeAdapter(Device)

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
    within_seconds: float = Field(default=30.0, gt=0)


class ExpectCount(_Part):
    """How many of these pods must be in a phase, before ``within_seconds`` have passed."""

    pods: tuple[str, ...] = Field(min_length=1)
    phase: str
    exactly: int = Field(ge=0)
    settled_seconds: float = Field(default=1.0, ge=0)
    """How long it must stay so."""
    within_seconds: float = Field(default=30.0, gt=0)


class Measure(_Part):
    """What pods on simulated devices of one node did with them, as the simulator knows it."""

    cores: dict[str, float] = Field(min_length=1)
    """Pod → percent of a device's time that it gets, between the ends of ``seconds``."""
    seconds: float = Field(default=4.0, gt=0)
    tolerance: float = Field(default=5.0, gt=0)
    """How many points a percentage may be off."""
    within_seconds: float = Field(default=30.0, gt=0)
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
    within_seconds: float = Field(default=30.0, gt=0)


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


def default_shape(families: Sequence[str]) -> LabShape:
    """Three nodes of two devices each, of the first of these families; without a family three bare nodes."""
    devices = [{"family": family, "model": f"{family} simulated", "count": 2, "slots": 10} for family in families[:1]]
    sized = [{**device, "memory_mib": 40960} for device in devices]
    return LabShape.model_validate({"nodes": [{"name": f"node-{n}", "devices": sized} for n in "abc"]})


def load_scenario(path: Path, families: Collection[str] | None = None) -> Scenario:
    """Read a scenario.

    :param families: names of the families that installed backends own; ``None``: whose devices are asked for is not checked.
    :raises BadInputError: names file, line and field.
    """
    items = load_marked(path)
    if not isinstance(items, MarkedList) or not items:
        raise BadInputError(f"{path}:1", "a YAML list of objects and steps", _kind(items))
    shape = default_shape(())
    steps: list[Step] = []
    for number, (item, line) in enumerate(zip(items, items.lines, strict=True)):
        where = f"{path}:{line}"
        if not isinstance(item, MarkedDict):
            raise BadInputError(where, "a mapping", _kind(item))
        if "lab" in item and len(item) == 1:
            if number:
                raise BadInputError(where, "'lab' as the first item", f"item {number + 1}")
            shape = _check(LabShape, item["lab"], str(path), item, "lab")
            _check_devices(shape, str(path), item, families)
        else:
            steps.append(_step(item, str(path), where))
    return Scenario(path=path, shape=shape, steps=tuple(steps))


def _step(item: MarkedDict, path: str, where: str) -> Step:
    if "kind" in item or "apiVersion" in item:
        return Step(where, "object", _object(item, where))
    if len(item) != 1:
        raise BadInputError(
            where, "one key that names the step, or a Kubernetes object", ", ".join(sorted(item)) or "{}"
        )
    (name, value), *_ = item.items()
    match name:
        case "say" | "delete" if isinstance(value, str):
            return Step(where, name, value)
        case "expect" if isinstance(value, dict) and "pods" in value:
            return Step(where, "expect-count", _check(ExpectCount, value, path, item, name))
        case "expect":
            return Step(where, "expect", _check(Expect, value, path, item, name))
        case "measure" if isinstance(value, dict) and "pod" in value:
            return Step(where, "measure-memory", _check(MeasureMemory, value, path, item, name))
        case "measure":
            return Step(where, "measure", _check(Measure, value, path, item, name))
        case "metric":
            return Step(where, "metric", _check(Metric, value, path, item, name))
        case "process":
            return Step(where, "process", _check(ProcessStep, value, path, item, name))
        case "refused":
            refused = _check(Refused, value, path, item, name)
            _object(value["object"], where)
            return Step(where, "refused", refused)
        case "deleteOne":
            return Step(where, "delete-one", _check(DeleteOne, value, path, item, name))
        case "say" | "delete":
            raise BadInputError(f"{where}: {name}", "text", _kind(value))
        case _:
            raise BadInputError(
                where,
                "lab, say, expect, measure, refused, delete, deleteOne, process or a Kubernetes object",
                repr(name),
            )


def _object(item: MarkedDict, where: str) -> dict[str, Any]:
    for field in ("apiVersion", "kind", "metadata"):
        if not item.get(field):
            raise BadInputError(f"{where}: {field}", "a value", "nothing")
    name = item["metadata"].get("name") if isinstance(item["metadata"], dict) else None
    if not isinstance(name, str):
        raise BadInputError(f"{where}: metadata.name", "a name", repr(name))
    return item


def _check(model: type[M], value: Any, path: str, item: Any, *under: str) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as problem:
        raise _wrong(problem, _known(model), path, item, under) from problem


def _check_devices(shape: LabShape, path: str, item: Any, families: Collection[str] | None) -> None:
    """The mock backend reads devices from a file of its own; here mistakes can still be pointed at."""
    known = None if families is None else {*families, *(str(family.get("name")) for family in shape.families)}
    for n, node in enumerate(shape.nodes):
        for d, device in enumerate(node.devices):
            under = ("lab", "nodes", n, "devices", d)
            for key in device:
                if key not in DEVICE_KEYS:
                    raise BadInputError(
                        _place(path, item, (*under, key)), f"one of {', '.join(sorted(DEVICE_KEYS))}", "an unknown key"
                    )
            try:
                _DEVICE.validate_python({"id": "", **{key: device[key] for key in device if key != REPEAT}})
            except ValidationError as problem:
                raise _wrong(problem, ", ".join(sorted(DEVICE_KEYS)), path, item, under) from problem
            if known is not None and device["family"] not in known:
                expected = f"one of {', '.join(sorted(known)) or 'none, as no backend is installed'}"
                raise BadInputError(_place(path, item, (*under, "family")), expected, repr(device["family"]))


def _wrong(problem: ValidationError, known: str, path: str, item: Any, under: tuple[int | str, ...]) -> BadInputError:
    first = problem.errors()[0]
    where = _place(path, item, (*under, *first["loc"]))
    if first["type"] == "extra_forbidden":
        return BadInputError(where, f"one of {known}", "an unknown key")
    return BadInputError(where, first["msg"].removeprefix("Input should be "), repr(first.get("input")))


def _place(path: str, item: Any, location: tuple[int | str, ...]) -> str:
    return f"{path}:{line_of(item, location)}: {'.'.join(str(part) for part in location)}"


def _kind(value: Any) -> str:
    if value is None or value == [] or value == {}:
        return "nothing"
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)


def _known(model: type[BaseModel]) -> str:
    return ", ".join(sorted(field.alias or name for name, field in model.model_fields.items()))


def split_name(text: str) -> tuple[str, str]:
    """``namespace/name`` or ``name`` → namespace and name."""
    namespace, _, name = text.rpartition("/")
    return namespace or "default", name


def matches(expected: Sequence[ExpectedShare], shares: Sequence[Mapping[str, Any]]) -> bool:
    """Whether shares (native record objects) and expected shares pair up one to one."""
    left = list(shares)
    for want in expected:
        fields = {"container": want.container, "uuid": want.device, "memory": want.memory_mib, "cores": want.core_units}
        found = next((s for s in left if all(s.get(k) == v for k, v in fields.items() if v is not None)), None)
        if found is None:
            return False
        left.remove(found)
    return not left
