"""Plays cases against a library."""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hami_backend_mock import sim
from hami_backend_mock.certify import cases
from hami_backend_mock.certify.case import CASES, Case, Told
from hami_backend_mock.certify.stand import MIB, Failed, Stand
from hami_backend_mock.sim import SimulatorError

AT_ONCE = 2
"""Cases that compute; as many again as mostly wait."""
WAITING_AT_ONCE = 5

__all__ = ["CASES", "Verdict", "cases", "learn", "play", "play_all", "prepare"]


@dataclass(frozen=True)
class Verdict:
    """What came of a case. ``skipped``: it means nothing for a limiter that is told its limits in this way."""

    case: str
    sentence: str
    result: str
    expected: str = ""
    seen: str = ""
    seconds: float = 0.0


def prepare() -> None:
    """Have the simulated driver ready, once for all that this process starts. :raises SimulatorError: it is not to be had."""
    os.environ[sim.LIBRARIES] = str(sim.libraries())


def learn(library: Path) -> Told:
    """How a library learns limits: tried out. :raises Failed: in none of the ways that are known."""
    for told in ("file", "environment"):
        with tempfile.TemporaryDirectory(prefix="hami-certify-") as folder:
            stand = Stand(library, told, Path(folder))
            try:
                program = stand.container(stand.node(), mib=1000, contexts=0).spawn().must("init")
                if program.ask("total 0").first == 1000 * MIB:
                    return told
            except Failed:
                continue
            finally:
                stand.close()
    raise Failed(
        "a library that takes limits from the variables of HAMI v2.10, or from a file beside it", "none of them held"
    )


def play(one: Case, library: Path, told: Told) -> Verdict:
    """Play one case in a folder of its own."""
    began = time.monotonic()
    if one.only and one.only != told and one.only != "environment":
        return Verdict(one.name, one.sentence, "skipped")
    with tempfile.TemporaryDirectory(prefix="hami-certify-", ignore_cleanup_errors=True) as folder:
        stand = Stand(library, told, Path(folder))
        expected = seen = ""
        result = "failed"
        try:
            one.run(stand)
            stand.judge()
            result = "passed"
        except Failed as problem:
            expected, seen = problem.expected, problem.seen
        except SimulatorError as problem:
            expected, seen = "a simulated driver that works", str(problem)
        finally:
            stand.close()
    return Verdict(one.name, one.sentence, result, expected, seen, round(time.monotonic() - began, 2))


def play_all(
    library: Path, told: Told, chosen: Sequence[Case], done: Callable[[Verdict], None] = lambda _: None
) -> list[Verdict]:
    """Play cases, several at once, and tell each verdict in the order of the cases."""
    verdicts = []
    with ThreadPoolExecutor(WAITING_AT_ONCE) as waiting, ThreadPoolExecutor(AT_ONCE) as working:
        started = [(waiting if one.waits else working).submit(play, one, library, told) for one in chosen]
        for future in started:
            verdict = future.result()
            done(verdict)
            verdicts.append(verdict)
    return verdicts
