"""What a case is, and how it says that something is wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from hami_backend_mock.certify.stand import Failed, Stand

Told = Literal["environment", "file"]
"""How a limiter learns its limits: by the variables of HAMI v2.10, or by a file beside it."""

CASES: dict[str, "Case"] = {}
"""Every case by its name, in the order in which they are shown."""


@dataclass(frozen=True)
class Case:
    """One thing that a limiter must do right.

    :ivar name: short and stable. :ivar sentence: what holds when it passes.
    :ivar only: the one way of being told limits for which it means something.
    :ivar waits: mostly sleeps, so that several may run at once.
    """

    name: str
    sentence: str
    run: Callable[[Stand], None]
    only: Told | None = None
    waits: bool = False


def case(
    name: str, sentence: str, *, only: Told | None = None, waits: bool = False
) -> Callable[[Callable[[Stand], None]], Callable[[Stand], None]]:
    """Enter a function as a case."""

    def enter(run: Callable[[Stand], None]) -> Callable[[Stand], None]:
        if name in CASES:
            raise ValueError(f"{name}: two cases have this name")
        CASES[name] = Case(name, sentence, run, only, waits)
        return run

    return enter


def expect(what: str, seen: Any, wanted: Any) -> None:
    """:raises Failed: what was seen is not what was wanted."""
    if seen != wanted:
        raise Failed(f"{what}: {wanted}", str(seen))


def expect_that(condition: bool, wanted: str, seen: Any) -> None:
    """:raises Failed: the condition does not hold."""
    if not condition:
        raise Failed(wanted, str(seen))


def expect_near(what: str, seen: int, wanted: int, within: int = 8) -> None:
    """Sizes in MiB may be rounded to granules. :raises Failed: it is further off."""
    if abs(seen - wanted) > within:
        raise Failed(f"{what}: {wanted} MiB, give or take {within}", f"{seen} MiB")
