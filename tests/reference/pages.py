"""What the pages say, read from models, specs and settings."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from hami_core_py.decisions.sentences import sentence
from hami_core_py.hooks import specs
from hami_core_py.models.answers import UNCURABLE, Reason
from hami_core_py.settings import Settings
from tests.reference.certification import certification_page
from tests.reference.chart import values_page
from tests.reference.cluster_tests import cluster_tests_page

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def settings_page() -> str:
    """Every field of the configuration file, with its environment variable and default."""
    lines = [
        "# Settings",
        "",
        "Written from the models by `python -m tests.reference`. In the configuration file every top-level key that is not",
        "listed here is the section of a backend; its README lists what it may hold. Unknown keys are errors.",
    ]
    for name, field in Settings.model_fields.items():
        section = field.annotation
        assert isinstance(section, type)
        assert issubclass(section, BaseModel)
        lines += ["", f"## {to_camel(name)}", "", (inspect.getdoc(section) or "").strip(), ""]
        lines += ["| Field | Environment | Default | Meaning |", "|---|---|---|---|"]
        for inner, info in section.model_fields.items():
            variable = f"HAMI_{name}__{inner}".upper()
            default = _default(info)
            lines.append(
                f"| `{to_camel(inner)}` | `{variable}` | {default} | {_values(info)}{info.description or ''} |"
            )
    return "\n".join(lines) + "\n"


def reasons_page() -> str:
    """Every reason with its code and the sentence that kube-scheduler prints."""
    lines = [
        "# Reasons",
        "",
        "Written from the code by `python -m tests.reference`. The code is what programs see in `hami explain -o json`; the",
        "sentence is what kube-scheduler prints into the pod's condition. *Curable*: room made by evictions may turn it into a",
        "yes.",
        "",
        "| Code | Sentence | Curable |",
        "|---|---|---|",
    ]
    for reason in Reason:
        lines.append(f"| `{reason.value}` | {sentence(reason)} | {'no' if reason in UNCURABLE else 'yes'} |")
    return "\n".join(lines) + "\n"


def hooks_page() -> str:
    """Every hook with its signature and promise."""
    lines = [
        "# Hooks",
        "",
        "Written from `hami_core_py/hooks/specs.py` by `python -m tests.reference`. Implementations name only the arguments",
        f"they use. This core serves contract {specs.API}.",
    ]
    for name, hook in _hooks():
        signature = str(inspect.signature(hook))
        short = re.sub(r"(?:hami_core_py|collections)\.[a-z_.]+\.", "", signature).replace("typing.", "")
        text = re.sub(r":(returns|raises[^:]*):", r"**\1**:", inspect.getdoc(hook) or "")
        lines += ["", f"## {name}", "", f"`{name}{short}`", "", text]
    return "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "reasons.md": reasons_page,
    "hooks.md": hooks_page,
    "values.md": values_page,
    "cluster-tests.md": cluster_tests_page,
    "certification.md": certification_page,
}


def _hooks() -> Iterator[tuple[str, Any]]:
    found = (pair for pair in vars(specs).items() if pair[0].startswith("hami_") and callable(pair[1]))
    yield from found


def _default(info: FieldInfo) -> str:
    value = info.default
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return (
        f"`{', '.join(value)}`"
        if isinstance(value, tuple) and value
        else ("empty" if value in ("", ()) else f"`{value}`")
    )


def _values(info: FieldInfo) -> str:
    choices = [c for c in get_args(info.annotation) if isinstance(c, str)]
    return " or ".join(f"`{c}`" for c in choices) + (". " if choices else "")
