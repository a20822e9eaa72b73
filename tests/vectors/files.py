"""Reading vectors, the configuration they start from, and our own answers."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OURS = Path(__file__).parent / "ours"
FOLDER = "HAMI_VECTORS"
"""The variable that says where the vectors lie."""


def folder() -> Path:
    """Where the vectors lie: ``HAMI_VECTORS``, else beside the repository."""
    return Path(os.environ.get(FOLDER) or ROOT / "../shared/vectors").resolve()


@dataclass(frozen=True)
class Vector:
    """One line of a file.

    :ivar config: changes to the default configuration. :ivar flags: changes to the scheduler's flags.
    :ivar corrected: annotations as they are once v2.10's positions are right. :ivar alternative: another right answer.
    """

    id: str
    kind: str
    input: Any
    expected: Any
    config: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, Any] = field(default_factory=dict)
    differs_ok: bool = False
    why: str = ""
    corrected: Mapping[str, Any] | None = None
    alternative: Any = None


def read_vectors(path: Path) -> Iterator[Vector]:
    """All vectors of a file, in its order; fields this runner does not look at are left out."""
    known = Vector.__dataclass_fields__
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield Vector(**{name: value for name, value in json.loads(line).items() if name in known})


def find(name: str) -> Path:
    """A vector file by its path, or by its name in the folder of vectors."""
    path = Path(name)
    return path if path.exists() else folder() / name


def default_config() -> dict[str, Any]:
    """The device configuration that vectors change."""
    config: dict[str, Any] = json.loads((folder() / "default-config.json").read_text(encoding="utf-8"))
    return config


def changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge; ``null`` removes a key, lists are replaced."""
    merged = dict(base)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = changed(merged[key], value)
        else:
            merged[key] = value
    return merged


@dataclass(frozen=True)
class Ours:
    """Our answer to one vector, and why it is not v2.10's."""

    reason: str
    expected: Any


def our_answers() -> dict[str, Ours]:
    """Vector id → our answer, of all files."""
    found: dict[str, Ours] = {}
    for path in sorted(OURS.glob("*.json")):
        for name, entry in json.loads(path.read_text(encoding="utf-8")).items():
            if name in found:
                raise ValueError(f"{path}: {name} has an answer in another file already")
            found[name] = Ours(reason=entry["reason"], expected=entry["expected"])
    return found
