"""The core's own answers to the owner hooks, from a family's tables; asked after every backend."""

from collections.abc import Sequence

from hami_core_py.codecs.requests import read_by_table
from hami_core_py.hooks import hookimpl
from hami_core_py.models.devices import Inventory
from hami_core_py.models.families import Family
from hami_core_py.models.requests import DeviceRequest
from hami_core_py.models.views import ContainerView, NodeView, PodView


class CoreDefaults:
    """A plugin without families, registered last: what no backend answers, the family's tables do."""

    @hookimpl(trylast=True)
    def hami_read_request(self, container: ContainerView, pod: PodView, family: Family) -> Sequence[DeviceRequest]:
        """What the container asks of the family, by its tables."""
        return read_by_table(container, pod, family)

    @hookimpl(trylast=True)
    def hami_read_inventory(self, node: NodeView, family: Family) -> Inventory:
        """The family's devices on the node, by its tables."""
        from hami_core_py.codecs.inventories import inventory_by_table

        return inventory_by_table(node, family)
