"""Images are built only when asked for (``tox -e images``): it takes Debian's archive, the package index and minutes."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.releases import cache

ASKED = Path(__file__).parent.name


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Leave this folder out of a run over everything."""
    return None if any(ASKED in argument for argument in config.args) else True


@pytest.fixture(scope="session")
def lower() -> Path:
    """Keeps the lower layers, which change with their lists alone."""
    return cache() / "images"


@dataclass(frozen=True)
class Unpacked:
    """An image's file system in a folder, where its programs can be run."""

    root: Path

    def run(
        self, *arguments: str, user: int = 65532, env: dict[str, str] | None = None, ok: bool = True
    ) -> "subprocess.CompletedProcess[str]":
        """Run ``hami`` inside, as somebody without rights, with nothing of this machine but its kernel."""
        if os.getuid():
            pytest.skip("running inside an image needs root")
        program = shutil.which("chroot") or "/usr/sbin/chroot"
        command = [program, f"--userspec={user}:{user}", str(self.root), "/usr/local/bin/hami", *arguments]
        inside = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", **(env or {})}
        result = subprocess.run(command, env=inside, capture_output=True, text=True, check=False)
        assert not ok or result.returncode == 0, result.stdout + result.stderr
        return result

    def backends(self, **env: str) -> Sequence[str]:
        """Names of the backends that load inside."""
        told: dict[str, Any] = json.loads(self.run("backends", "-o", "json", env=env).stdout)
        assert told["left_out"] == []
        return [backend["name"] for backend in told["backends"]]
