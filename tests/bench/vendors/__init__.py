"""Backends of a dozen vendors that carry those vendors' tables and ask their kind of questions, without their node side.

They stand beside the installed ones, so that what a filter costs is measured with as many backends as a cluster may have.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hami_core_py.hooks import API, hookimpl
from hami_core_py.models.answers import Candidate, Reason, Refusal
from hami_core_py.models.backends import BackendInfo, DeviceRule
from hami_core_py.models.families import Family
from hami_core_py.models.requests import DeviceRequest
from hami_core_py.models.views import PlacementView, PodView
from tests.vectors.vendors import other_families

ROOT = Path(__file__).parents[3]
SECTIONS: Mapping[str, Any] = yaml.safe_load((Path(__file__).parent / "sections.yaml").read_text())


class Tables:
    """A backend that is its tables."""

    def __init__(self, section: str) -> None:
        self.name = section
        self.families = tuple(other_families({section: SECTIONS[section]}))

    @hookimpl
    def hami_backend(self) -> BackendInfo:
        """Who it is."""
        return BackendInfo(name=self.name, vendor=self.name, api=API)

    @hookimpl
    def hami_families(self) -> Sequence[Family]:
        """What it owns."""
        return self.families


class WithRules(Tables):
    """A backend whose tenants must be of equal size, which is a rule of its own."""

    @hookimpl
    def hami_filter_rules(self, request: DeviceRequest, pod: PodView) -> Sequence[DeviceRule]:
        """Whoever is alone on a device, or finds shares of its own size there, is let in."""
        rule = DeviceRule(
            reason=Reason.BACKEND_RULE,
            sentence="tenants of a device have shares of one size",
            refuses=lambda seat: (
                seat.used_slots > 0 and seat.used_memory_mib != seat.used_slots * seat.share.memory_mib
            ),
            reads=("used_slots", "used_memory_mib", "share"),
            key=pod.annotations.get(f"{self.name}.example/size"),
        )
        return (rule,) if request.count else ()


class WithCombinations(WithRules):
    """A backend whose devices stand in wings of four, of which a choice should leave large pieces."""

    @hookimpl
    def hami_select_devices(self, request: DeviceRequest, candidates: Sequence[Candidate]) -> Sequence[int] | Refusal:
        """From the fuller wing first; four from one wing or not at all."""
        wings = [[i for i, seat in enumerate(candidates) if seat.index // 4 == side] for side in (0, 1)]
        for wing in sorted(wings, key=len):
            if len(wing) >= request.count:
                return tuple(wing[: request.count])
        both = [position for wing in wings for position in wing]
        if request.count in (4, 8) and len(both) < request.count:
            return Refusal(reason=Reason.NO_COMBINATION)
        return tuple(both[: request.count])

    @hookimpl
    def hami_score_placement(self, view: PlacementView) -> float:
        """The part of the chosen seats that lie in one wing."""
        sides = [seat.index // 4 for container in view.chosen for seat in container]
        return max((sides.count(side) for side in (0, 1)), default=0) / max(1, len(sides))


KINDS: Mapping[str, type[Tables]] = {"kunlun": WithCombinations, "vnpus": WithCombinations, "metax": WithRules}


def plugins() -> list[tuple[str, object]]:
    """Every vendor as ``load_backends(plugins=...)`` takes it."""
    return [(section, plugin(section)) for section in sorted(SECTIONS)]


def plugin(section: str) -> Tables:
    """The backend of one section of the device configuration."""
    return KINDS.get(section, Tables)(section)


def install(folder: Path) -> dict[str, str]:
    """Install every vendor as a distribution of its own in a folder.

    :returns: the environment in which a process finds them beside what is installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for section in sorted(SECTIONS):
        module = f"hami_bench_{section}"
        (folder / f"{module}.py").write_text(
            f"from tests.bench.vendors import plugin as made\n\nplugin = made({section!r})\n"
        )
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: hami-bench-{section}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hami]\n{section} = {module}:plugin\n")
    paths = [str(folder), str(ROOT), *_given_paths()]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _given_paths() -> Iterator[str]:
    given = os.environ.get("PYTHONPATH", "")
    if given:
        yield given
