"""The reference pages say what the code says."""

import re

import pytest

from hami_core_py.cli import COMMANDS
from tests.reference.pages import FOLDER, PAGES

ROOT = FOLDER.parents[1]


@pytest.mark.parametrize("name", PAGES)
def test_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `python -m tests.reference`"


def test_every_command_is_documented() -> None:
    text = (FOLDER / "commands.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"hami {name}" not in text] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("backends/*/README.md")]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
