"""What a limiter costs and how exactly it shares: programs on a simulated card, with and without it, asked in turns."""

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hami_core_py.errors import HamiError

ASKER, CLIENT = "hami-sim-bench", "hami-sim-client"
TURNS = 3
"""How often a round asks what is answered in a moment."""
QUESTIONS = {
    "launch": ("launch",),
    "alloc_free_ns": ("alloc",),
    "alloc_free_20000_blocks_ns": ("hold 20000", *["alloc"] * TURNS, "hold 0"),
    "alloc_free_1000000_blocks_ns": ("hold 1000000", *["alloc"] * TURNS, "hold 0"),
    "memory_info_ns": ("info",),
    "get_proc_address_ns": ("lookup",),
}
"""Name of a figure → what the program is asked; answers of 0 do not count."""
CONTENDED = "alloc_free_contended_ns"
CONTENDERS, CONTEND = 16, "contend 300"
HELD = ("--memory", "8000Mi")
LIMITED = ("--cores", "30")
WARM_UP_SECONDS = 2.0
LONGEST_SECONDS = 3600
"""Of a program that computes until it is told to end."""
SERVED_PERCENT = 90.0
"""A card beside a saturating neighbour that was busy for less had programs that got no processor to launch with."""
TRIES = 3
Env = Mapping[str, str]


class LimiterBenchError(HamiError):
    """A program of the measurement failed."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One situation in which a share is measured, and by how many points it may be off."""

    sms: int
    kernel_us: int
    processes: int
    neighbour: str
    limit: int
    allowed: float


PROFILES = {108: "A100-40G", 40: "T4"}
"""Multiprocessors → a simulated card that has so many."""
CELLS = (
    Cell(108, 500, 1, "none", 30, 1.5),
    Cell(108, 500, 4, "none", 30, 1.5),
    Cell(40, 500, 1, "none", 30, 1.5),
    Cell(108, 500, 1, "saturating", 30, 1.5),
    Cell(108, 5000, 1, "saturating", 30, 2.0),
)


def held(*options: str) -> list[str]:
    """The words that have a program held to a share."""
    return [sys.executable, "-m", "hami_core_py", "run", "--quiet", *options, "--"]


class Asked:
    """A program that answers a question a line with nanoseconds."""

    def __init__(self, command: Sequence[str], env: Env) -> None:
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(BrokenPipeError):
            self._process.communicate()

    def figure(self, questions: Sequence[str]) -> float:
        """The lowest answer to these questions but 0. :raises LimiterBenchError: the program has ended."""
        return min(filter(None, [self._ask(question) for question in questions]), default=0.0)

    def _ask(self, question: str) -> float:
        self.send(question)
        return self.answer(question)

    def send(self, question: str) -> None:
        """Ask, and wait for nothing."""
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(BrokenPipeError):
            stdin.write(question + "\n")
            stdin.flush()

    def answer(self, question: str) -> float:
        """The answer to what was sent. :raises LimiterBenchError: the program has ended."""
        stdout = self._process.stdout
        assert stdout is not None
        answer = stdout.readline()
        if not answer:
            raise LimiterBenchError(f"{ASKER} ended with {self._process.wait()} when it was asked {question!r}")
        return float(answer)


