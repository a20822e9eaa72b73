"""The simulated driver: where its libraries are, what a process needs to run on it, and how it is asked.

The devices of a node are one file, named by ``HAMI_SIM_STATE``; processes that share it share the devices.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

LIBRARIES, STATE, CONTAINER = "HAMI_SIM_LIBRARIES", "HAMI_SIM_STATE", "HAMI_SIM_CONTAINER"
COMMAND, CLIENT = "hami-sim", "hami-sim-client"
MIB = 2**20


class SimulatorError(Exception):
    """The simulated driver cannot do what was asked."""


def libraries() -> Path:
    """Folder with ``libcuda.so.1``, ``libnvidia-ml.so.1`` and the command.

    In a source checkout they are compiled when they are missing or older than their sources.
    """
    if told := os.environ.get(LIBRARIES):
        return Path(told)
    bundled = Path(__file__).resolve().parent / "simulator"
    if (bundled / COMMAND).exists():
        return bundled
    root = Path(__file__).resolve().parents[4]
    build = root / "hami-core-c" / "simulator" / "build.py"
    if not build.exists():
        raise SimulatorError(
            f"no simulated driver in {bundled}: this installation was built without it; set {LIBRARIES}"
        )
    folder = root / "build" / "sim"
    done = subprocess.run([sys.executable, str(build), str(folder)], capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise SimulatorError(f"the simulated driver does not compile: {done.stderr.strip()}")
    return folder


def environment(state: Path, container: str = "") -> dict[str, str]:
    """Variables under which a process finds the simulated driver instead of a real one.

    :param container: name under which the simulator books what the process uses.
    """
    return {"LD_LIBRARY_PATH": str(libraries()), STATE: str(state), CONTAINER: container}


def ask(*words: str, state: Path | None = None, lines: str | None = None, accept: Sequence[int] = (0,)) -> Any:
    """Answer of the simulator's command. :raises SimulatorError: with its own words."""
    variables = dict(os.environ) | ({STATE: str(state)} if state else {})
    done = subprocess.run(  # noqa: S603
        [str(libraries() / COMMAND), *words], env=variables, input=lines, capture_output=True, text=True
    )
    if done.returncode not in accept:
        raise SimulatorError(done.stderr.strip() or f"{COMMAND} ended with {done.returncode}")
    return json.loads(done.stdout)


def start(state: Path, config: Mapping[str, Any] | str) -> None:
    """Put new devices in place.

    :param config: short text as in ``4xA100-80G,T4``, or settings with ``cards``, a list of mappings with ``profile``.
    """
    state.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(config, str):
        ask("start", config, state=state)
    else:
        ask("start", "-", state=state, lines="\n".join(config_lines(config)) + "\n")


def config_lines(config: Mapping[str, Any]) -> Iterator[str]:
    """The command's own form of settings. :raises SimulatorError: names what is wrong."""
    cards = config.get("cards", [])
    if not isinstance(cards, list) or not cards:
        raise SimulatorError(
            "cards: expected a list of mappings with a profile each, such as {profile: A100-80G, count: 2}"
        )
    for key, value in config.items():
        if key != "cards":
            yield f"{key}={_word(value)}"
    for index, card in enumerate(cards):
        if not isinstance(card, dict) or "profile" not in card:
            raise SimulatorError(f"cards[{index}]: expected a mapping with a profile, got {card!r}")
        more = (f"{key}={_word(value)}" for key, value in card.items() if key != "profile")
        yield " ".join(("card", str(card["profile"]), *more))


def _word(value: Any) -> str:
    """One word of a line; blanks in names travel as underscores."""
    if isinstance(value, bool):
        return str(int(value))
    return str(value).replace(" ", "_")


def client() -> None:
    """The command ``hami-sim-client``: become the small program that comes with the driver."""
    program = libraries() / CLIENT
    os.execv(program, [CLIENT, *sys.argv[1:]])  # noqa: S606 - our own program
