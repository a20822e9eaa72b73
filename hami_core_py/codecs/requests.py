"""Container resources → what a container asks of one family, by the family's tables."""

from hami_core_py.models.families import Family
from hami_core_py.models.requests import DeviceRequest
from hami_core_py.models.views import ContainerView, PodView


def read_by_table(container: ContainerView, pod: PodView, family: Family) -> tuple[DeviceRequest, ...]:
    """What one container asks of a family; empty when it asks for nothing."""
    raise NotImplementedError
