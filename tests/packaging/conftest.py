"""Wheels are built and installed only when asked for (``tox -e package``): it takes the network and about a minute."""

from pathlib import Path

import pytest

ASKED = Path(__file__).parent.name


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave this folder out of a run over everything."""
    return None if any(ASKED in argument for argument in config.args) else True
