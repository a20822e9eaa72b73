"""The suite every backend passes, ours and strangers' alike.

.. code-block:: python

    class TestContract(BackendContract):
        plugin = hami_backend_acme.plugin
        capabilities = {Capability.MEMORY_SHARES, Capability.GRANTS}
        one_device = {"acme.example/npu": "1", "acme.example/npu-memory": "1024"}
        driver_modules = ("acme_sdk",)

        @pytest.fixture
        def devices(self):
            return (device("npu-0", family="Acme"), device("npu-1", family="Acme"))
"""

from hami_core_py.testing.checks.choosing import ChoiceChecks
from hami_core_py.testing.checks.deciding import DecisionChecks
from hami_core_py.testing.checks.identity import IdentityChecks
from hami_core_py.testing.checks.placing import PlacementChecks
from hami_core_py.testing.checks.requesting import RequestChecks
from hami_core_py.testing.checks.scene import Capability
from hami_core_py.testing.checks.serving import NodeChecks

__all__ = ["BackendContract", "Capability"]


class BackendContract(IdentityChecks, RequestChecks, ChoiceChecks, PlacementChecks, DecisionChecks, NodeChecks):
    """Inherit, say which plugin, and pytest asks the rest. Checks that do not apply are skipped with a reason.

    :cvar plugin: the plugin module. :cvar settings: its section of the device configuration.
    :cvar capabilities: what it can do.
    :cvar one_device: resources of a container that asks for one device; empty for a policy.
    :cvar driver_modules: names of SDK modules that must not be imported along with the plugin.
    :cvar has_hardware: whether this machine may have its devices, so that discovery need not find nothing.
    """
