"""Assemble the images as archives of OCI layouts, as ``ctr images import`` and ``skopeo`` read them; no engine is needed."""

import argparse
import io
import json
import os
import subprocess
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
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


def build_base(work: Path) -> tuple[oci.Layer, ...]:
    """Layers that all images share: Debian with Python, and what ``requirements.txt`` lists.

    :param work: an empty folder.
    """
    root, wheels = work / "root", work / "wheels"
    for folder in (root, wheels):
        folder.mkdir(parents=True)
    debian.unpack(root, debian.packages())
    debian.trim(root)
    debian.complete(root)
    python.compile_below(root, Path("usr/lib") / debian.PYTHON)
    system = oci.layer_of(root, comment=f"Debian {debian.SUITE}: {', '.join(debian.packages())}")

    def add() -> None:
        python.install(root, python.download(wheels), whole=False)

    return system, layer_above(root, add, comment="requirements.txt")


def kept_base(work: Path, cache: Path) -> tuple[oci.Layer, ...]:
    """The same, kept from an earlier build with the same lists, though Debian's archive may have moved on since."""
    programs = (Path(__file__).with_name(f"{name}.py") for name in ("debian", "python", "oci"))
    sources = (debian.PACKAGES, python.REQUIREMENTS, *programs)
    key = oci.digest_of(b"".join(source.read_bytes() for source in sources)).partition(":")[2][:16]
    folder = cache / key
    if not (folder / "complete").exists():
        keep(build_base(work), folder)
    return kept(folder)


def keep(layers: Sequence[oci.Layer], folder: Path) -> None:
    """Write layers into a folder, for ``kept``."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, layer in enumerate(layers):
        (folder / f"{number}.tar.gz").write_bytes(layer.content)
        (folder / f"{number}.json").write_text(json.dumps([layer.diff_id, layer.comment]))
    (folder / "complete").touch()


def kept(folder: Path) -> tuple[oci.Layer, ...]:
    """The layers that ``keep`` wrote, from the bottom up."""
    found = []
    for path in sorted(folder.glob("*.json")):
        diff_id, comment = json.loads(path.read_text())
        found.append(oci.Layer(content=path.with_suffix(".tar.gz").read_bytes(), diff_id=diff_id, comment=comment))
    return tuple(found)


def layer_above(root: Path, change: Callable[[], None], *, comment: str) -> oci.Layer:
    """What a change adds to a root file system, compiled, as a layer."""
    before = set(root.rglob("*"))
    change()
    site = root / debian.SITE
    packages = {path.relative_to(site).parts[0] for path in _added(site, before)}
    python.compile_below(root, *(debian.SITE / package for package in sorted(packages)))
    added = sorted(path.relative_to(root) for path in _added(root, before))
    return oci.layer_of(root, comment=comment, names=added)


def _added(folder: Path, before: Collection[Path]) -> Collection[Path]:
    return set(folder.rglob("*")) - set(before)


def build(
    names: Sequence[str],
    out: Path,
    *,
    tag: str,
    epoch: int,
    extra: Sequence[Path] = (),
    cache: Path | None = None,
) -> dict[str, Path]:
    """Build images into ``<out>/<name>.tar``.

    :param tag: of all references. :param epoch: when they count as made, seconds since the Unix epoch.
    :param extra: further wheels, such as third parties' backends, on a layer of their own.
    :param cache: keeps the lower layers; ``None``: they are made anew. :returns: name → archive.
    """
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="images-") as folder:
        layers = layers_of(Path(folder), epoch=epoch, extra=extra, cache=cache)
    found = {}
    for name in names:
        found[name] = out / f"{name}.tar"
        image = image_of(name, layers, tag=tag, epoch=epoch)
        found[name].write_bytes(oci.archive_of({f"{REPOSITORY}/{name}:{tag}": image}))
    return found


def layers_of(
    work: Path, *, epoch: int, extra: Sequence[Path] = (), cache: Path | None = None
) -> tuple[oci.Layer, ...]:
    """All layers of an image. :param work: an empty folder; ``root`` in it holds the whole file system afterwards."""
    base = build_base(work / "base") if cache is None else kept_base(work / "base", cache)
    root, wheels = work / "root", work / "wheels"
    unpack(root, base)
    wheels.mkdir()
    ours = python.build_wheels(wheels, epoch=epoch)

    def add() -> None:
        python.install(root, ours)
        python.add_script(root)

    layers = [*base, layer_above(root, add, comment="hami and its backends")]
    if extra:
        comment = ", ".join(sorted(path.name for path in extra))
        layers.append(layer_above(root, lambda: python.install(root, extra), comment=comment))
    return tuple(layers)


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
        architecture=architecture(),
        created=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
    )


def unpack(root: Path, layers: Sequence[oci.Layer]) -> None:
    """Lay layers over one another in a folder."""
    root.mkdir(parents=True, exist_ok=True)
    for layer in layers:
        with tarfile.open(fileobj=io.BytesIO(layer.content), mode="r:gz") as archive:
            archive.extractall(root, filter="fully_trusted")


def architecture() -> str:
    """Of this machine, as images spell it."""
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


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
    parser.add_argument("--cache", type=Path, help="keep the lower layers here")
    given = parser.parse_args()
    if unknown := sorted(set(given.names) - set(KINDS)):
        parser.error(f"expected names of {', '.join(KINDS)}, got {', '.join(unknown)}")
    names = given.names or list(KINDS)
    built = build(names, given.out, tag=given.tag, epoch=default_epoch(), extra=given.wheel, cache=given.cache)
    for name, path in built.items():
        print(f"{name}: {path}, {path.stat().st_size // 2**20} MiB, {oci.digest_of(path.read_bytes())}")


if __name__ == "__main__":
    main()
