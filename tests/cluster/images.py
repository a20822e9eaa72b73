"""Container images made on the spot: an OCI archive of one layer, which containerd can import."""

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BUSYBOX = "docker.io/library/busybox:1.35"
"""What a pod's ``image: busybox:1.35`` means."""
PAUSE = "cluster.local/pause:1"

File = bytes | str
"""A program's bytes, or the target of a symbolic link."""


def image(reference: str, files: Mapping[str, File], command: Sequence[str]) -> bytes:
    """An image archive. :param files: path in the image → content; bytes get mode 0755."""
    layer = _tar(files)
    blobs: dict[str, File] = {}

    def blob(kind: str, content: bytes | Mapping[str, Any]) -> dict[str, Any]:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    config = {
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", config),
        "layers": [blob("layer.v1.tar", layer)],
    }
    entry = {**blob("manifest.v1+json", manifest), "annotations": {"io.containerd.image.name": reference}}
    index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    return _tar({"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index, **blobs})


def busybox(reference: str) -> bytes:
    """This machine's static busybox as an image that sleeps, which serves as the pause image too."""
    program = shutil.which("busybox") or "/bin/busybox"
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
    links: dict[str, File] = {f"bin/{name}": "busybox" for name in listed.stdout.split() if name != "busybox"}
    return image(reference, {"bin/busybox": Path(program).read_bytes(), **links}, ("sleep", "2147483647"))


def _tar(files: Mapping[str, File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode = 0o755
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