def costs(driver: Path, env: Env, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Nanoseconds with the bare driver and under the limiter, by the same names, from programs that are asked in turns.

    Each answer is a median over hundreds of batches of calls. The lowest answer counts: whatever else the machine does adds.

    :param driver: folder of the simulated driver. :param env: of programs that use it.
    """
    asker = str(driver / ASKER)
    seen: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as open_programs:
        programs = {
            "bare": open_programs.enter_context(Asked([asker], env)),
            "unlimited": open_programs.enter_context(Asked([*held(*HELD), asker], env)),
            "limited": open_programs.enter_context(Asked([*held(*HELD, *LIMITED), asker], env)),
        }
        for _ in range(rounds):
            for name, questions in QUESTIONS.items():
                for _ in range(TURNS if len(questions) == 1 else 1):
                    for who, program in programs.items():
                        if who != "limited" or name == "launch":
                            seen.setdefault((who, name), []).append(program.figure(questions))
    lowest = {key: min(values) for key, values in seen.items()}
    for who, prefix in (("bare", []), ("unlimited", held(*HELD))):
        lowest[who, CONTENDED] = contended([*prefix, asker], env)
    names = (*QUESTIONS, CONTENDED)[1:]
    bare = {f"launch_{who}_ns": lowest["bare", "launch"] for who in ("unlimited", "limited")}
    ours = {f"launch_{who}_ns": lowest[who, "launch"] for who in ("unlimited", "limited")}
    return (
        {**bare, **{name: lowest["bare", name] for name in names}},
        {**ours, **{name: lowest["unlimited", name] for name in names}},
    )


def contended(command: Sequence[str], env: Env) -> float:
    """Processor time of an allocation and its release, in nanoseconds, in programs that all do nothing else at once.

    The median program's, in the quietest of a few goes.
    """
    with ExitStack() as open_programs:
        programs = [open_programs.enter_context(Asked(command, env)) for _ in range(CONTENDERS)]
        for program in programs:
            program.figure(["hold 0"])
        goes = []
        for _ in range(TURNS):
            for program in programs:
                program.send(CONTEND)
            goes.append(statistics.median(program.answer(CONTEND) for program in programs))
        return min(goes)


def start_seconds(prefix: Sequence[str], env: Env, processes: int) -> float:
    """How long so many programs take that start at once, make a context each and end."""
    script = f"date +%s.%N; for _ in $(seq {processes}); do {CLIENT} info & done; wait; date +%s.%N"
    done = subprocess.run([*prefix, "sh", "-c", script], env=env, capture_output=True, text=True, check=False)  # noqa: S603
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) != processes + 2:
        raise LimiterBenchError(f"{len(lines) - 2} of {processes} programs started: {done.stderr.strip()[-300:]}")
    return float(lines[-1]) - float(lines[0])


def share(
    cell: Cell, env: Env, tag: str, seconds: float, percents: Callable[[Sequence[str], float], Sequence[float]]
) -> dict[str, Any]:
    """Measure one cell in real time.

    Beside a neighbour it is measured again while the card was not busy: that tells of a machine without a processor to spare,
    not of the limiter. The time in which the card was busiest counts.

    :param tag: under which the simulator books it. :param percents: of tags' time on the card, over some seconds from now.
    """
    work = f"{CLIENT} work {LONGEST_SECONDS} {cell.kernel_us} &"
    script = f"{work * cell.processes} wait"
    tags = [tag]
    running = [_start([*held("--cores", str(cell.limit)), "sh", "-c", script], {**env, "HAMI_SIM_CONTAINER": tag})]
    if cell.neighbour != "none":
        tags.append(f"{tag}-neighbour")
        running.append(_start(["sh", "-c", f"{work} wait"], {**env, "HAMI_SIM_CONTAINER": tags[1]}))
    try:
        _await_busy(lambda: min(percents(tags, 0.2)))
        time.sleep(WARM_UP_SECONDS)
        tries = [percents(tags, seconds)]
        while len(tags) > 1 and sum(tries[-1]) < SERVED_PERCENT and len(tries) < TRIES:
            tries.append(percents(tags, seconds))
    finally:
        for one in running:
            _end(one)
    named = {name: getattr(cell, name) for name in cell.__slots__}
    return {**named, "measured": round(max(tries, key=sum)[0], 2)}


def _start(command: Sequence[str], env: Env) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, start_new_session=True)  # noqa: S603


def _end(process: "subprocess.Popen[bytes]") -> None:
    """It, and what it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def _await_busy(percent: Callable[[], float]) -> None:
    deadline = time.monotonic() + 30
    while percent() <= 0:
        if time.monotonic() > deadline:
            raise LimiterBenchError("a program that should compute does not")


def environment(variables: Env, driver: Path) -> dict[str, str]:
    """This process's variables with those of the simulated driver, whose programs are found first."""
    return {**os.environ, **variables, "PATH": os.pathsep.join((str(driver), os.environ.get("PATH", "")))}
