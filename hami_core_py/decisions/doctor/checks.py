"""A check: a stable code, what to do about it, and a function that looks at facts."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, TypeVar

F = TypeVar("F")

Found = tuple[str, str]
"""What the finding is about, such as ``node n1``, and a sentence that says what is wrong."""

PAGE: Final = "docs/how-to/doctor.md"
CHECK_FAILED: Final = "check-failed"


class Severity(StrEnum):
    """Whether a finding makes an installation unhealthy.

    ``PROBLEM`` – something does not work, or is open that should be closed. ``ADVICE`` – it works, but not as well as it could.
    """

    PROBLEM = "problem"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One mistake.

    :ivar code: stable; its section of the documentation explains it. :ivar subject: what it is about.
    """

    code: str
    severity: Severity
    subject: str
    problem: str
    fix: str

    @property
    def page(self) -> str:
        """Where the documentation explains it."""
        return f"{PAGE}#{self.code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[F]):
    """One question to the facts."""

    code: str
    severity: Severity
    fix: str
    look: Callable[[F], Iterable[Found]]


class Checks(Generic[F]):
    """Checks over one kind of facts, in the order in which they are written down."""

    def __init__(self, *others: "Checks[F]") -> None:
        self._all: list[Check[F]] = [check for other in others for check in other]

    def __iter__(self) -> Iterator[Check[F]]:
        return iter(self._all)

    def check(
        self, code: str, *, fix: str, severity: Severity = Severity.PROBLEM
    ) -> Callable[[Callable[[F], Iterable[Found]]], Callable[[F], Iterable[Found]]]:
        """Add the decorated function as a check."""

        def add(look: Callable[[F], Iterable[Found]]) -> Callable[[F], Iterable[Found]]:
            self._all.append(Check(code=code, severity=severity, fix=fix, look=look))
            return look

        return add

    def diagnose(self, facts: F) -> tuple[Finding, ...]:
        """All findings, problems first, then by check and subject.

        A check that cannot cope with what it sees becomes an advice itself, and stops no other.
        """
        found: list[Finding] = []
        for check in self._all:
            try:
                found += [
                    Finding(code=check.code, severity=check.severity, subject=subject, problem=text, fix=check.fix)
                    for subject, text in sorted(check.look(facts))
                ]
            except Exception as problem:  # noqa: BLE001 - objects of strangers may have any shape
                found.append(_unfinished(check.code, problem))
        return tuple(sorted(found, key=lambda finding: finding.severity is Severity.ADVICE))


def _unfinished(code: str, problem: Exception) -> Finding:
    return Finding(
        code=CHECK_FAILED,
        severity=Severity.ADVICE,
        subject=f"check {code}",
        problem=f"it could not finish: {problem!r}",
        fix="report it with the output of `hami support-bundle`",
    )
