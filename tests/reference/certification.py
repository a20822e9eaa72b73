"""The page of the certification's cases, with the known faults that each of them catches."""

import tomllib
from collections import defaultdict
from importlib import import_module
from pathlib import Path

from hami_backend_mock.certify import suite

CERTIFY = Path(__file__).parents[2] / "hami-core-c" / "certify"
ORDER = ("lookups", "devices", "families", "accounting", "contexts", "process", "compute", "monitor")
HEAD = """# Cases of the certification

Written by `python -m tests.reference` from the cases. [How to certify a limiter](../how-to/certify-a-limiter.md) says how they
are played. A case passes when its sentence holds and, by the simulator's own count, no container ever had more of a card than its
limit and a slack of 8 MiB.

*Faults* are those of other limiters, by their numbers in [hami-core-c/certify](../../hami-core-c/certify/README.md), with which a
limiter was shown to fail that case.
"""


def certification_page() -> str:
    """The cases by topic."""
    faults: dict[str, set[str]] = defaultdict(set)
    for mutant in tomllib.loads((CERTIFY / "mutants.toml").read_text(encoding="utf-8"))["mutant"]:
        faults[mutant["case"]].add(mutant["fault"])
    parts = [HEAD]
    for topic in ORDER:
        module = import_module(f"{suite.cases.__name__}.{topic}")
        parts.append(
            f"\n## {topic}\n\n{(module.__doc__ or '').strip()}\n\n| Case | What holds | Faults |\n|---|---|---|\n"
        )
        for one in suite.CASES.values():
            if one.run.__module__ == module.__name__:
                told = f" *Only where limits are told by {one.only}.*" if one.only else ""
                caught = ", ".join(sorted(faults[one.name], key=lambda fault: (fault[0], int(fault[1:]))))
                parts.append(f"| `{one.name}` | {one.sentence}{told} | {caught} |\n")
    return "".join(parts)
