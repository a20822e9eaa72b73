"""``python -m tests.cluster.build [MODULE ...]``: build the programs that are missing, or whose versions have changed."""

import hashlib
import os
import subprocess
import sys
import time

from tests.cluster.releases import Module, Release

COMPONENT_VERSION = "k8s.io/component-base/version"


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
            command = ["go", "build", "-trimpath", "-ldflags", _linker_flags(module), "-o", str(target), package]
            env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
            subprocess.run(command, cwd=module.directory, env=env, check=True)
        stamp.write_text(digest)
        print(f"{module.name}: built in {time.monotonic() - began:.0f} s", flush=True)


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
