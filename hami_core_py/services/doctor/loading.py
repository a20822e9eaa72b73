"""Whether libraries of ours can be loaded on this machine, and whether containers have loaded them."""

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

TRIAL_SECONDS = 10.0
_REFUSED = re.compile(r"cannot be preloaded \((?P<why>.*)\): ignored")


def glibc() -> tuple[int, int] | None:
    """Version of this machine's C library; ``None``: it is another one."""
    try:
        stated = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return None
    found = re.fullmatch(r"glibc (\d+)\.(\d+).*", stated)
    return (int(found[1]), int(found[2])) if found else None


def why_not_loadable(library: Path) -> str:
    """What the loader says when a program that does nothing is to load a library; empty: it does, or it cannot be tried."""
    program = shutil.which("true")
    if program is None:
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - a program of the system, which does nothing
            [program],
            env={"LD_PRELOAD": str(library), "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
            timeout=TRIAL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"a program that loads it does not end well: {problem}"
    found = _REFUSED.search(done.stderr)
    if found is not None:
        return f"the loader says: {found['why']}"
    return "" if done.returncode == 0 else f"a program that loads it ends with {done.returncode}"


def loaded_by(name: str, libraries: Collection[str], proc: Path) -> bool | None:
    """Whether a process that has a directory mounted has loaded a library; ``None``: there is none, or none may be looked at.

    :param name: of the directory, unique on the host. :param libraries: file names.
    """
    answers = list(_answers(name, libraries, proc)) if libraries else []
    return any(answers) if answers else None


def _answers(name: str, libraries: Collection[str], proc: Path) -> Iterator[bool]:
    for process in proc.glob("[1-9]*"):
        try:
            mounts = (process / "mountinfo").read_text(errors="replace")
            if f"/{name}/" not in mounts and f"/{name} " not in mounts:
                continue
            maps = (process / "maps").read_text(errors="replace")
        except OSError:
            continue  # it has ended, or is not ours to see
        yield any(line.rstrip().rpartition("/")[2] in libraries for line in maps.splitlines())
