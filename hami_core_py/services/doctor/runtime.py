"""containerd's configuration, as far as CDI is concerned."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hami_core_py.decisions.doctor.hostfacts import Runtime

PLUGINS = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
"""Names of the CRI plugin's section in the layouts 3, 2 and 1."""


def read_runtime(path: Path) -> Runtime | None:
    """What the file says; ``None``: it is not there, or cannot be read as TOML."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return None
    version = values.get("version", 1)
    section = _section(values)
    cdi, directories = section.get("enable_cdi"), section.get("cdi_spec_dirs")
    return Runtime(
        path=str(path),
        version=version if isinstance(version, int) else 1,
        cdi=cdi if isinstance(cdi, bool) else None,
        spec_dirs=tuple(map(str, directories)) if isinstance(directories, list) else (),
    )


def _section(values: Mapping[str, Any]) -> Mapping[str, Any]:
    plugins = values.get("plugins")
    for name in PLUGINS:
        section = plugins.get(name) if isinstance(plugins, dict) else None
        if isinstance(section, dict):
            return section
    return {}
