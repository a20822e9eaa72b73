"""The kit's pytest plugin is in every pytest run of its users, and must not be felt there."""

import subprocess
import sys

FOUND = "import sys, hami_core_py.testing.plugin; print(sorted(m for m in sys.modules if m.startswith('hami_core_py')))"


def test_it_imports_nothing_of_the_core() -> None:
    result = subprocess.run([sys.executable, "-c", FOUND], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['hami_core_py', 'hami_core_py.testing', 'hami_core_py.testing.plugin']"


def test_it_hands_out_the_builders(hami_kit) -> None:  # type: ignore[no-untyped-def]
    assert hami_kit.device(memory_mib=8192).memory_mib == 8192
