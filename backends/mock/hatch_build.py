"""Compiles the simulated driver into the wheel. An editable install builds one beside the sources when first asked."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PARTS = (
    "libcuda.so.1",
    "libnvidia-ml.so.1",
    "hami-sim",
    "hami-sim-client",
    "hami-sim-bench",
    "surface.json",
    "certify/hami-sim-probe",
    "certify/hami-sim-probe-linked",
    "certify/hami-sim-probe-per-thread",
    "certify/libhami-sim-dependency.so",
    "certify/libhami-sim-plugin.so",
    "certify/old/libcuda.so.1",
)


class SimulatorHook(BuildHookInterface[Any]):
    """Adds ``hami_backend_mock/simulator``; ``HAMI_WITHOUT_SIMULATOR=1`` leaves it out, where there is no compiler."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell what goes where."""
        if version == "editable" or os.environ.get("HAMI_WITHOUT_SIMULATOR"):
            return
        here = Path(self.root)
        sources = next(
            (one for one in (here / "simulator", here / "../../hami-core-c/simulator") if (one / "build.py").exists()),
            None,
        )
        if sources is None:
            raise FileNotFoundError(
                f"no sources of the simulated driver beside {here}; build from a checkout or a source archive"
            )
        folder = here / "build" / "simulator"
        subprocess.run([sys.executable, str(sources / "build.py"), str(folder)], check=True)  # noqa: S603
        for part in PARTS:
            build_data["force_include"][str(folder / part)] = f"hami_backend_mock/simulator/{part}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{os.uname().machine}"
