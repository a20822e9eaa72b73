"""The sums of one node: what its devices are charged, and by whom."""

from collections.abc import Collection, Mapping

from hami_core_py.decisions.usage import minus, plus, total
from hami_core_py.models.devices import IDLE, DeviceId, Usage


class NodeBook:
    """Usage of one node's devices, changed by deltas. Whoever owns it serialises the calls.

    :ivar usage: of the devices in use; to be read only. :ivar generation: grows with every change.
    """

    __slots__ = ("_holders", "generation", "usage")

    def __init__(self) -> None:
        self.usage: dict[DeviceId, Usage] = {}
        self._holders: dict[DeviceId, dict[str, Usage]] = {}
        self.generation = 0

    def charge(self, uid: str, peaks: Mapping[DeviceId, Usage]) -> None:
        """Add what a pod holds."""
        for device, used in peaks.items():
            self.usage[device] = plus(self.usage.get(device, IDLE), used)
            self._holders.setdefault(device, {})[uid] = used
        self.generation += 1

    def discharge(self, uid: str, peaks: Mapping[DeviceId, Usage]) -> None:
        """Take away what a pod held."""
        for device, used in peaks.items():
            holders = self._holders[device]
            del holders[uid]
            if holders:
                self.usage[device] = minus(self.usage[device], used, _occupied(holders, used, self.usage[device]))
            else:
                del self._holders[device], self.usage[device]
        self.generation += 1

    def without(self, absent: Collection[str]) -> dict[DeviceId, Usage]:
        """Usage as it would be if these pods held nothing."""
        usage = dict(self.usage)
        gone = set(absent)
        for device, holders in self._holders.items():
            if not gone.isdisjoint(holders):
                usage[device] = total(used for holder, used in holders.items() if holder not in gone)
        return usage

    def put_right(self, usage: dict[DeviceId, Usage], holders: dict[DeviceId, dict[str, Usage]]) -> None:
        """Replace all sums by others."""
        self.usage, self._holders = usage, holders


def _occupied(holders: Mapping[str, Usage], leaving: Usage, used: Usage) -> int:
    """Cells that the remaining holders occupy; looked up only when the leaving one held any."""
    if not leaving.occupied:
        return used.occupied
    occupied = 0
    for held in holders.values():
        occupied |= held.occupied
    return occupied
