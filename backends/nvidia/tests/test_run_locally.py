"""``hami run`` with devices of this family: what a program sees is what a container would get."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from hami_backend_nvidia import limiter

from hami_core_py import namespaces

pytest.importorskip("hami_backend_mock")


@pytest.fixture(autouse=True)
def _allowed(tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    folder.mkdir()
    trial = subprocess.run(
        [sys.executable, namespaces.__file__, str(folder)], capture_output=True, text=True, check=False
    )
    if trial.returncode:
        pytest.skip(f"no mount namespaces on this machine: {trial.stderr.strip()}")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A machine with one device, and a limiter that does nothing, since what it would do is not the question."""
    device = {"family": "NVIDIA", "id": "GPU-one", "memory_mib": 8192}
    devices = tmp_path / "devices.yaml"
    devices.write_text(yaml.safe_dump({"devices": [device, {**device, "id": "GPU-two"}]}))
    (tmp_path / "libvgpu.so").write_bytes(b"")
    return {
        **os.environ,
        "HAMI_MOCK_DEVICES": str(devices),
        "HAMI_NODE_NAME": "here",
        limiter.VARIABLE: str(tmp_path / "libvgpu.so"),
    }


def run(environment: dict[str, str], *words: str, under: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    command = [*under, sys.executable, "-m", "hami_core_py", "run", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_program_and_its_children_see_limits_that_they_cannot_write(environment: dict[str, str]):
    script = "cat /etc/ld.so.preload /usr/local/hami/limits; echo $NVIDIA_VISIBLE_DEVICES; echo x 2>&- > /usr/local/hami/limits"
    done = run(environment, "--memory", "4000Mi", "--cores", "30", "--", "sh", "-c", script)
    assert done.stdout.splitlines() == [
        "/usr/local/hami/libvgpu.so",
        "hami-limits 1",
        "region=/usr/local/vgpu/region.cache",
        "policy=default",
        "device=GPU-one memory=4194304000 cores=30",
        "GPU-one",
    ]
    assert "held to 4000Mi of memory and 30 % of compute of GPU-one; not held:" in done.stderr


def test_end_of_the_program_is_ours(environment: dict[str, str]):
    assert run(environment, "--", "sh", "-c", "exit 7").returncode == 7
    assert run(environment, "--", "sh", "-c", "kill -KILL $$").returncode == 137


def test_device_is_chosen_by_position_or_id(environment: dict[str, str]):
    for name in ("1", "GPU-two"):
        done = run(environment, "--device", name, "--", "cat", "/usr/local/hami/limits")
        assert "device=GPU-two memory=8589934592" in done.stdout


def test_nothing_is_run_where_nothing_would_hold_it(environment: dict[str, str], tmp_path: Path):
    done = run({**environment, limiter.VARIABLE: str(tmp_path / "absent")}, "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no limiter" in done.stderr


POWERLESS = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root that can give up its rights")
def test_root_without_capabilities_holds_programs_too(environment: dict[str, str]):
    done = run(environment, "--memory", "1Gi", "--", "cat", "/usr/local/hami/limits", under=POWERLESS)
    if "make user namespaces" in done.stderr:
        pytest.skip("no user namespaces on this machine")
    assert "device=GPU-one memory=1073741824" in done.stdout, done.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root that can give up its rights")
def test_root_that_may_make_no_namespace_is_told_what_it_lacks(environment: dict[str, str]):
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    # In a user namespace of its own, so that the machine's limit stays as it is.
    own = ("unshare", "--user", "--map-root-user", "sh", "-c", script, "sh")
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no user namespaces on this machine")
    done = run(environment, "--", "true", under=(*own, *POWERLESS))
    assert done.returncode == 2
    assert "root without the right to mount" in done.stderr
