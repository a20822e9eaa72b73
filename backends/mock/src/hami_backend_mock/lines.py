"""YAML that remembers its lines, so that an error can point at one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from hami_core_py.errors import SettingsError

Place = Sequence[str | int]
"""Keys and positions that lead from the top of the file to a value."""


class Document:
    """One YAML file, read once."""

    def __init__(self, path: Path) -> None:
        """Read the file. :raises SettingsError: it cannot be read or is not YAML; names file and line."""
        self.path = path
        try:
            text = path.read_text(encoding="utf-8")
            self._root = yaml.compose(text, Loader=yaml.SafeLoader)
            self.content: Any = yaml.safe_load(text)
        except (OSError, UnicodeDecodeError) as problem:
            raise SettingsError(str(path), "a readable YAML file of devices", str(problem)) from problem
        except yaml.MarkedYAMLError as problem:
            line = problem.problem_mark.line + 1 if problem.problem_mark else 1
            raise SettingsError(f"{path}:{line}", "YAML", str(problem.problem)) from problem
        except yaml.YAMLError as problem:
            raise SettingsError(str(path), "YAML", " ".join(str(problem).split())) from problem

    def wrong(self, place: Place, expected: str, got: str, hint: str = "") -> SettingsError:
        """An error that names file, line and field."""
        field = ".".join(str(part) for part in place)
        return SettingsError(f"{self.path}:{self._line(place)}: {field or 'the file'}", expected, got, hint)

    def _line(self, place: Place) -> int:
        """Line of a value, or of the nearest thing around it that is in the file."""
        node = self._root
        for part in place:
            child = None
            if isinstance(node, yaml.MappingNode):
                child = next((value for key, value in node.value if key.value == str(part)), None)
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
                child = node.value[part]
            if child is None:
                break
            node = child
        return node.start_mark.line + 1 if node is not None else 1
