"""One value out of what a process shows to Prometheus."""

import re
from collections.abc import Mapping

_LINE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


def value_of(text: str, name: str, labels: Mapping[str, str]) -> float | None:
    """The first value of a series with these labels, among others; ``None``: there is none."""
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None or found["name"] != name:
            continue
        if labels.items() <= dict(_LABEL.findall(found["labels"] or "")).items():
            return float(found["value"])
    return None
