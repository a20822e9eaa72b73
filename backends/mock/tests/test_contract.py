"""What every backend promises."""

from pathlib import Path

import hami_backend_mock.plugin
import pytest

from hami_core_py.models.devices import Device
from hami_core_py.testing.builders import device
from hami_core_py.testing.contract import BackendContract, Capability


class TestContract(BackendContract):
    plugin = hami_backend_mock.plugin
    settings = {"devicesFile": str(Path(__file__).parent / "devices.yaml"), "nodeName": "n1"}
    capabilities = {Capability.MEMORY_SHARES, Capability.CORE_SHARES, Capability.GRANTS, Capability.METRICS}
    one_device = {"mock.hami.io/device": "1", "mock.hami.io/device-memory": "1024"}

    @pytest.fixture
    def devices(self) -> tuple[Device, ...]:
        return tuple(device(f"mock-{i}", family="Mock") for i in range(3))
