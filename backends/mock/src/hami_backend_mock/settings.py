"""The section ``mock`` of the device configuration."""

import os
from pathlib import Path

from pydantic import Field

from hami_core_py.hooks import BackendSettings

FILE_VARIABLE = "HAMI_MOCK_DEVICES"
NODE_VARIABLES = ("HAMI_NODE_NAME", "NODE_NAME")


class Settings(BackendSettings):
    """Where the invented devices are written down."""

    devices_file: Path | None = None
    """YAML file of devices and families; absent: ``HAMI_MOCK_DEVICES``; without either there are none."""
    node_name: str = ""
    """Name of this node in the file; empty: ``HAMI_NODE_NAME``, else ``NODE_NAME``."""
    poll_seconds: float = Field(default=0.2, gt=0, le=5)
    """How often the file is looked at for changed health."""

    def file(self) -> Path | None:
        """The YAML file; ``None`` when there is none."""
        text = os.environ.get(FILE_VARIABLE, "")
        return self.devices_file or (Path(text) if text else None)

    def node(self) -> str:
        """Name of this node; empty when nobody says."""
        return self.node_name or next((os.environ[v] for v in NODE_VARIABLES if os.environ.get(v)), "")
