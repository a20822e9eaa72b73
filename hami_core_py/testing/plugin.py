"""Pytest plugin of the kit, found by every pytest run on a machine that has HAMi.

It imports nothing of the core by itself: other people's runs must neither slow down nor lose coverage of what they measure.
"""

from typing import Any

import pytest

pytest.register_assert_rewrite("hami_core_py.testing.checks")


@pytest.fixture
def hami_kit() -> Any:
    """The builders of ``hami_core_py.testing.builders``: ``hami_kit.device(memory_mib=8192)``."""
    from hami_core_py.testing import builders

    return builders
