"""What kind of program a file is, as far as its first bytes tell: which loader starts it, or which interpreter."""

import struct
from dataclasses import dataclass
from typing import Literal

from hami_core_py.errors import BadInputError

HEAD_BYTES = 65536
"""As many bytes from the beginning as are looked at."""
_PT_INTERP = 3


@dataclass(frozen=True, slots=True)
class Executable:
    """A program file.

    :ivar kind: ``script`` has an interpreter, ``dynamic`` a loader, ``static`` neither.
    :ivar by: path of the interpreter or loader; empty for a static one.
    """

    kind: Literal["script", "dynamic", "static"]
    by: str = ""

    @property
    def is_musl(self) -> bool:
        """Whether its loader is that of the musl library."""
        return self.kind == "dynamic" and self.by.rpartition("/")[2].startswith("ld-musl")


def read_executable(head: bytes, where: str) -> Executable:
    """Read the first bytes of a program. :raises BadInputError: it is neither a script nor a 64-bit program of this machine."""
    if head[:2] == b"#!":
        words = head[2:].split(b"\n", 1)[0].split()
        if not words:
            raise BadInputError(where, "an interpreter after #!", "nothing")
        is_env = words[0].rpartition(b"/")[2] == b"env"
        named = [word for word in words[1:] if not word.startswith(b"-") and b"=" not in word] if is_env else words
        return Executable("script", (named or words)[0].decode(errors="replace"))
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64:
        raise BadInputError(where, "a 64-bit program of this machine, or a script that names one", _shown(head))
    (table,) = struct.unpack_from("<Q", head, 32)
    size, count = struct.unpack_from("<HH", head, 54)
    for number in range(count):
        at = table + number * size
        if at + 56 > len(head):
            break
        kind, _flags, offset, _virtual, _physical, length = struct.unpack_from("<IIQQQQ", head, at)
        if kind == _PT_INTERP:
            return Executable("dynamic", head[offset : offset + length].split(b"\0", 1)[0].decode(errors="replace"))
    return Executable("static")


def _shown(head: bytes) -> str:
    return f"a file that begins with {head[:4].hex(' ')}" if head else "an empty file"
