"""Layers, an image and its archive, by the rules of the Open Container Initiative; the same content gives the same digest."""

import gzip
import hashlib
import io
import json
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FILE_TIME = 946_684_800
"""Time of every file in every layer: the year 2000. A layer is the same until what it holds changes."""
NAME = "io.containerd.image.name"
"""Annotation by which containerd names what it imports."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A compressed layer. :ivar diff_id: digest of what it holds uncompressed. :ivar comment: for people."""

    content: bytes
    diff_id: str
    comment: str = ""


@dataclass(frozen=True, kw_only=True)
class Image:
    """Layers from the bottom up, and how a container of it starts.

    :ivar user: ``uid:gid``. :ivar labels: as ``org.opencontainers.image.title``.
    """

    layers: tuple[Layer, ...]
    user: str = "0:0"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    architecture: str = "amd64"
    created: str = "1970-01-01T00:00:00Z"


def layer_of(root: Path, *, comment: str = "", names: Iterable[Path] | None = None) -> Layer:
    """Everything below a folder as a layer: sorted, owned by root, with one time for all.

    :param names: only these paths, relative to it.
    """
    buffer = io.BytesIO()
    found = sorted(names if names is not None else (path.relative_to(root) for path in root.rglob("*")))
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in found:
            _add(archive, root / name, str(name))
    return compressed(buffer.getvalue(), comment)


def compressed(tar: bytes, comment: str = "") -> Layer:
    """A tar archive as a layer."""
    packed = io.BytesIO()
    # No name and no time in the header: they would make every build another one.
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=packed, mtime=0) as file:
        file.write(tar)
    return Layer(content=packed.getvalue(), diff_id=digest_of(tar), comment=comment)


def digest_of(content: bytes) -> str:
    """``sha256:…``."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def archive_of(images: Mapping[str, Image]) -> bytes:
    """An archive of an OCI layout. :param images: reference, such as ``docker.io/hami/node-agent:1`` → image."""
    blobs: dict[str, bytes] = {}
    manifests = []
    for reference, image in images.items():
        entry = _describe(blobs, "application/vnd.oci.image.manifest.v1+json", _manifest(blobs, image))
        tag = reference.rpartition(":")[2]
        manifests.append({**entry, "annotations": {NAME: reference, "org.opencontainers.image.ref.name": tag}})
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests}
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": _json(index), **dict(sorted(blobs.items()))}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry_of = tarfile.TarInfo(name)
            entry_of.size, entry_of.mode = len(content), 0o644
            archive.addfile(entry_of, io.BytesIO(content))
    return buffer.getvalue()


def _manifest(blobs: dict[str, bytes], image: Image) -> bytes:
    config = {
        "architecture": image.architecture,
        "os": "linux",
        "created": image.created,
        "config": {
            "User": image.user,
            "Env": [f"{name}={value}" for name, value in image.env.items()],
            "Entrypoint": list(image.entrypoint),
            "Cmd": list(image.command),
            "WorkingDir": "/",
            "Labels": dict(image.labels),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in image.layers]},
        "history": [{"created": image.created, "comment": layer.comment} for layer in image.layers],
    }
    layers = [_describe(blobs, "application/vnd.oci.image.layer.v1.tar+gzip", one.content) for one in image.layers]
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _describe(blobs, "application/vnd.oci.image.config.v1+json", _json(config)),
        "layers": layers,
    }
    return _json(manifest)


def _describe(blobs: dict[str, bytes], media_type: str, content: bytes) -> dict[str, Any]:
    digest = digest_of(content)
    blobs[f"blobs/sha256/{digest.partition(':')[2]}"] = content
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _json(value: Mapping[str, Any] | Sequence[Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tarfile.TarInfo(name)
    found = path.lstat()
    entry.mtime, entry.mode = FILE_TIME, stat.S_IMODE(found.st_mode)
    if path.is_symlink():
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
        archive.addfile(entry)
    elif path.is_dir():
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)
    elif path.is_file():
        entry.size = found.st_size
        with path.open("rb") as content:
            archive.addfile(entry, content)
