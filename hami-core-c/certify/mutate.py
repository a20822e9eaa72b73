"""Whether the certification catches limiters that are wrong: ``python mutate.py`` makes each mutant of mutants.toml from a copy
of the limiter's sources, compiles it, and plays the case that must catch it. Ends with 0 when the limiter itself passes every
case and at least 95 of 100 mutants are caught by theirs.

Needs the simulator's package; ``--mutant NAME`` tries one alone, ``-o json`` tells everything to programs.
"""

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hami_backend_mock.certify import suite
from hami_backend_mock.certify.case import CASES

HERE = Path(__file__).resolve().parent
TREE = HERE.parent
sys.path.insert(0, str(TREE))

import compile as limiter  # noqa: E402

ENOUGH = 0.95
TOLD = "file"
"""How our limiter is told its limits."""
COMPILE_AT_ONCE, PLAY_AT_ONCE = 2, 4


class MutantError(Exception):
    """A mutant that cannot be made."""


@dataclass(frozen=True)
class Edit:
    """A change of one file below src/."""

    file: str
    before: str
    after: str


@dataclass(frozen=True)
class Mutant:
    """A wrong limiter.

    :ivar fault: which known fault it stands for. :ivar case: that must catch it.
    :ivar tries: how often that case is played: a race shows by chance.
    """

    name: str
    fault: str
    case: str
    edits: tuple[Edit, ...]
    tries: int = 1


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: caught, caught by another case, or survived."""

    mutant: str
    fault: str
    case: str
    result: str
    saw: str
    seconds: float


def read(path: Path = HERE / "mutants.toml") -> tuple[list[Mutant], list[dict[str, str]]]:
    """The mutants, and the faults that are left out and why. :raises MutantError: a name or a case is wrong."""
    table = tomllib.loads(path.read_text())
    mutants = [
        Mutant(
            one["name"], one["fault"], one["case"], tuple(map(_edit, [one, *one.get("also", [])])), one.get("tries", 1)
        )
        for one in table["mutant"]
    ]
    for one in mutants:
        if one.case not in CASES or [other.name for other in mutants].count(one.name) > 1:
            raise MutantError(f"{one.name}: expected a name of its own and a case there is, got {one.case!r}")
    return mutants, table["left_out"]


def _edit(one: dict[str, Any]) -> Edit:
    return Edit(one["file"].format(arch=limiter.architecture()), one["before"].rstrip("\n"), one["after"].rstrip("\n"))


def apply(mutant: Mutant, tree: Path) -> None:
    """Change a copy of the sources. :raises MutantError: a text is not there exactly once."""
    for edit in mutant.edits:
        path = tree / "src" / edit.file
        text = path.read_text()
        if text.count(edit.before) != 1:
            raise MutantError(
                f"{mutant.name}: expected once in {edit.file}, found {text.count(edit.before)} times:\n{edit.before}"
            )
        path.write_text(text.replace(edit.before, edit.after))


def copy_limiter(folder: Path, built: Path) -> Path:
    """The limiter as it is now, sources and objects: what is edited meanwhile concerns no mutant."""
    original = folder / "original"
    for part in ("src", "include"):
        shutil.copytree(TREE / part, original / part)
    if built.exists():
        shutil.copytree(built, original / "built")
    limiter.build(original / "built", tree=original)
    return original


def make(mutant: Mutant, original: Path, folder: Path) -> Path:
    """Compile what a mutant changes, beside the objects of the limiter. :returns: its library."""
    tree = folder / mutant.name
    shutil.copytree(original, tree)
    apply(mutant, tree)
    try:
        return limiter.build(tree / "built", tree=tree)
    except subprocess.CalledProcessError as problem:
        raise MutantError(f"{mutant.name}: it does not compile") from problem


def judge(mutant: Mutant, library: Path) -> Outcome:
    """Play the case that must catch a mutant; if it does not, all others."""
    began = time.monotonic()
    for _ in range(mutant.tries):
        verdict = suite.play(CASES[mutant.case], library, TOLD)
        if verdict.result == "failed":
            break
    result = "caught"
    if verdict.result != "failed":
        others = [one for one in CASES.values() if one.name != mutant.case]
        caught = [one for one in suite.play_all(library, TOLD, others) if one.result == "failed"]
        result = f"caught by {', '.join(one.case for one in caught)} instead" if caught else "survived"
        verdict = caught[0] if caught else verdict
    saw = f"expected {verdict.expected}, saw {verdict.seen}" if verdict.result == "failed" else ""
    return Outcome(mutant.name, mutant.fault, mutant.case, result, saw, round(time.monotonic() - began, 2))


def try_all(mutants: Sequence[Mutant], original: Path, folder: Path, tell: Callable[[Outcome], None]) -> list[Outcome]:
    """Make and judge them, several at once; tells each as soon as it and those before it are known."""
    outcomes = []
    with ThreadPoolExecutor(COMPILE_AT_ONCE) as compiling, ThreadPoolExecutor(PLAY_AT_ONCE) as playing:

        def made(mutant: Mutant) -> Future[Outcome]:
            return playing.submit(judge, mutant, make(mutant, original, folder))

        started = [compiling.submit(made, one) for one in mutants]
        for future in started:
            outcomes.append(future.result().result())
            tell(outcomes[-1])
    return outcomes


def tell(outcome: Outcome) -> None:
    """A mutant for people."""
    print(f"{outcome.fault:4} {outcome.mutant:36} {outcome.case:30} {outcome.result} ({outcome.seconds} s)", flush=True)
    if outcome.saw:
        print(f"{'':41} {outcome.saw}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutant", action="append", help="try this one alone; may be repeated")
    parser.add_argument(
        "--build",
        type=Path,
        default=TREE.parent / "build" / "limiter",
        help="objects of the limiter that may be used again",
    )
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    suite.prepare()
    mutants, left_out = read()
    chosen = [one for one in mutants if not options.mutant or one.name in options.mutant]
    with tempfile.TemporaryDirectory(prefix="hami-mutants-") as folder:
        original = copy_limiter(Path(folder), options.build)
        failed = [] if options.mutant else _fails(original / "built" / "libvgpu.so")
        outcomes = try_all(chosen, original, Path(folder), tell if options.output == "text" else lambda _: None)
    caught = sum(one.result == "caught" for one in outcomes)
    good = not failed and caught >= ENOUGH * len(outcomes)
    if options.output == "json":
        told = [dataclasses.asdict(one) for one in outcomes]
        print(json.dumps({"limiter_fails": failed, "mutants": told, "left_out": left_out}, indent=2))
        return 0 if good else 1
    for one in left_out:
        print(f"{one['fault']:4} left out: {one['because']}")
    for case in failed:
        print(f"the limiter itself fails {case}")
    print(f"{caught} of {len(outcomes)} caught by their case, in {time.monotonic() - began:.0f} s")
    return 0 if good else 1


def _fails(library: Path) -> list[str]:
    """Cases that the limiter itself fails."""
    verdicts = suite.play_all(library, TOLD, list(CASES.values()))
    return [f"{one.case}: expected {one.expected}, saw {one.seen}" for one in verdicts if one.result == "failed"]


if __name__ == "__main__":
    sys.exit(main())
