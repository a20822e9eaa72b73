"""Edits of a decoded JSON object, and the JSON patch (RFC 6902) that says the same and nothing else."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

Path = Sequence[str | int]


class Edits:
    """Collects edits of one object. The object given stays as it was; fields nobody names stay untouched.

    :ivar object: the object with all edits so far.
    :ivar operations: the patch from the object given to this one, in the order of the edits.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.object: Mapping[str, Any] = given
        self.operations: list[dict[str, Any]] = []

    def set(self, path: Path, value: Any) -> None:
        """Give a field a value. Objects missing on the way, or ``null`` there, are made; an equal value is no edit."""
        parent, depth = self._deepest(path)
        if depth == len(path) - 1 and path[-1] in parent and parent[path[-1]] == value:
            return
        parent, depth = self._deepest(path, self._own())
        key = path[depth]
        op = "replace" if key in parent else "add"
        for missing in reversed(path[depth + 1 :]):
            value = {missing: value}
        parent[key] = value
        self._record(op, path[: depth + 1], value)

    def append(self, path: Path, values: Sequence[Any]) -> None:
        """Add elements at the end of a list, which is made when it is missing."""
        if not values:
            return
        parent, depth = self._deepest(path, self._own())
        known = parent.get(path[-1]) if depth == len(path) - 1 else None
        if not known:
            self.set(path, list(values))
            return
        for value in values:
            known.append(value)
            self._record("add", (*path, "-"), value)

    def _own(self) -> Any:
        """The object as our own copy, taken at the first edit."""
        if not self.operations:
            self.object = deepcopy(self.object)
        return self.object

    def _deepest(self, path: Path, start: Any = None) -> tuple[Any, int]:
        """The deepest object on the path that exists, and the position in the path of the next key in it."""
        found: Any = self.object if start is None else start
        for depth, key in enumerate(path[:-1]):
            inner = found[key] if isinstance(key, int) else found.get(key)
            if inner is None:
                return found, depth
            found = inner
        return found, len(path) - 1

    def _record(self, op: str, path: Path, value: Any) -> None:
        pointer = "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path)
        self.operations.append({"op": op, "path": pointer, "value": deepcopy(value)})
