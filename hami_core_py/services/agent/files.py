"""Files of the agent: each is replaced at once, and left alone when it is right already."""

import os
import secrets
from pathlib import Path


def put(path: Path, content: bytes, *, mode: int = 0o644) -> bool:
    """Make a file hold this content; a reader sees the old one or the new one.

    :returns: whether it was written; ``False``: it held just this already. :raises OSError: it cannot be written.
    """
    try:
        if path.read_bytes() == content:
            return False
    except FileNotFoundError:
        pass
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return True


def read(path: Path) -> bytes | None:
    """A file's content; ``None``: there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
