"""``python -m tests.cluster.build [MODULE ...]``: build the programs that are missing, or whose versions have changed."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.cluster.releases import Module, Release

COMPONENT_VERSION = "k8s.io/component-base/version"
TAGS = {"prometheus": "remove_all_sd"}
"""Build tags of a module: a Prometheus that is told its targets by name needs no cloud's client libraries."""


def build(release: Release, names: tuple[str, ...] = ()) -> None:
    """Build a release's modules, all or those named, unless they are up to date."""
    for module in release.modules(names):
        folder = release.folder_of(module)
        folder.mkdir(parents=True, exist_ok=True)
        stamp = folder / f".{module.name}"
        digest = hashlib.sha256(module.text.encode()).hexdigest()
        if stamp.exists() and stamp.read_text() == digest:
            continue
        began = time.monotonic()
        for package in module.packages:
            target = folder / _program_name(package)
            command = ["go", "build", "-trimpath", "-ldflags", _linker_flags(module), "-o", str(target)]
            command += ["-tags", TAGS.get(module.name, ""), package]
            env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
            subprocess.run(command, cwd=module.directory, env=env, check=True)
        if module.data:
            _fetch(module, folder / module.name)
        stamp.write_text(digest)
        print(f"{module.name}: built in {time.monotonic() - began:.0f} s", flush=True)


def _fetch(module: Module, target: Path) -> None:
    """Copy a folder of the one module that is required."""
    done = subprocess.run(
        ["go", "mod", "download", "-json"], cwd=module.directory, capture_output=True, text=True, check=True
    )
    source = Path(json.loads(done.stdout)["Dir"]) / module.data
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())


def _program_name(package: str) -> str:
    # The main package of etcd is the root of its module.
    return "etcd" if package.endswith("etcd/server/v3") else package.rpartition("/")[2]


def _linker_flags(module: Module) -> str:
    """No symbols, and the version that a release build would tell: kubelet and API server compare theirs."""
    flags = ["-s", "-w"]
    if module.name == "kubernetes":
        version = module.version_of("k8s.io/kubernetes")
        major, minor = version.lstrip("v").split(".")[:2]
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        flags += [f"-X {COMPONENT_VERSION}.{key}={value}" for key, value in values.items()]
    if module.name == "containerd":
        path = "github.com/containerd/containerd/v2"
        flags += [f"-X {path}/version.Version={module.version_of(path)}"]
    return " ".join(flags)


if __name__ == "__main__":
    build(Release.chosen(), tuple(sys.argv[1:]))
