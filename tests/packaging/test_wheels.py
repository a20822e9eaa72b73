"""Wheels build, install into a clean environment, and find their backends there; the core alone starts without any."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = {
    "hami": ROOT,
    "hami_backend_nvidia": ROOT / "backends/nvidia",
    "hami_backend_mock": ROOT / "backends/mock",
}
LEFT_OUT = ("tests/", "conftest")

pytestmark = pytest.mark.timeout(900)


def run(*command: str | Path, ok: bool = True) -> "subprocess.CompletedProcess[str]":
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "HAMI_"))}
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, env=environment)
    assert not ok or result.returncode == 0, result.stdout + result.stderr
    return result


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of all distributions."""
    folder = tmp_path_factory.mktemp("dist")
    for source in DISTRIBUTIONS.values():
        run(sys.executable, "-m", "build", "--installer", "uv", "--wheel", "--outdir", folder, source)
    return folder


class Environment:
    """A virtual environment with nothing of ours but what is installed from the wheels."""

    def __init__(self, path: Path, dist: Path) -> None:
        self.path, self.dist = path, dist
        venv.create(path, with_pip=True)

    def install(self, *requirements: str) -> None:
        pip = (self.path / "bin/python", "-m", "pip", "install", "--quiet", "--no-compile")
        run(*pip, "--find-links", self.dist, *requirements)

    def hami(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return run(self.path / "bin/hami", *arguments)

    def backends(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self.hami("backends", "-o", "json").stdout)["backends"]
        return found


@pytest.fixture(scope="module")
def environment(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("clean") / "venv", dist)
    made.install("hami")
    return made


def names(wheel: Path) -> Sequence[str]:
    return zipfile.ZipFile(wheel).namelist()


def test_every_distribution_is_one_wheel_that_is_typed_and_holds_no_tests(dist: Path) -> None:
    wheels = {path.name.split("-")[0]: path for path in dist.glob("*.whl")}
    assert set(wheels) == set(DISTRIBUTIONS)
    for name, wheel in wheels.items():
        package = "hami_core_py" if name == "hami" else name
        assert f"{package}/py.typed" in names(wheel)
        assert not [entry for entry in names(wheel) if any(word in entry for word in LEFT_OUT)]


def test_wheel_of_the_core_holds_every_module_of_the_source(dist: Path) -> None:
    (wheel,) = dist.glob("hami-*.whl")
    source = {str(path.relative_to(ROOT)) for path in (ROOT / "hami_core_py").rglob("*.py")}
    assert source <= set(names(wheel))


def test_core_alone_lists_no_backend(environment: Environment) -> None:
    assert environment.backends() == []
    assert environment.hami("backends").stdout.startswith("no backends; install one")


def test_core_alone_starts_and_ends(environment: Environment, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {}}
    kubeconfig.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [cluster],
                "contexts": [context],
                "users": [user],
                "current-context": "c",
            }
        )
    )
    command = [environment.path / "bin/hami", "monitor", "--node-name", "n1", "--kubeconfig", kubeconfig]
    process = subprocess.Popen(
        [*map(str, command), "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        url = process.stdout.readline().strip()
        assert urllib.request.urlopen(f"{url}/healthz").read() == b"ok\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def test_extra_brings_the_backend_with_its_version_and_hooks(environment: Environment) -> None:
    environment.install("hami[nvidia]")
    (nvidia,) = environment.backends()
    assert nvidia["distribution"] == "hami-backend-nvidia 1.0.0.dev0"
    assert "hami_allocate" in nvidia["hooks"]  # type: ignore[operator]
    listed = environment.hami("backends").stdout
    assert "nvidia  (hami-backend-nvidia 1.0.0.dev0, contract 1)" in listed
    assert "discover_devices" in listed


def test_another_backend_joins_without_a_change_to_the_core(environment: Environment) -> None:
    environment.install("hami-backend-mock>=1.0.0.dev0")
    assert [backend["name"] for backend in environment.backends()] == ["mock", "nvidia"]
