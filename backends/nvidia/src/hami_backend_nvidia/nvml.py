"""Asking the driver, in a child process that may hang or crash without taking us along."""

from collections.abc import Sequence

from hami_backend_nvidia.settings import Settings
from hami_core_py.models.allocations import HealthChange
from hami_core_py.models.devices import Device
from hami_core_py.models.samples import Sample


def discover(settings: Settings) -> tuple[Device, ...]:
    """GPUs that the driver shows; ``()`` without a driver."""
    return ()


def check_health(devices: Sequence[Device], settings: Settings) -> tuple[HealthChange, ...]:
    """What changed."""
    return ()


def collect(settings: Settings) -> tuple[Sample, ...]:
    """Memory and utilisation of the GPUs of this host."""
    return ()
