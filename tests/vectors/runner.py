"""Putting vectors to the project and counting what comes back."""

import importlib
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.vectors.compare import differences
from tests.vectors.files import Ours, Vector

Answer = Callable[[Vector], Any]
Counting = Callable[[Vector, Any], Any]

GROUPS = ("codecs", "decisions", "requests", "locks", "webhook", "filters")
"""Modules of ``answers``; each has ``KINDS``, kind → how to answer it, and may have ``EXPECTED``, kind → what of v2.10's
answer counts, in words that ours has too."""


class NotCoveredError(Exception):
    """This project cannot answer such a vector yet; the text says what is missing."""


@dataclass
class Tally:
    """Counts of one run. ``differing``: vector id → what differs."""

    passed: int = 0
    differing: dict[str, list[str]] = field(default_factory=dict)
    not_covered: Counter[str] = field(default_factory=Counter)

    @property
    def skipped(self) -> int:
        """How many vectors are not covered yet."""
        return self.not_covered.total()

    def __str__(self) -> str:
        return f"{self.passed} passed, {len(self.differing)} failed, {self.skipped} skipped"


def kinds() -> tuple[dict[str, Answer], dict[str, Counting]]:
    """Kind → how to answer it, and kind → what of v2.10's answer counts."""
    answers: dict[str, Answer] = {}
    expected: dict[str, Counting] = {}
    for group in GROUPS:
        module = importlib.import_module(f"tests.vectors.answers.{group}")
        answers |= module.KINDS
        expected |= getattr(module, "EXPECTED", {})
    return answers, expected


def run(vectors: Iterable[Vector], ours: Mapping[str, Ours]) -> Tally:
    """Answer every vector and compare."""
    answers, counting = kinds()
    tally = Tally()
    for vector in vectors:
        answer = answers.get(vector.kind)
        if answer is None:
            tally.not_covered[vector.kind] += 1
            continue
        try:
            problems = judge(vector, answer(vector), ours.get(vector.id), counting.get(vector.kind, _all_of_it))
        except NotCoveredError as missing:
            tally.not_covered[f"{vector.kind}: {missing}"] += 1
            continue
        except Exception:  # noqa: BLE001 - one broken answer must not hide the others
            problems = [traceback.format_exc(limit=-1)]
        if problems:
            tally.differing[vector.id] = problems
        else:
            tally.passed += 1
    return tally


def judge(vector: Vector, got: Any, ours: Ours | None, counting: Counting) -> list[str]:
    """What differs from the right answer; nothing when one of several right ones is met."""
    if ours is not None:
        problems = list(differences(counting(vector, ours.expected), got))
        return [f"{p} (ours: {ours.reason})" for p in problems]
    right = [vector.expected]
    if vector.corrected is not None:
        right = [with_annotations(vector.expected, vector.corrected)]
    if vector.alternative is not None:
        right.append(vector.alternative)
    attempts = [list(differences(counting(vector, expected), got)) for expected in right]
    best = min(attempts, key=len)
    if best and vector.differs_ok:
        best.append(f"it may differ, but then our answer and its reason belong in tests/vectors/ours: {vector.why}")
    return best


def _all_of_it(_: Vector, answer: Any) -> Any:
    return answer


def with_annotations(expected: Any, corrected: Mapping[str, Any]) -> Any:
    """The answer with some annotations of its patch replaced; ``None`` removes one."""
    metadata = expected["patch"]["metadata"]
    annotations = {**metadata["annotations"], **corrected}
    kept = {key: text for key, text in annotations.items() if text is not None}
    return {**expected, "patch": {**expected["patch"], "metadata": {**metadata, "annotations": kept}}}
