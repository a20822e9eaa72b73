"""Templates name no vendor: what depends on one is data."""

import re
from pathlib import Path

import pytest

from tests.architecture.test_vendor_free_core import words
from tests.chart.rendering import CHART, SETS, text

TEMPLATES = sorted((CHART / "templates").iterdir())


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_template_names_no_vendor(path: Path) -> None:
    found = set(re.findall(r"[a-z0-9]+", path.read_text(encoding="utf-8").lower()))
    assert sorted(found & words()) == []


def test_third_party_alone_is_installed_without_a_word_of_others() -> None:
    rendered = text(*SETS["third party alone"])
    assert sorted(set(re.findall(r"[a-z0-9]+", rendered.lower())) & words()) == []
