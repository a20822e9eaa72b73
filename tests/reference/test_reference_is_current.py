"""The reference pages say what the code says."""

import re
from pathlib import Path

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


def targets(page: Path) -> list[str]:
    """Where the links of a page lead, within the repository."""
    return re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("backends/*/README.md")]:
        broken += [f"{page.relative_to(ROOT)}: {t}" for t in targets(page) if not (page.parent / t).exists()]
    assert broken == []


def test_index_of_the_docs_names_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / target).resolve() for target in targets(index)}
    pages = {page for page in ROOT.glob("docs/**/*.md") if page != index}
    assert sorted(str(page.relative_to(ROOT)) for page in pages - listed) == []
    assert "docs/README.md" in targets(ROOT / "README.md")
