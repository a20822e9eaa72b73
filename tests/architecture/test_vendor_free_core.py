"""The core names no vendor: not in code, settings or comments."""

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import hami_core_py

CORE = Path(hami_core_py.__file__).parent
VENDOR_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        nvidia cuda nvml geforce tesla ascend huawei cambricon mlu hygon dcu iluvatar metax mthreads musa enflame gcu
        kunlun kunlunxin baidu neuron trainium amd rocm vastai vastaitech biren birentech
        """,
    )
)
EXTENSIONS = {".py", ".yaml", ".json", ".proto", ".html", ".txt"}


def core_files() -> list[Path]:
    return sorted(p for p in CORE.rglob("*") if p.suffix in EXTENSIONS)


def words() -> frozenset[str]:
    """Vendor words, and names of the installed backends that own devices of their own."""
    installed = {point.name for point in entry_points(group="hami")} - {"mock"}
    return VENDOR_WORDS | installed


@pytest.mark.parametrize("path", core_files(), ids=lambda p: str(p.relative_to(CORE)))
def test_core_file_names_no_vendor(path: Path) -> None:
    found = sorted(set(re.findall(r"[a-z0-9]+", path.read_text(encoding="utf-8").lower())) & words())
    assert found == []


def test_the_search_would_find_a_vendor_word() -> None:
    assert "nvidia" in words()
    assert len(core_files()) > 50
