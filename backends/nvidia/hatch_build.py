"""Compiles the limiter into the wheel.

An editable install has none: it uses what ``hami-core-c/compile.py`` left in the checkout.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LIBRARY = "libvgpu.so"


class LimiterHook(BuildHookInterface[Any]):
    """Adds ``hami_backend_nvidia/libvgpu.so``; ``HAMI_WITHOUT_LIMITER=1`` leaves it out, where there is no compiler."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tell what goes where."""
        if version == "editable" or os.environ.get("HAMI_WITHOUT_LIMITER"):
            return
        here = Path(self.root)
        sources = next(
            (one for one in (here / "limiter", here / "../../hami-core-c") if (one / "compile.py").exists()), None
        )
        if sources is None:
            raise FileNotFoundError(
                f"no sources of the limiter beside {here}; build from a checkout or a source archive"
            )
        folder = here / "build" / "limiter"
        subprocess.run([sys.executable, str(sources / "compile.py"), str(folder)], check=True)  # noqa: S603 - our own program
        build_data["force_include"][str(folder / LIBRARY)] = f"hami_backend_nvidia/{LIBRARY}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{os.environ.get('HAMI_LIMITER_ARCH') or os.uname().machine}"
