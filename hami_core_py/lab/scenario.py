"""A scenario file: a YAML list of ordinary Kubernetes objects, things to do, and expectations, played from top to bottom.

An item with ``apiVersion`` and ``kind`` is created as it is. Every other item has exactly one key that names the step:
``lab``, ``say``, ``expect``, ``measure``, ``metric``, ``refused``, ``delete``, ``deleteOne`` or ``process``.
"""

from collections.abc import Collection, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from hami_core_py.errors import BadInputError
from hami_core_py.lab.marked import MarkedDict, MarkedList, line_of, load_marked
from hami_core_py.lab.steps import (
    DeleteOne,
    Expect,
    ExpectCount,
    LabShape,
    Measure,
    MeasureMemory,
    Metric,
    ProcessStep,
    Refused,
    Scenario,
    Step,
)
from hami_core_py.models.devices import Device

M = TypeVar("M", bound=BaseModel)
REPEAT = "count"
"""Key of a device that says how many of it there are."""
DEVICE_KEYS = frozenset({field.name for field in fields(Device)} | {REPEAT})
_DEVICE = TypeAdapter(Device)


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
