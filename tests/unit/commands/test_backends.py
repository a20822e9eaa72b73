"""``hami backends`` shows who is loaded, and why somebody is not."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hami_core_py.commands.backends import command, describe
from hami_core_py.hooks.manager import load_backends
from hami_core_py.testing.builders import family
from hami_core_py.testing.plugins import make_plugin


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_loaded_backends_are_described_with_families_and_hooks() -> None:
    backends = load_backends(plugins=[make_plugin("acme", [family()]), make_plugin("site")])
    assert describe(backends) == {
        "backends": [
            {
                "name": "acme",
                "vendor": "",
                "distribution": "given",
                "api": 1,
                "families": [
                    {
                        "name": "Acme",
                        "resources": [
                            "acme.example/npu",
                            "acme.example/npu-memory",
                            "acme.example/npu-memory-percentage",
                            "acme.example/npu-cores",
                        ],
                    }
                ],
                "hooks": ["hami_backend", "hami_families"],
            },
            {
                "name": "site",
                "vendor": "",
                "distribution": "given",
                "api": 1,
                "families": [],
                "hooks": ["hami_backend", "hami_families"],
            },
        ],
        "left_out": [],
    }


def test_text_names_each_installed_backend_and_its_version() -> None:
    result = run()
    assert result.exit_code == 0
    for one in json.loads(run("-o", "json").stdout)["backends"]:
        assert f"{one['name']}  ({one['distribution']}, contract {one['api']})" in result.stdout


def test_blocked_backend_is_shown_as_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_BACKENDS__BLOCKED", "mock")
    assert "mock  left out: blocked" in run().stdout


def test_without_backends_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("backends: {enabled: []}\n")
    result = run("--config", str(config))
    assert result.exit_code == 0
    assert result.stdout.startswith("no backends; install one")


@pytest.mark.parametrize("output", ["text", "json"])
def test_backend_that_is_enabled_and_not_installed_is_bad_input(tmp_path: Path, output: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("backends: {enabled: [quasar]}\n")
    result = run("--config", str(config), "-o", output)
    assert result.exit_code == 2
    assert "enabled but not installed" in result.output
