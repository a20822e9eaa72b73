"""To which container a process of this host belongs, by what it has mounted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process lives.

    :ivar directory: the container's directory on the host; empty: none of ours; ``None``: we may not look.
    :ivar pid: its pid in its own namespace.
    :ivar started: clock ticks since boot, which with the pid make a name that is never used twice.
    """

    directory: str | None
    pid: int
    started: int


def places(pids: Iterable[int], directories: Iterable[str], proc: Path = Path("/proc")) -> dict[int, Place]:
    """Where processes live; those that are gone are left out.

    :param directories: containers' directories, whose last part is unique on the host.
    """
    named = {Path(directory).name: directory for directory in directories if directory}
    found = {}
    for pid in pids:
        try:
            identity = _identity(proc / str(pid), pid)
            found[pid] = Place(_directory(proc / str(pid), named), *identity)
        except PermissionError:
            found[pid] = Place(None, *identity)
        except (OSError, ValueError, IndexError):
            continue
    return found


def _directory(process: Path, named: Mapping[str, str]) -> str:
    for line in (process / "mountinfo").read_text(errors="replace").splitlines():
        # The fourth field is the mounted directory, within its own file system.
        for word in line.split(" ", 4)[3].split("/"):
            if word in named:
                return named[word]
    return ""


def _identity(process: Path, pid: int) -> tuple[int, int]:
    status = (process / "status").read_text(errors="replace").splitlines()
    inner = next((int(line.split()[-1]) for line in status if line.startswith("NSpid:")), pid)
    return inner, int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[19])
