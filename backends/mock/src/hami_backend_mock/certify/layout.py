"""The region file of HAMI v2.10, as far as cases disturb it, and the extension behind it that our limiter keeps."""

from dataclasses import dataclass
from typing import ClassVar

from hami_backend_mock.certify.stand import Container

MAGIC, MAGIC_NUMBER = 0, 19920718
LOCK_OWNER, LOCK = 16, 24
CORE_LIMIT = 1728
SLOTS, SLOT_BYTES, SLOT_COUNT = 1856, 1960, 2008896
SWITCH, RECENT, LAST_KERNEL = 2008900, 2008904, 2008912
EXTENSION, EXTENSION_MAGIC = 2008960, 0x31747865696D6168
DEVICES, DEVICE_BYTES = 16, 8000
OWNER_WORD, RATE = EXTENSION + 64 + 64, EXTENSION + 64 + 136
"""Of the first device."""


@dataclass(frozen=True)
class Slot:
    """Where a process is in the region."""

    STATUS: ClassVar[int] = 1928
    SEQUENCE: ClassVar[int] = 1936
    EPOCH: ClassVar[int] = 1944
    UTILIZATION: ClassVar[int] = 1160

    index: int

    @property
    def at(self) -> int:
        """Where it begins in the file."""
        return SLOTS + self.index * SLOT_BYTES

    def sm_percent(self, container: Container, device: int) -> int:
        """Use of a card's multiprocessors as published there."""
        return container.number(self.at + self.UTILIZATION + 48 * device + 16)

    @classmethod
    def of(cls, container: Container, pid: int) -> "Slot | None":
        """Of a process; ``None``: it has none that shows its pid."""
        for index in range(max(0, min(1024, container.number(SLOT_COUNT, 4)))):
            if container.number(cls(index).at, 4) == pid:
                return cls(index)
        return None


def has_layout(container: Container) -> bool:
    """True where the limiter keeps such a file."""
    return container.region.exists() and container.number(MAGIC, 4) == MAGIC_NUMBER


def has_extension(container: Container) -> bool:
    """True where our extension follows."""
    return has_layout(container) and container.number(EXTENSION) == EXTENSION_MAGIC


def hold_lock_as(container: Container, slot: Slot) -> None:
    """Leave the account locked as a process leaves it that is killed inside."""
    dead = container.number(slot.at, 4)
    container.write(LOCK_OWNER, dead)
    container.write(LOCK, 0, 4)
    for device in range(DEVICES if has_extension(container) else 0):
        container.write(
            OWNER_WORD + device * DEVICE_BYTES, container.number(slot.at + Slot.EPOCH) << 16 | slot.index + 1
        )
