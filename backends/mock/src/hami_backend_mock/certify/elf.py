"""Names that a shared library exports."""

import struct
from pathlib import Path

SECTION_DYNSYM = 11
LOCAL, UNDEFINED = 0, 0


def exported_names(library: Path) -> list[str]:
    """Defined, visible names of a 64-bit little-endian library, without versions. :raises ValueError: it is none."""
    data = library.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{library}: expected a 64-bit shared library")
    (sections_at,) = struct.unpack_from("<Q", data, 40)
    each, count = struct.unpack_from("<HH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + i * each) for i in range(count)]
    names = set()
    for _, kind, _, _, at, size, link, *_ in headers:
        if kind != SECTION_DYNSYM:
            continue
        strings = headers[link][4]
        for symbol in range(at, at + size, 24):
            name, info, _, section = struct.unpack_from("<IBBH", data, symbol)
            if info >> 4 != LOCAL and section != UNDEFINED and name:
                end = data.index(b"\0", strings + name)
                names.add(data[strings + name : end].decode())
    return sorted(names)
