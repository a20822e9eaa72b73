"""What of the chart is written from the code: schema, definitions of our backends, guarded annotations, the values' page."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from hami_core_py.codecs.records import CORE_KEYS
from hami_core_py.commands.common import load
from hami_core_py.commands.definitions import values_file
from hami_core_py.decisions.bookkeeping import PREFIX, RECORD_SUFFIXES
from tests.reference.chart_values import Root
from tests.reference.dashboard import dashboard_text

CHART = Path(__file__).parents[2] / "charts" / "hami"
DRAFT = "http://json-schema.org/draft-07/schema#"
NUMBER = r"^[0-9]+(\.[0-9]+)?$"
NOISE = frozenset({"title", "default", "format"})
"""Keywords that say nothing to Helm: defaults are those of values.yaml."""


def schema() -> dict[str, Any]:
    """The JSON schema of the values."""
    made = _tidy(Root.model_json_schema(by_alias=True))
    return {"$schema": DRAFT, **made}


def schema_text() -> str:
    """The same as a file."""
    return json.dumps(schema(), indent=1) + "\n"


def core_text() -> str:
    """Annotations of the core that admission policies guard."""
    guarded = {"pods": sorted(CORE_KEYS), "prefix": PREFIX, "suffixes": sorted(RECORD_SUFFIXES)}
    return "# Written by `python -m tests.reference`.\n" + yaml.safe_dump({"bookkeeping": guarded}, sort_keys=False)


def definition_texts() -> dict[str, str]:
    """A values file for each backend of ours."""
    loaded = load(None).ask.backends.loaded
    ours = [b for b in loaded if (CHART.parents[1] / "backends" / b.info.name / "pyproject.toml").exists()]
    return {f"backends/{backend.info.name}.yaml": values_file(backend) for backend in ours}


def chart_files() -> dict[str, str]:
    """Path below the chart → what it must say."""
    texts = {
        "values.schema.json": schema_text(),
        "files/core.yaml": core_text(),
        "files/dashboard.json": dashboard_text(),
    }
    return {**texts, **definition_texts()}


def values_page() -> str:
    """Every value with its default and meaning; those of the v2.10 chart in a table of their own."""
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    ignored = set(yaml.safe_load((CHART / "files" / "v210.yaml").read_text(encoding="utf-8"))["ignored"])
    lines = [
        "# Values",
        "",
        "Written by `python -m tests.reference` from the models behind `charts/hami/values.schema.json`, which refuses every",
        "other value. `<backend>` is the name of a backend: what stands there changes its definition, maps are merged.",
    ]
    old = []
    general: list[tuple[str, str, bool]] = []
    tables: list[str] = []
    for name, part in _resolve(schema(), schema())["properties"].items():
        rows = list(_rows(schema(), part, name, is_old=bool(part.get("deprecated"))))
        old += [row for row in rows if row[2]]
        rows = [row for row in rows if not row[2]]
        if len(rows) == 1:
            general += rows
        elif rows:
            tables += _table(name, rows, defaults)
    lines += [*_table("general", general, defaults), *tables]
    lines += ["", "## Values of the v2.10 chart", "", "They work as they did there, unless it is said otherwise.", ""]
    lines += ["| Value | Here |", "|---|---|"]
    aliases = _aliases()
    for path, text, _ in old:
        if path.partition("[")[0] in ignored or any(path.startswith(f"{one}.") for one in ignored):
            text = "means nothing here; the notes of `helm install` say so"
        elif path in aliases:
            text = ", ".join(f"`{target}`" for target in aliases[path])
        elif not text:
            text = "of a backend that is not part of this chart; means nothing here"
        lines.append(f"| `{path}` | {text} |")
    return "\n".join(lines) + "\n"


def _table(title: str, rows: list[tuple[str, str, bool]], defaults: Mapping[str, Any]) -> list[str]:
    head = ["", f"## {title}", "", "| Value | Default | Meaning |", "|---|---|---|"]
    return head + [f"| `{path}` | {_default(defaults, path)} | {text} |" for path, text, _ in rows]


def _aliases() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in definition_texts().values():
        for name, one in yaml.safe_load(text)["backends"]["definitions"].items():
            for path, targets in one.get("aliases", {}).items():
                found[path] = [f"backends.{name}.{target}" for target in targets]
    return found


def _rows(
    root: Mapping[str, Any], part: Mapping[str, Any], path: str, *, is_old: bool
) -> Iterator[tuple[str, str, bool]]:
    """Every value at and below a path: path, meaning, whether only older files use it."""
    whole = _resolve(root, part)
    is_old = is_old or bool(part.get("deprecated"))
    text = str(part.get("description", "")).replace("|", "\\|")
    choices = [str(one) for one in whole.get("enum", ()) if one]
    if choices:
        text = f"{' or '.join(f'`{one}`' for one in choices)}. {text}".strip()
    below = whole.get("properties", {})
    if not below or path.endswith("leaderElect"):
        yield path, text, is_old
    others = whole.get("additionalProperties")
    named = {f"{path}.<backend>": others} if isinstance(others, dict) and path in ("backends", "devices") else {}
    if path == "backends.definitions":
        return
    for key, one in below.items():
        if path == "backends" and key not in ("enabled", "definitions"):
            yield from _rows(
                root, _resolve(root, one)["properties"]["settings"], f"{path}.{key}.settings", is_old=is_old
            )
            continue
        yield from _rows(root, one, f"{path}.{key}", is_old=is_old)
    for key, one in named.items():
        yield from _rows(root, one, key, is_old=is_old)


def _resolve(root: Mapping[str, Any], part: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part without references and without the alternative that it may be absent."""
    found: Mapping[str, Any] = part
    while True:
        if "$ref" in found:
            found = root["$defs"][found["$ref"].rpartition("/")[2]]
        elif "anyOf" in found:
            found = next((one for one in found["anyOf"] if "$ref" in one), found["anyOf"][0])
        else:
            return found


def _default(values: Mapping[str, Any], path: str) -> str:
    found: Any = values
    for key in path.split("."):
        if not isinstance(found, Mapping) or key not in found:
            return ""
        found = found[key]
    if found is None or found in ("", [], {}):
        return "empty"
    return f"`{json.dumps(found)}`" if isinstance(found, bool | list | dict) else f"`{found}`"


def _tidy(part: Any) -> Any:
    """Without keywords that say nothing, and with one plain answer to a wrong value instead of one per alternative."""
    if isinstance(part, list):
        return [_tidy(one) for one in part]
    if not isinstance(part, dict):
        return part
    kept: dict[str, Any] = {}
    for key, value in part.items():
        if key in ("properties", "$defs"):
            kept[key] = {name: _tidy(one) for name, one in value.items()}
        elif key not in NOISE:
            kept[key] = _tidy(value)
    if kept.get("type") == "number":
        # What follows --set is a number only when it is whole.
        kept |= {"type": ["number", "string"], "pattern": NUMBER}
    real = [one for one in kept.get("anyOf", ()) if one != {"type": "null"}]
    if len(real) == 1 and len(kept["anyOf"]) == 2:
        del kept["anyOf"]
        kept |= _or_null(real[0])
    return kept


def _or_null(part: dict[str, Any]) -> dict[str, Any]:
    """A value that may be absent; what holds further values is never null, as Helm merges into it."""
    if "$ref" in part or part.get("type") == "object":
        return part
    types = part.get("type", [])
    found = {**part, "type": [*([types] if isinstance(types, str) else types), "null"]} if types else part
    return {**found, "enum": [*part["enum"], None]} if "enum" in part else found
