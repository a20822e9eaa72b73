"""What every backend promises."""

import hami_backend_nvidia.plugin
import pytest

from hami_core_py.models.devices import Device
from hami_core_py.testing.builders import device
from hami_core_py.testing.contract import BackendContract, Capability


class TestContract(BackendContract):
    plugin = hami_backend_nvidia.plugin
    capabilities = {Capability.MEMORY_SHARES, Capability.CORE_SHARES, Capability.GRANTS, Capability.METRICS}
    one_device = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": "30"}
    driver_modules = ("pynvml",)

    @pytest.fixture
    def devices(self) -> tuple[Device, ...]:
        return tuple(
            device(f"GPU-{i}", family="NVIDIA", model="NVIDIA A100-SXM4-40GB", memory_mib=40960, facts={"minor": i})
            for i in range(4)
        )
