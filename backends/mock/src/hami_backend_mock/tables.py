"""YAML values → the core's frozen values, with unknown keys refused."""

from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from hami_backend_mock.lines import Document, Place


def read_as(model: type[Any], value: Any, document: Document, place: Place) -> Any:
    """A value of a frozen dataclass. :raises SettingsError: a key or value is wrong; names file, line and field."""
    if not isinstance(value, dict):
        raise document.wrong(place, "a mapping", type(value).__name__)
    _refuse_unknown(model, value, document, place)
    try:
        return TypeAdapter(model).validate_python(value)
    except ValidationError as problem:
        first = problem.errors()[0]
        inner = [part for part in first["loc"] if isinstance(part, int) or not part[:1].isupper()]
        got = "nothing" if first["type"] == "missing" else repr(first["input"])
        expected = "a value" if first["type"] == "missing" else first["msg"].removeprefix("Input should be ")
        raise document.wrong([*place, *inner], expected, got) from problem


def _refuse_unknown(model: type[Any], value: dict[str, Any], document: Document, place: Place) -> None:
    known = {f.name for f in fields(model)}
    hints = get_type_hints(model)
    for key, inner in value.items():
        if key not in known:
            near = get_close_matches(str(key), sorted(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
            raise document.wrong([*place, key], "a known key", "an unknown one", hint)
        many = isinstance(inner, list)
        for position, one in enumerate(inner if many else [inner]):
            inner_model = _model_for(hints[key], one)
            if inner_model is not None:
                _refuse_unknown(inner_model, one, document, [*place, key, *([position] if many else [])])


def _model_for(hint: Any, value: Any) -> type[Any] | None:
    """The dataclass that a mapping is meant for; of several, the one that knows most of its keys."""
    if not isinstance(value, dict):
        return None
    options = get_args(hint) if get_origin(hint) in (Union, UnionType, tuple) else (hint,)
    models = [option for option in options if isinstance(option, type) and is_dataclass(option)]
    return max(models, key=lambda m: len({f.name for f in fields(m)} & set(value)), default=None)
