"""Which devices are broken, and which have recovered."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hami_backend_nvidia.watcher import Alive, Critical, Event, Lost, Unreachable
from hami_backend_nvidia.xids import XidRule
from hami_core_py.models.allocations import HealthChange
from hami_core_py.models.devices import Device, Health

EVERY_DEVICE = ""


@dataclass
class HealthBook:
    """What is held against each device, and since when.

    :ivar recovery_seconds: time without a further event after which a device counts as healthy again.
    :ivar faults: device (or ``EVERY_DEVICE``) → time of its last fault, and what it was.
    """

    rule: XidRule
    recovery_seconds: float
    faults: dict[str, tuple[float, str]] = field(default_factory=dict)

    def note(self, events: Iterable[Event], now: float) -> None:
        """Take events in. A driver that is lost and answers again is forgiven at once, an event only after a while."""
        for event in events:
            match event:
                case Critical(device, xid) if self.rule.is_fatal(xid):
                    self.faults[device] = (now, f"XID {xid}")
                case Unreachable(device, why):
                    self.faults[device] = (now, why)
                case Lost(why) if not self.rule.off:
                    self.faults[EVERY_DEVICE] = (now, why)
                case Alive():
                    self.faults.pop(EVERY_DEVICE, None)

    def changes(self, devices: Sequence[Device], now: float) -> tuple[HealthChange, ...]:
        """Devices whose health is other than they say."""
        self.faults = {
            name: (at, why)
            for name, (at, why) in self.faults.items()
            if name == EVERY_DEVICE or now - at < self.recovery_seconds
        }
        changed = []
        for device in devices:
            fault = self.faults.get(device.id) or self.faults.get(EVERY_DEVICE)
            if (fault is None) is not (device.health is Health.HEALTHY):
                why = "no critical event for a while" if fault is None else fault[1]
                changed.append(HealthChange(device=device.id, healthy=fault is None, detail=why))
        return tuple(changed)
