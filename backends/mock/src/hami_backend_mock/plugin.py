"""Devices from a YAML file: of any installed backend's family, whose own rules then apply, or of invented vendors."""

from collections.abc import Sequence

from hami_backend_mock import grants, health, metrics
from hami_backend_mock.settings import Settings
from hami_backend_mock.world import read_world
from hami_core_py.hooks import API, hookimpl
from hami_core_py.models.allocations import Allocation, Grant, HealthChange
from hami_core_py.models.backends import BackendInfo
from hami_core_py.models.devices import Device
from hami_core_py.models.families import Family
from hami_core_py.models.samples import Sample


@hookimpl
def hami_backend() -> BackendInfo:
    """Who we are."""
    return BackendInfo(
        name="mock",
        vendor="nobody",
        api=API,
        settings=Settings,
        reserved_env=(grants.VISIBLE,),
        closing_env={grants.VISIBLE: "none"},
        stands_in=True,
    )


@hookimpl
def hami_families(settings: Settings) -> Sequence[Family]:
    """The invented kinds of device."""
    return read_world(settings.file()).families


@hookimpl
def hami_discover_devices(settings: Settings) -> Sequence[Device]:
    """What the file says this node has, read anew."""
    return read_world(settings.file()).on(settings.node())


@hookimpl
def hami_check_health(devices: Sequence[Device], settings: Settings) -> Sequence[HealthChange]:
    """Devices whose health in the file is another; waits for the file to change."""
    return health.changes(devices, settings)


@hookimpl
def hami_allocate(allocation: Allocation) -> Grant:
    """Variables with ids and limits of an invented device."""
    return grants.grant(allocation)


@hookimpl
def hami_collect_metrics(allocations: Sequence[Allocation]) -> Sequence[Sample]:
    """Invented use: half of what each container may use."""
    return metrics.samples(allocations)
