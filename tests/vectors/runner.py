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
answer counts, in words that ours has too, and ``MAY_DIFFER``, kind → which rule of ours makes another answer right."""


class NotCoveredError(Exception):
    """This project cannot answer such a vector yet; the text says what is missing."""


@dataclass
class Tally:
    """Counts of one run.

    :ivar differing: vector id → what differs. :ivar undecided: the same where it may, but nobody has written down yet which
        answer of ours is right; :ivar not_covered: what is missing → how many vectors need it.
    """

    passed: int = 0
    differing: dict[str, list[str]] = field(default_factory=dict)
    undecided: dict[str, list[str]] = field(default_factory=dict)
    not_covered: Counter[str] = field(default_factory=Counter)

    @property
    def skipped(self) -> int:
        """How many vectors say neither yes nor no."""
        return self.not_covered.total() + len(self.undecided)

    def __str__(self) -> str:
        return f"{self.passed} passed, {len(self.differing)} failed, {self.skipped} skipped"


@dataclass(frozen=True)
class Group:
    """How the vectors of some kinds are answered; see ``GROUPS``."""

    answers: Mapping[str, Answer]
    expected: Mapping[str, Counting]
    may_differ: Mapping[str, Callable[[Vector], str]]


def groups() -> dict[str, Group]:
    """Kind → its group."""
    found: dict[str, Group] = {}
    for name in GROUPS:
        module = importlib.import_module(f"tests.vectors.answers.{name}")
        group = Group(module.KINDS, getattr(module, "EXPECTED", {}), getattr(module, "MAY_DIFFER", {}))
        found |= dict.fromkeys(group.answers, group)
    return found


def run(vectors: Iterable[Vector], ours: Mapping[str, Ours]) -> Tally:
    """Answer every vector and compare."""
    known = groups()
    tally = Tally()
    for vector in vectors:
        if vector.kind in known:
            _count(tally, vector, known[vector.kind], ours.get(vector.id))
        else:
            tally.not_covered[vector.kind] += 1
    return tally


def _count(tally: Tally, vector: Vector, group: Group, ours: Ours | None) -> None:
    kind = vector.kind
    try:
        got = group.answers[kind](vector)
        problems = judge(vector, got, ours, group.expected.get(kind, _all_of_it))
    except NotCoveredError as missing:
        tally.not_covered[f"{kind}: {missing}"] += 1
        return
    except Exception:  # noqa: BLE001 - one broken answer must not hide the others
        tally.differing[vector.id] = [traceback.format_exc(limit=-1)]
        return
    why = why_it_may_differ(vector, group) if ours is None else ""
    if not problems:
        tally.passed += 1
    elif why:
        tally.undecided[vector.id] = [*problems, f"it may differ: {why}; our answer belongs in tests/vectors/ours"]
    else:
        tally.differing[vector.id] = problems


def why_it_may_differ(vector: Vector, group: Group) -> str:
    """Why another answer than v2.10's may be right; empty: none may, or the vector itself says which."""
    if vector.differs_ok and vector.corrected is None and vector.alternative is None:
        return vector.why
    rule = group.may_differ.get(vector.kind)
    return rule(vector) if rule is not None else ""


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
    return min(attempts, key=len)


def _all_of_it(_: Vector, answer: Any) -> Any:
    return answer


def with_annotations(expected: Any, corrected: Mapping[str, Any]) -> Any:
    """The answer with some annotations of its patch replaced; ``None`` removes one."""
    metadata = expected["patch"]["metadata"]
    annotations = {**metadata["annotations"], **corrected}
    kept = {key: text for key, text in annotations.items() if text is not None}
    return {**expected, "patch": {**expected["patch"], "metadata": {**metadata, "annotations": kept}}}
