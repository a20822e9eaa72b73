"""What plugins were written against stays: signatures of hooks and fields of models, as they are for contract 1.

A change that plugins survive (a new hook, a new argument, a new field with a default, a new member) is written down by
``python -m tests.architecture.test_plugin_contract``; any other needs a new number in ``hami_core_py.hooks.specs.API``.
"""

import dataclasses
import enum
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hami_core_py.hooks import API, GROUP, BackendSettings, specs
from hami_core_py.models import allocations, answers, backends, devices, families, requests, samples, views

WRITTEN = Path(__file__).parent / f"contract_{API}.json"
MODULES = (allocations, answers, backends, devices, families, requests, samples, views)


def contract() -> dict[str, Any]:
    """The contract as it is in the code now."""
    return {
        "hooks": {name: _hook(function) for name, function in sorted(_hooks())},
        "models": {model.__name__: _model(model) for model in sorted(_models(), key=lambda m: m.__name__)},
        "settings": sorted(name for name in BackendSettings.model_config),
    }


def _hooks() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, function in vars(specs).items():
        if hasattr(function, f"{GROUP}_spec"):
            yield name, function


def _hook(function: Callable[..., Any]) -> dict[str, Any]:
    signature = inspect.signature(function)
    return {
        "arguments": {name: str(parameter.annotation) for name, parameter in signature.parameters.items()},
        "answer": str(signature.return_annotation),
        "firstresult": bool(getattr(function, f"{GROUP}_spec")["firstresult"]),
    }


def _models() -> Iterator[type]:
    for module in MODULES:
        yield from (value for value in vars(module).values() if _is_model(value, module))


def _is_model(value: object, module: ModuleType) -> bool:
    if not isinstance(value, type) or value.__module__ != module.__name__:
        return False
    return dataclasses.is_dataclass(value) or issubclass(value, enum.Enum)


def _model(model: type[Any]) -> Any:
    if issubclass(model, enum.Enum):
        return {member.name: member.value for member in model}
    return {f.name: {"type": str(f.type), "has_default": _has_default(f)} for f in dataclasses.fields(model)}


def _has_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def breaches(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What a plugin of the written contract would not survive."""
    found = []
    for name, hook in before["hooks"].items():
        current = now["hooks"].get(name)
        if current is None:
            found.append(f"hook {name} is gone")
            continue
        found += [
            f"{name} lost or changed argument {a}" for a in hook["arguments"].items() - current["arguments"].items()
        ]
        found += [f"{name} changed {key}" for key in ("answer", "firstresult") if hook[key] != current[key]]
    for name, fields in before["models"].items():
        current = now["models"].get(name)
        if current is None:
            found.append(f"model {name} is gone")
            continue
        for field, kind in fields.items():
            if current.get(field) != kind:
                found.append(f"{name}.{field} was {kind} and is {current.get(field)}")
        found += [
            f"{name}.{field} is new and has no default"
            for field, kind in current.items()
            if field not in fields and isinstance(kind, dict) and not kind["has_default"]
        ]
    return found


def test_plugins_of_this_contract_still_work() -> None:
    assert breaches(json.loads(WRITTEN.read_text()), contract()) == []


def test_additions_are_written_down() -> None:
    written = json.loads(WRITTEN.read_text())
    assert contract() == written, "write it down: python -m tests.architecture.test_plugin_contract"


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        (lambda c: c["hooks"].pop("hami_allocate"), "hook hami_allocate is gone"),
        (lambda c: c["hooks"]["hami_allocate"]["arguments"].pop("settings"), "hami_allocate lost or changed argument"),
        (lambda c: c["hooks"]["hami_allocate"].update(answer="str"), "hami_allocate changed answer"),
        (lambda c: c["models"].pop("Grant"), "model Grant is gone"),
        (lambda c: c["models"]["Grant"].pop("env"), "Grant.env was"),
        (lambda c: c["models"]["Reason"].pop("NUMA"), "Reason.NUMA was numa and is None"),
        (
            lambda c: c["models"]["Grant"].update(new={"type": "str", "has_default": False}),
            "Grant.new is new and has no default",
        ),
    ],
)
def test_breach_is_noticed(change: Callable[[dict[str, Any]], Any], breach: str) -> None:
    before, now = contract(), contract()
    change(now)
    assert any(found.startswith(breach) for found in breaches(before, now))


def test_additions_are_no_breach() -> None:
    before, now = contract(), contract()
    now["hooks"]["hami_new"] = {"arguments": {}, "answer": "None", "firstresult": False}
    now["hooks"]["hami_allocate"]["arguments"]["more"] = "str"
    now["models"]["Grant"]["new"] = {"type": "str", "has_default": True}
    now["models"]["Reason"]["NEW"] = "new"
    assert breaches(before, now) == []


if __name__ == "__main__":
    WRITTEN.write_text(json.dumps(contract(), indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{WRITTEN} written\n")
