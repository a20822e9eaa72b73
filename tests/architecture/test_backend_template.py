"""The template stays what it promises: short, and a working backend the moment it is copied and renamed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).parents[2] / "backends" / "_template"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template under another name, laid out as its README says and installed the way pip leaves it."""
    root = tmp_path_factory.mktemp("author") / "hami-backend-quasar"
    shutil.copytree(TEMPLATE, root, ignore=shutil.ignore_patterns("__pycache__"))
    for path in [p for p in root.rglob("*") if p.is_file()]:
        path.write_text(path.read_text().replace("acme", "quasar").replace("Acme", "Quasar").replace("ACME", "QUASAR"))
    (root / "src" / "hami_backend_acme").rename(root / "src" / "hami_backend_quasar")
    info = root / "src" / "hami_backend_quasar-1.0.0.dev0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hami-backend-quasar\nVersion: 1.0.0.dev0\n")
    (info / "entry_points.txt").write_text("[hami]\nquasar = hami_backend_quasar.plugin\n")
    return root


def run(copy: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PYTHONPATH": str(copy / "src"), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def test_plugin_is_under_a_hundred_lines() -> None:
    lines = (TEMPLATE / "src" / "hami_backend_acme" / "plugin.py").read_text().splitlines()
    assert len(lines) < 100


def test_copy_keeps_the_contract(copy: Path) -> None:
    (copy / "pytest.ini").write_text("[pytest]\n")
    result = run(copy, "pytest", "-q", "-p", "no:cacheprovider", "tests")
    assert result.returncode == 0, result.stdout
    assert " passed" in result.stdout


def test_copy_is_listed_among_the_backends(copy: Path) -> None:
    result = run(copy, "hami_core_py", "backends")
    assert result.returncode == 0, result.stderr
    assert "quasar  (hami-backend-quasar 1.0.0.dev0, contract 1)" in result.stdout
    assert "quasar.example/npu" in result.stdout


def test_entry_point_of_the_template_is_the_one_that_the_test_installs() -> None:
    import tomllib

    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {"hami": {"acme": "hami_backend_acme.plugin"}}
