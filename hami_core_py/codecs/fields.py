"""Reading decoded JSON field by field, with bounds; nothing that is wrong becomes 0 or empty on the way."""

from typing import Any, Final

import orjson

from hami_core_py.errors import BadInputError

MAX_AMOUNT: Final = 2**31 - 1
"""Largest amount that a wire field holds; both dialects count in signed 32-bit numbers."""


def parse_json(text: str, where: str, error: type[BadInputError]) -> Any:
    """Decode JSON. :raises BadInputError: of the given kind, when it is none."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as problem:
        raise error(where, "JSON", shown(text), str(problem).split(":", maxsplit=1)[0]) from problem


def render_json(value: Any) -> str:
    """Encode compactly, without blanks or line breaks between the parts."""
    return orjson.dumps(value).decode()


def folded(values: Any) -> Any:
    """A decoded object with its keys in lower case, the last of equal ones kept; ``null`` as an empty object.

    The v2.10 dialect's writers and readers take keys in any case. Anything else is returned as it is.
    """
    if values is None:
        return {}
    return {key.lower(): value for key, value in values.items()} if isinstance(values, dict) else values


def shown(value: object) -> str:
    """A value for an error message, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class Fields:
    """One JSON object. A field that is missing or ``null`` takes the given default; without a default it is an error.

    :param where: names the object in errors. :param error: what to raise.
    """

    __slots__ = ("_error", "_values", "_where")

    def __init__(self, values: object, where: str, error: type[BadInputError]) -> None:
        if not isinstance(values, dict):
            raise error(where, "a JSON object", shown(values))
        self._values: dict[str, Any] = values
        self._where = where
        self._error = error

    def whole(self, name: str, default: int | None = None, *, lowest: int = 0, highest: int = MAX_AMOUNT) -> int:
        """A whole number within bounds; a truth value is none."""
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if type(value) is not int or not lowest <= value <= highest:
            raise self._wrong(name, f"a whole number from {lowest} to {highest}", value)
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A text; with no default it must not be empty."""
        value = self._values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or (default is None and not value):
            raise self._wrong(name, "a text" if default is not None else "a text that is not empty", value)
        return value

    def flag(self, name: str, default: bool) -> bool:
        """A truth value."""
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false", value)
        return value

    def items(self, name: str) -> list[Any]:
        """A list; empty when missing."""
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, "a list", value)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty when missing."""
        values = self.items(name)
        if not all(isinstance(value, str) for value in values):
            raise self._wrong(name, "a list of texts", values)
        return tuple(values)

    def table(self, name: str) -> dict[str, Any]:
        """An object; empty when missing."""
        value = self._values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        return value

    def _wrong(self, name: str, expected: str, value: object) -> BadInputError:
        return self._error(f"{self._where}: {name}", expected, "nothing" if value is None else shown(value))
