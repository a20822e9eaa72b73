"""The lab's scenarios on a real cluster: the same files, played from top to bottom, end the same."""

import os
from pathlib import Path

import pytest

from hami_core_py.lab.scenario import load_scenario
from tests.cluster.daemons import unused
from tests.cluster.node import INSIDE
from tests.cluster.plane import ControlPlane
from tests.cluster.stage import Stage

EXAMPLES = Path(__file__).parents[2] / "examples"


def plays_here(path: Path) -> bool:
    """Whether a file is a scenario, and one whose containers need no programs of the lab."""
    text = path.read_text(encoding="utf-8")
    return "- lab:" in text and "simulator:" not in text


SCENARIOS = sorted(path for path in EXAMPLES.glob("*.yaml") if plays_here(path))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_ends_as_in_the_lab(path: Path, directory: Path) -> None:
    if not os.environ.get(INSIDE):
        pytest.skip("a node needs root")
    scenario = load_scenario(path)
    here = unused(directory / path.stem[:12])
    with ControlPlane(here / "plane") as plane, Stage(plane, scenario.shape, here).set_up() as stage:
        outcomes = stage.player().play(scenario)
    failed = [f"{outcome.where}: {outcome.text}: {outcome.problem}" for outcome in outcomes if not outcome.ok]
    assert "\n".join(failed) == ""
    assert len(outcomes) == len(scenario.steps)
