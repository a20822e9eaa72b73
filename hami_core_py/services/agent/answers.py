"""What Allocate answers for one container, free of any protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hami_core_py.models.allocations import Mount
from hami_core_py.models.devices import no_facts


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One container's part of an Allocate answer.

    :ivar device_paths: device nodes of the host, same path inside. :ivar cdi_devices: qualified CDI names.
    """

    env: Mapping[str, str] = field(default_factory=no_facts)
    mounts: tuple[Mount, ...] = ()
    device_paths: tuple[str, ...] = ()
    cdi_devices: tuple[str, ...] = ()
