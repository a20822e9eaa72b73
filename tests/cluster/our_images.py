"""The images that the chart runs, as archives that containerd imports: made once for each state of their sources."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from images import build, oci
from images.python import ROOT
from tests.cluster import images
from tests.cluster.releases import Release, cache

SOURCES = (
    "hami_core_py",
    "backends/nvidia",
    "backends/mock",
    "hami-core-c",
    "images/*.py",
    "images/*.txt",
    "images/hami",
    "pyproject.toml",
)
"""What is in an image depends on nothing else of the checkout."""
KEPT = 3
MEMORY = Path("/dev/shm")
OUTSIDE = "HAMI_CLUSTER_OUTSIDE"
"""Number of an open file: the network namespace that the tests have left, where Debian's archive and package indexes are."""
KUBE_SCHEDULER = "registry.k8s.io/kube-scheduler"


def ours(tag: str) -> bytes:
    """Control plane and node agent in one archive."""
    made = {
        f"{build.REPOSITORY}/{name}:{tag}": build.image_of(name, layers(), tag=tag, epoch=build.default_epoch())
        for name in build.KINDS
    }
    return oci.archive_of(made)


def kube_scheduler(release: Release) -> bytes:
    """The cluster's own kube-scheduler, where the chart looks for it."""
    program = release.program("kube-scheduler").read_bytes()
    return images.image(f"{KUBE_SCHEDULER}:{release.kubernetes}", {"bin/kube-scheduler": program}, ("kube-scheduler",))


@functools.cache
def layers() -> tuple[oci.Layer, ...]:
    """Layers of our images. The first time this takes minutes."""
    folder = _folder()
    if not (folder / "complete").exists():
        if shutil.which("mmdebstrap") is None:
            pytest.skip("our images need mmdebstrap: apt-get install mmdebstrap")
        outside("-m", "tests.cluster.our_images", str(folder))
    return build.kept(folder)


def outside(*arguments: str) -> None:
    """Run Python where the network is. :raises AssertionError: it failed."""
    namespace = int(os.environ.get(OUTSIDE, "-1"))
    enter = [] if namespace < 0 else ["nsenter", f"--net=/proc/self/fd/{namespace}", "--"]
    command = [*enter, sys.executable, *arguments]
    kept = () if namespace < 0 else (namespace,)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, pass_fds=kept, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def make(folder: Path) -> None:
    """Make the layers and keep them in a folder; older ones go."""
    # Thousands of small files: a file system in memory takes them twice as fast.
    with tempfile.TemporaryDirectory(prefix="images-", dir=MEMORY if MEMORY.is_dir() else None) as work:
        made = build.layers_of(Path(work), epoch=build.default_epoch(), cache=folder.parent)
    build.keep(made, folder)
    states = sorted(folder.parent.glob("layers-*"), key=lambda path: path.stat().st_mtime)
    for old in states[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _folder() -> Path:
    return cache() / "images" / f"layers-{_state_of(SOURCES)}"


def _state_of(names: Sequence[str]) -> str:
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *names]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    digest = hashlib.sha256()
    for name in sorted(filter(None, listed)):
        path = ROOT / name
        if path.is_file() and "tests" not in path.parts[len(ROOT.parts) :]:
            digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    make(Path(sys.argv[1]))
