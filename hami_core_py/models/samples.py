"""Metric samples in base units, as backends answer them and the exporter shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from hami_core_py.models.devices import no_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured value.

    :ivar name: ends in its base unit (``_bytes``, ``_seconds``, ``_ratio``, ``_celsius``, ``_watts``, ``_total``).
    :ivar help: one sentence for people.
    :ivar warning: a sentence for the author of the pod that the labels ``namespace`` and ``pod`` name, while something is
        wrong with it; it stays the same as long as the same is wrong. The monitor makes an event of it.
    """

    name: str
    value: float
    help: str
    labels: Mapping[str, str] = field(default_factory=no_facts)
    kind: Literal["gauge", "counter"] = "gauge"
    warning: str = ""
