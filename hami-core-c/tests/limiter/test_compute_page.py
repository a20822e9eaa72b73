"""The page of compute targets and results is what the grid prints; digits may differ where another libm rounds."""

import importlib.util
import re
from pathlib import Path

PATH = Path(__file__).resolve().parents[1] / "unit" / "page.py"
SPEC = importlib.util.spec_from_file_location("compute_page", PATH)
assert SPEC is not None
assert SPEC.loader is not None
page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(page)


def rows(text: str) -> list[tuple[list[str], list[float]]]:
    """Per row of the table: what is promised, and what was measured."""
    found = []
    for line in text.splitlines():
        cells = [one.strip() for one in line.strip("|").split("|")]
        if len(cells) != 9 or not cells[1].isdigit():
            continue
        promised = [cells[i] for i in (0, 1, 2, 4, 6)]
        found.append((promised, [float(n) for i in (3, 5, 7) for n in re.findall(r"[-+]?[0-9]+[.][0-9]+", cells[i])]))
    return found


def test_the_page_is_what_the_grid_prints() -> None:
    kept, now = rows(page.PAGE.read_text()), rows(page.printed())
    assert len(now) > 40
    assert [one[0] for one in kept] == [one[0] for one in now], "python hami-core-c/tests/unit/page.py writes it anew"
    close = [abs(a - b) <= 3 for old, new in zip(kept, now, strict=True) for a, b in zip(old[1], new[1], strict=True)]
    assert sum(close) >= 0.9 * len(close), (
        "the results have moved; python hami-core-c/tests/unit/page.py writes the page anew"
    )
