"""Keeps a store on disk: one line for each write, replayed at the next start and shortened then."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import orjson

from hami_core_py.lab.apiserver.history import Event, key_of
from hami_core_py.lab.apiserver.objects import Objects
from hami_core_py.lab.apiserver.resources import RESOURCES, Resource, find
from hami_core_py.lab.apiserver.status import Object


class Journal:
    """The file of one store. Writes are in the operating system's hands when a request is answered."""

    def __init__(self, path: Path, objects: Objects) -> None:
        """Load what `path` has into `objects`, then write everything that follows into it.

        A last line that was cut off by a kill is ignored.

        :raises ValueError: naming the line, when an earlier one cannot be read.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _load(path, objects)
        _shorten(path, objects)
        self._file: BinaryIO = path.open("ab", buffering=0)
        objects.listen(self._note)

    def close(self) -> None:
        self._file.close()

    def _note(self, resource: Resource, event: Event) -> None:
        if not self._file.closed:
            gone = event.type == "DELETED"
            self._file.write(_line(resource, event.object, event.version, gone=gone))


def _line(resource: Resource, obj: Object, version: int, *, gone: bool) -> bytes:
    entry: Object = {"resource": resource.qualified, "version": version}
    entry |= {"gone": key_of(obj)} if gone else {"object": obj}
    return orjson.dumps(entry) + b"\n"


def _load(path: Path, objects: Objects) -> None:
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, 1):
        try:
            entry = orjson.loads(line)
            resource = find(entry["resource"])
            obj = entry.get("object")
            namespace, name = key_of(obj) if obj else entry["gone"]
            objects.restore(resource, obj, (namespace, name), entry["version"])
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            if number < len(lines):
                raise ValueError(
                    f"{path}: line {number}: expected one write as JSON: {error}; delete the file"
                ) from error


def _shorten(path: Path, objects: Objects) -> None:
    partial = path.with_name(f"{path.name}.new")
    with partial.open("wb") as file:
        for resource in RESOURCES:
            if resource.is_stored and not resource.stored_as:
                for obj in objects.scan(resource)[0]:
                    file.write(_line(resource, obj, objects.version, gone=False))
    partial.replace(path)
