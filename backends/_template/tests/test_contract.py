"""What every backend promises, and what this one adds."""

from pathlib import Path

import hami_backend_acme.plugin
import pytest

from hami_core_py.models.devices import Device, DeviceId
from hami_core_py.testing.builders import device
from hami_core_py.testing.contract import BackendContract, Capability


class TestContract(BackendContract):
    plugin = hami_backend_acme.plugin
    capabilities = {Capability.MEMORY_SHARES, Capability.CORE_SHARES, Capability.GRANTS}
    one_device = {"acme.example/npu": "1", "acme.example/npu-memory": "1024"}

    @pytest.fixture
    def devices(self) -> tuple[Device, ...]:
        return tuple(device(f"npu-{i}", family="Acme", facts={"node": f"/dev/acme/npu{i}"}) for i in range(2))


def test_devices_are_read_from_sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hami_backend_acme.plugin, "SYSFS", tmp_path)
    npu = tmp_path / "npu0"
    npu.mkdir()
    for name, text in {"serial": "A-17\n", "model": "Acme N1\n", "memory_mib": "16384\n"}.items():
        (npu / name).write_text(text)
    assert hami_backend_acme.plugin.hami_discover_devices(hami_backend_acme.plugin.Settings(slots=4)) == (
        Device(
            id=DeviceId("A-17"),
            family="Acme",
            model="Acme N1",
            slots=4,
            memory_mib=16384,
            facts={"node": "/dev/acme/npu0"},
        ),
    )
