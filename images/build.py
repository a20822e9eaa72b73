"""Assemble the images as archives of OCI layouts, as ``ctr images import`` and ``skopeo`` read them; no engine is needed."""

import argparse
import io
import os
import subprocess
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from images import debian, oci, python
from images.debian import UNPRIVILEGED

REPOSITORY = "docker.io/hami"
ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONUNBUFFERED": "1",
    "LANG": "C.UTF-8",
    "HOME": "/tmp",  # noqa: S108 - the one place that any user may write
}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One process family's image."""

    title: str
    user: str


KINDS: Mapping[str, Kind] = {
    "control-plane": Kind(title="HAMi: webhook and scheduler extender", user=f"{UNPRIVILEGED}:{UNPRIVILEGED}"),
    # The kubelet's directory and the device files belong to root.
    "node-agent": Kind(title="HAMi: node agent and monitor", user="0:0"),
}


def build_base(work: Path, *, epoch: int) -> tuple[oci.Layer, ...]:
    """Layers that all images share: Debian with Python, and what ``requirements.txt`` lists."""
    root = work / "root"
    root.mkdir(parents=True)
    debian.unpack(root, debian.packages(), epoch=epoch)
    debian.complete(root)
    python.compile_below(root, Path("usr/lib") / debian.PYTHON)
    system = oci.layer_of(root, epoch=epoch, comment=f"Debian {debian.SUITE}: {', '.join(debian.packages())}")
    wheels = work / "wheels"
    wheels.mkdir()
    depends = layer_above(
        root,
        lambda: python.install(root, python.download(wheels), whole=False),
        epoch=epoch,
        comment="requirements.txt",
    )
    return system, depends


def layer_above(root: Path, change: Callable[[], None], *, epoch: int, comment: str) -> oci.Layer:
    """What a change adds to a root file system, compiled, as a layer."""
    before = set(root.rglob("*"))
    change()
    python.compile_below(root, debian.SITE)
    added = sorted(path.relative_to(root) for path in set(root.rglob("*")) - before)
    return oci.layer_of(root, epoch=epoch, comment=comment, names=added)


def build(
    names: Sequence[str], out: Path, *, tag: str, epoch: int, extra: Sequence[Path] = (), base: Sequence[oci.Layer] = ()
) -> dict[str, Path]:
    """Build images into ``<out>/<name>.tar``.

    :param tag: of all references. :param extra: further wheels, such as third parties' backends, on a layer of their own.
    :param base: layers of an earlier ``build_base``; without them they are made. :returns: name → archive.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="images-") as folder:
        work = Path(folder)
        base = base or build_base(work / "base", epoch=epoch)
        root = work / "own"
        unpack(root, base)
        wheels = work / "own-wheels"
        wheels.mkdir()
        ours = python.build_wheels(wheels, epoch=epoch)

        def add_ours() -> None:
            python.install(root, ours)
            python.add_script(root)

        layers = [*base, layer_above(root, add_ours, epoch=epoch, comment="hami and its backends")]
        if extra:
            comment = ", ".join(sorted(path.name for path in extra))
            layers.append(layer_above(root, lambda: python.install(root, extra), epoch=epoch, comment=comment))
        found = {}
        for name in names:
            image = image_of(name, layers, tag=tag, epoch=epoch)
            found[name] = out / f"{name}.tar"
            found[name].write_bytes(oci.archive_of({f"{REPOSITORY}/{name}:{tag}": image}))
    return found


def image_of(name: str, layers: Sequence[oci.Layer], *, tag: str, epoch: int) -> oci.Image:
    """The image of a process family."""
    kind = KINDS[name]
    labels = {"title": kind.title, "version": tag, "licenses": "Apache-2.0"}
    return oci.Image(
        layers=tuple(layers),
        user=kind.user,
        entrypoint=("hami",),
        command=("--help",),
        env=ENV,
        labels={f"org.opencontainers.image.{key}": value for key, value in labels.items()},
        architecture={"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
    )


def unpack(root: Path, layers: Sequence[oci.Layer]) -> None:
    """Lay layers over one another in a folder."""
    root.mkdir(parents=True, exist_ok=True)
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer.content), mode="r:gz") as archive:
            archive.extractall(root, filter="fully_trusted")


def default_epoch() -> int:
    """``SOURCE_DATE_EPOCH``, else the time of the last commit."""
    if stated := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(stated)
    command = ["git", "-C", str(python.ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def version() -> str:
    """Of the core, as the chart's ``appVersion`` has it."""
    project = tomllib.loads((python.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def main() -> None:
    """Build what is named, and say where it lies and what its digest is."""
    parser = argparse.ArgumentParser(prog="python -m images.build", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(KINDS)}; default: all")
    parser.add_argument("--out", type=Path, default=Path("dist/images"))
    parser.add_argument("--tag", default=version())
    parser.add_argument("--wheel", type=Path, action="append", default=[], help="install this on top; may be repeated")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(KINDS)):
        parser.error(f"expected names of {', '.join(KINDS)}, got {', '.join(unknown)}")
    for name, path in build(
        given.names or list(KINDS), given.out, tag=given.tag, epoch=default_epoch(), extra=given.wheel
    ).items():
        print(f"{name}: {path}, {path.stat().st_size // 2**20} MiB, {oci.digest_of(path.read_bytes())}")


if __name__ == "__main__":
    main()
