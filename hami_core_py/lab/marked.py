"""YAML whose mappings and lists remember their lines, so that bad input can be pointed at."""

from pathlib import Path
from typing import Any

import yaml

from hami_core_py.codecs.loaders import leave_times
from hami_core_py.errors import BadInputError


class MarkedDict(dict[str, Any]):
    """A mapping that knows the line (from 1) of itself and of its keys."""

    line: int
    lines: dict[str, int]


class MarkedList(list[Any]):
    """A list that knows the line (from 1) of itself and of its items."""

    line: int
    lines: list[int]


class _Loader(yaml.SafeLoader):
    pass


def _mapping(loader: _Loader, node: yaml.MappingNode) -> MarkedDict:
    marked = MarkedDict()
    marked.line = node.start_mark.line + 1
    marked.lines = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if not isinstance(key, str):
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is no text", key_node.start_mark)
        if key in marked:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
        marked[key] = loader.construct_object(value_node, deep=True)
        marked.lines[key] = key_node.start_mark.line + 1
    return marked


def _sequence(loader: _Loader, node: yaml.SequenceNode) -> MarkedList:
    marked = MarkedList(loader.construct_object(item, deep=True) for item in node.value)
    marked.line = node.start_mark.line + 1
    marked.lines = [item.start_mark.line + 1 for item in node.value]
    return marked


leave_times(_Loader)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:seq", _sequence)


def load_marked(path: Path) -> Any:
    """Read one YAML document. :raises BadInputError: it cannot be read; names file and line."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 - derived from SafeLoader
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInputError(str(path), "a readable file", str(problem)) from problem
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        raise BadInputError(f"{path}:{line}", "YAML", problem.problem or str(problem)) from problem
    except yaml.YAMLError as problem:
        raise BadInputError(str(path), "YAML", str(problem)) from problem


def line_of(value: Any, location: tuple[int | str, ...]) -> int:
    """Line of the innermost part of a location that the value knows."""
    line = getattr(value, "line", 1)
    for part in location:
        if isinstance(value, MarkedDict) and part in value:
            line, value = value.lines[str(part)], value[str(part)]
        elif isinstance(value, MarkedList) and isinstance(part, int) and part < len(value):
            line, value = value.lines[part], value[part]
        else:
            break
    return line
