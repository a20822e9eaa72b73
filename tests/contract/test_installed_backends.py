"""Every installed backend keeps the contract, whoever wrote it: what it needs to be asked is taken from its own families."""

from importlib.metadata import entry_points
from typing import Any

import pytest

from hami_core_py.hooks import GROUP
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.devices import Device
from hami_core_py.testing.builders import device
from hami_core_py.testing.contract import BackendContract


def _contract(name: str, plugin: Any) -> type[BackendContract]:
    families = tuple(Ask(load_backends(plugins=[(name, plugin)])).families.values())
    first = families[0] if families else None

    @pytest.fixture
    def devices(self: BackendContract) -> tuple[Device, ...]:
        return tuple(device(f"device-{i}", family=f.name) for f in families for i in range(2))

    fields = {
        "plugin": plugin,
        "one_device": {first.resources.count: "1"} if first else {},
        "has_hardware": True,
        "devices": devices,
        "__module__": __name__,
    }
    return type(f"Test{name.title()}", (BackendContract,), fields)


for _point in entry_points(group=GROUP):
    _made = _contract(_point.name, _point.load())
    globals()[_made.__name__] = _made


def test_there_is_a_backend_to_check() -> None:
    assert list(entry_points(group=GROUP)), "install one: pip install -e backends/nvidia"
