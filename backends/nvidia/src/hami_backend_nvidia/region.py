"""Reader of the limiter's shared region, which its container can write: nothing in it is trusted.

It is read with bounds from a plain file and never mapped; numbers are taken only where their place says, counts are cut to
what the layout has room for, and one that no device could have makes the whole region unreadable. Which processes live is
asked of the kernel, which holds a lock for each.
"""

import fcntl
import os
import stat
import struct
from dataclasses import dataclass
from pathlib import Path

from hami_core_py.errors import HamiError

MAGIC, MAJOR = 19920718, 1
LAYOUT_BYTES = 2008952
EXTENSION_AT, EXTENSION_MAGIC = 2008960, b"hamiext1"
TOKENS = 4194304
"""File offset of the bytes whose locks say which slots live."""
DEVICES, SLOTS = 16, 1024
UUIDS_AT, UUID_ROOM = 64, 96
SLOTS_AT, SLOT_BYTES, USED_BYTES = 1856, 1960, 64
UTILIZATION_AT, UTILIZATION_BYTES = 1160, 48
STATUS_AT = 1928
TAIL_AT, TAIL = 2008896, struct.Struct("<iiiiQ")
MOST_BYTES = 2**47
F_OFD_GETLK = 36
_LOCK = struct.Struct("hhqqi4x")


class RegionError(HamiError):
    """A region cannot be read, or says what cannot be."""


@dataclass(frozen=True, slots=True)
class Use:
    """What one process holds of one device: bytes, and percent of its compute as the limiter last knew it."""

    context: int = 0
    module: int = 0
    data: int = 0
    total: int = 0
    percent: int = 0

    def __add__(self, other: "Use") -> "Use":
        return Use(
            self.context + other.context,
            self.module + other.module,
            self.data + other.data,
            self.total + other.total,
            self.percent + other.percent,
        )


@dataclass(frozen=True, slots=True)
class Slot:
    """One live process, by its pid in its own namespace, and what it holds of each device of the region."""

    pid: int
    uses: tuple[Use, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """What one container's processes have written down.

    :ivar uuids: of the devices, in the region's order; empty text where one is not known yet.
    :ivar last_launch: seconds since the Unix epoch; 0: none yet.
    """

    uuids: tuple[str, ...]
    slots: tuple[Slot, ...]
    last_launch: int

    def use(self, device: int) -> Use:
        """What all live processes hold of one device."""
        return sum((slot.uses[device] for slot in self.slots), Use())


def read_region(path: Path) -> Region | None:
    """The region of a container; ``None``: no process has made one yet. :raises RegionError: it is not to be believed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise RegionError(f"region {path}: {problem.strerror}") from problem
    try:
        told = os.fstat(descriptor)
        if not stat.S_ISREG(told.st_mode):
            raise RegionError(f"region {path}: expected a plain file")
        if told.st_size == 0:  # it is being made
            return None
        if told.st_size < LAYOUT_BYTES:
            got = f"{told.st_size}; it is of an older limiter"
            raise RegionError(f"region {path}: expected {LAYOUT_BYTES} bytes or more, got {got}")
        return _read(path, descriptor)
    except OSError as problem:
        raise RegionError(f"region {path}: {problem.strerror}") from problem
    except struct.error as problem:
        raise RegionError(f"region {path}: it grew shorter while it was read") from problem
    finally:
        os.close(descriptor)


def _read(path: Path, descriptor: int) -> Region | None:
    head = os.pread(descriptor, SLOTS_AT, 0)
    magic, major = struct.unpack_from("<iI", head)
    if magic == 0:
        return None
    if (magic, major) != (MAGIC, MAJOR):
        raise RegionError(f"region {path}: expected magic {MAGIC} and version {MAJOR}, got {magic} and {major}")
    count, _switch, _recent, _priority, last_launch = TAIL.unpack(os.pread(descriptor, TAIL.size, TAIL_AT))
    (devices,) = struct.unpack_from("<Q", head, 56)
    uuids = tuple(_uuid(head, i) for i in range(min(devices, DEVICES)))
    has_tokens = os.pread(descriptor, 8, EXTENSION_AT) == EXTENSION_MAGIC
    slots = []
    for index in range(min(max(count, 0), SLOTS)):
        if has_tokens and not _lives(descriptor, index):
            continue
        slot = os.pread(descriptor, SLOT_BYTES, SLOTS_AT + index * SLOT_BYTES)
        pid, _host_pid = struct.unpack_from("<ii", slot)
        (status,) = struct.unpack_from("<i", slot, STATUS_AT)
        if has_tokens or (pid and status):
            slots.append(Slot(pid, tuple(_use(path, slot, i) for i in range(len(uuids)))))
    return Region(uuids, tuple(slots), last_launch)


def _uuid(head: bytes, index: int) -> str:
    at = UUIDS_AT + index * UUID_ROOM
    text = head[at : at + UUID_ROOM].split(b"\0", 1)[0]
    return text.decode("ascii", "replace")


def _use(path: Path, slot: bytes, device: int) -> Use:
    context, module, data, _offset, total = struct.unpack_from("<5Q", slot, 8 + device * USED_BYTES)
    _decoder, _encoder, percent = struct.unpack_from("<3Q", slot, UTILIZATION_AT + device * UTILIZATION_BYTES)
    if max(context, module, data, total) > MOST_BYTES:
        raise RegionError(f"region {path}: a process claims {max(context, module, data, total)} bytes of a device")
    return Use(context, module, data, total, min(percent, 100))


def _lives(descriptor: int, slot: int) -> bool:
    """Whether a process holds the byte of a slot."""
    asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, TOKENS + slot, 1, 0)
    return bool(_LOCK.unpack(fcntl.fcntl(descriptor, F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK)
