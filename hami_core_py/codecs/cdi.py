"""Container Device Interface: the spec files we write, and the edits of a vendor's specs that we merge into ours."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import yaml

from hami_core_py.codecs.loaders import FAST
from hami_core_py.errors import BadInputError
from hami_core_py.models.allocations import Grant

VENDOR = "hami.io"
"""Vendor part of the CDI kind of everything we name."""

_OUR_VERSION = "0.6.0"
_LISTS = ("env", "deviceNodes", "netDevices", "mounts", "hooks", "additionalGids")


class CdiError(BadInputError):
    """A CDI spec cannot be read, or a name in it does not exist."""


@dataclass(frozen=True, slots=True)
class CdiSpec:
    """One spec file.

    :ivar common: edits that any device of the spec brings along. :ivar devices: name → its own edits.
    """

    kind: str
    version: str
    common: Mapping[str, Any]
    devices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def cdi_kind(family: str) -> str:
    """The CDI kind under which containers of a family are named, such as ``hami.io/acme``."""
    return f"{VENDOR}/{class_word(family)}"


def class_word(family: str) -> str:
    """A family's name as a CDI class and as part of a file name: letters, digits, ``-`` and ``_``, a letter first."""
    word = re.sub(r"[^A-Za-z0-9_-]", "-", family).strip("-_")
    return word if word[:1].isalpha() else f"f-{word}".strip("-_")


def qualified(kind: str, name: str) -> str:
    """``kind=name``, as a runtime is asked for a device."""
    return f"{kind}={name}"


def name_of(text: str, kind: str) -> str | None:
    """The name in a qualified name of this kind; ``None``: it is of another kind."""
    found, separator, name = text.partition("=")
    return name if separator and found == kind and name else None


def parse_spec(text: bytes, where: str, *, is_yaml: bool) -> CdiSpec:
    """Read a spec file. :raises CdiError: it is none."""
    try:
        document = yaml.load(text, FAST) if is_yaml else orjson.loads(text)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, orjson.JSONDecodeError) as problem:
        raise CdiError(where, "a CDI spec", " ".join(str(problem).split())) from problem
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise CdiError(where, "a CDI spec with its kind", type(document).__name__)
    devices = document.get("devices") or []
    try:
        named = {device["name"]: device.get("containerEdits") or {} for device in devices}
    except (TypeError, KeyError, AttributeError) as problem:
        raise CdiError(f"{where}: devices", "objects with a name", repr(problem)) from problem
    return CdiSpec(document["kind"], str(document.get("cdiVersion") or ""), document.get("containerEdits") or {}, named)


def vendor_edits(
    names: Sequence[str], specs: Sequence[tuple[str, CdiSpec]]
) -> tuple[str, tuple[Mapping[str, Any], ...]]:
    """The edits that these qualified names of vendors bring along, a spec's common ones once.

    :param specs: file name and content, later ones beat earlier ones.
    :returns: the newest spec version among them (empty without names), and the edits in the order of the names.
    :raises CdiError: a name is in no spec.
    """
    chosen: list[Mapping[str, Any]] = []
    versions = [""]
    seen: set[str] = set()
    for name in dict.fromkeys(names):
        kind, _, device = name.partition("=")
        found = [(file, spec) for file, spec in specs if spec.kind == kind and device in spec.devices]
        if not found:
            kinds = ", ".join(sorted({spec.kind for _, spec in specs})) or "none"
            raise CdiError(
                f"CDI device {name}", "a spec that describes it", f"specs of {kinds}", "generate the vendor's"
            )
        file, spec = found[-1]
        versions.append(spec.version)
        if file not in seen:
            seen.add(file)
            chosen.append(spec.common)
        chosen.append(spec.devices[device])
    return max(versions, key=_ordered), tuple(chosen)


def render_spec(
    kind: str,
    name: str,
    grant: Grant,
    *,
    vendor: Iterable[Mapping[str, Any]] = (),
    vendor_version: str = "",
) -> str:
    """The spec file of one container: the grant as edits, after those of the vendor, so that ours win.

    Two runs over the same values give the same text.
    """
    merged: dict[str, list[Any]] = {}
    for edits in (*vendor, _edits(grant)):
        for key in _LISTS:
            for value in edits.get(key) or ():
                if value not in merged.setdefault(key, []):
                    merged[key].append(value)
    merged["env"] = _last_wins(merged.get("env", []))
    document = {
        "cdiVersion": max(_OUR_VERSION, vendor_version, key=_ordered),
        "kind": kind,
        "devices": [{"name": name, "containerEdits": {key: merged[key] for key in _LISTS if merged.get(key)}}],
    }
    return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"


def _edits(grant: Grant) -> dict[str, Any]:
    return {
        "env": [f"{name}={value}" for name, value in sorted(grant.env.items())],
        "deviceNodes": [{"path": path} for path in grant.device_paths],
        "mounts": [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": ["ro" if mount.read_only else "rw", "nosuid", "nodev", "rbind"],
            }
            for mount in grant.mounts
        ],
    }


def _last_wins(env: Sequence[str]) -> list[str]:
    """One entry per variable, where its last value stood."""
    last = {text.partition("=")[0]: text for text in env}
    return [text for text in env if last[text.partition("=")[0]] == text]


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
