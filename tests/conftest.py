"""What holds for every test of the core and the whole."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# No time limit for an example, or for making them: the machines that run the tests are shared.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def loggers_as_found() -> Iterator[None]:
    """Commands that run in this process set up the root logger; the next test must not notice."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in [h for h in root.handlers if h not in handlers]:
        root.removeHandler(handler)
