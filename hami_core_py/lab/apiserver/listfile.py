"""Files saved by `kubectl get -o json`: a list, or one object."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson

from hami_core_py.lab.apiserver.status import Object


def objects_in(path: Path) -> Iterator[Object]:
    """The objects of a file, each with the kind and apiVersion that a typed list leaves to its own.

    :raises OSError: when the file cannot be read.
    :raises ValueError: naming the file, when it holds neither an object nor a list of them.
    """
    try:
        content = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise ValueError(f"{path}: expected JSON as saved by kubectl get -o json: {error}") from error
    if not isinstance(content, dict) or "kind" not in content:
        raise ValueError(f"{path}: expected an object or a list with a kind, as saved by kubectl get -o json")
    kind = str(content["kind"])
    if not isinstance(content.get("items"), list):
        yield content
        return
    for item in content["items"]:
        typed = {"apiVersion": content.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
        yield {**typed, **item}
