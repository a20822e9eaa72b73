"""An OCI runtime as a vendor's is: runc, after it has put the driver into containers that may see devices.

``python vendor_runtime.py SETTINGS RUNC-ARGUMENT ...``. SETTINGS is a JSON file: ``folder`` with the driver and its programs,
``shared`` with the devices' state, ``files`` of the C library, and ``variables``. Standard library only: it runs at every start
of a container.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
TAG = "HAMI_SIM_CONTAINER"
NAMES = ("sandbox-namespace", "sandbox-name", "container-name")


def with_driver(spec: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """A container's specification with the driver in it, or as it was when it is to see no device."""
    env = dict(line.split("=", 1) for line in spec["process"].get("env", ()))
    if env.get(VISIBLE, "none") in ("none", "void", ""):
        return spec
    annotations = spec.get("annotations", {})
    tag = "/".join(annotations.get(f"io.kubernetes.cri.{name}", "") for name in NAMES)
    folder = settings["folder"]
    env |= {**settings["variables"], TAG: tag, "PATH": f"{folder}:{env.get('PATH', '/bin')}"}
    mounts = [_bind(folder, "ro"), _bind(settings["shared"], "rw"), *(_bind(file, "ro") for file in settings["files"])]
    process = {**spec["process"], "env": [f"{name}={value}" for name, value in env.items()]}
    return {**spec, "process": process, "mounts": [*spec.get("mounts", ()), *mounts]}


def _bind(path: str, mode: str) -> dict[str, Any]:
    return {"destination": path, "source": path, "type": "bind", "options": ["rbind", mode, "nosuid", "nodev"]}


def main(arguments: list[str]) -> None:
    """Change the specification of a container that is to be created, then become runc."""
    settings, *words = arguments
    if "create" in words and "--bundle" in words:
        config = Path(words[words.index("--bundle") + 1], "config.json")
        changed = with_driver(json.loads(config.read_text()), json.loads(Path(settings).read_text()))
        config.write_text(json.dumps(changed))
    os.execvp("runc", ["runc", *words])


if __name__ == "__main__":
    main(sys.argv[1:])
