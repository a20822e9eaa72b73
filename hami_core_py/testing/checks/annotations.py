"""Whether a hook implementation is annotated as its spec is; pluggy compares argument names only."""

import inspect
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from hami_core_py.hooks import GROUP


def differences(spec: Callable[..., Any], implementation: Callable[..., Any]) -> Iterator[str]:
    """Each annotation that says something else than the spec; an answer may be narrower, ``Any`` may be anything."""
    promised, given = typing.get_type_hints(spec), typing.get_type_hints(implementation)
    for name in inspect.signature(implementation).parameters:
        if name == "self" or promised.get(name) is Any:
            continue
        if given.get(name) != promised[name]:
            yield f"{name} is {_shown(given.get(name))}, the spec says {_shown(promised[name])}"
    if "return" not in given:
        yield "its answer has no annotation"
    elif not _is_wrapper(implementation) and not _members(given["return"]) <= _members(promised["return"]):
        yield f"it answers {_shown(given['return'])}, the spec says {_shown(promised['return'])}"


def _members(hint: Any) -> set[str]:
    """The types a hint allows, spelled out, so that a narrower answer than the spec's is one."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return {name for member in typing.get_args(hint) for name in _members(member)}
    if typing.get_origin(hint) is None or not typing.get_args(hint):
        return {_shown(hint)}
    *others, last = typing.get_args(hint)
    return {f"{typing.get_origin(hint)}{others}{member}" for member in _members(last)}


def _is_wrapper(implementation: Callable[..., Any]) -> bool:
    options = getattr(implementation, f"{GROUP}_impl", {})
    return bool(options.get("wrapper") or options.get("hookwrapper"))


def _shown(hint: Any) -> str:
    return "nothing" if hint is None else getattr(hint, "__name__", str(hint)) if isinstance(hint, type) else str(hint)
