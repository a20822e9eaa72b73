"""An invented vendor for the commands: nodes and pods as files, devices of a family that the mock backend defines."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hami_core_py.cli import main
from hami_core_py.codecs.native import inventory_key, render_inventory
from hami_core_py.testing.builders import COUNT, FAMILY, MEMORY, PERCENT, device

CORE = "acme.example/npu-cores"


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the mock backend own the family Acme."""
    resources = {"count": COUNT, "memory": MEMORY, "memory_percent": PERCENT, "core": CORE}
    path = tmp_path / "world.yaml"
    path.write_text(yaml.safe_dump({"families": [{"name": FAMILY, "resources": resources}]}))
    monkeypatch.setenv("HAMI_MOCK_DEVICES", str(path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def node(name: str, *memory_mib: int) -> dict[str, Any]:
    devices = [device(f"{name}-{i}", memory_mib=size) for i, size in enumerate(memory_mib)]
    return {
        "metadata": {"name": name, "annotations": {inventory_key("mock"): render_inventory("mock", devices, "late")}},
        "status": {"allocatable": {COUNT: "20"}},
    }


def pod(name: str = "train", **limits: str) -> dict[str, Any]:
    amounts = {"count": COUNT, "memory": MEMORY, "percent": PERCENT, "cores": CORE}
    container = {"name": "main", "resources": {"limits": {amounts[key]: value for key, value in limits.items()}}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {"containers": [container]},
    }


Hami = Callable[..., Result]


@pytest.fixture
def hami(acme: None) -> Hami:
    """Run the command line in this process."""

    def run(*arguments: str | Path) -> Result:
        return CliRunner().invoke(main, [str(a) for a in arguments])

    return run


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Write objects to a file as `kubectl get -o json` does."""

    def save(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.write_text(json.dumps({"items": content} if isinstance(content, list) else content))
        return path

    return save
