"""The bottom layer: Debian's packages unpacked, without a package manager, a shell, or anything that is only documentation."""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

PACKAGES = Path(__file__).parent / "packages.txt"
SUITE = "bookworm"
PYTHON = "python3.11"
SITE = Path("usr/local/lib") / PYTHON / "dist-packages"
"""Where Debian's Python looks for what is not Debian's, whatever the environment says."""

UNPRIVILEGED = 65532
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
KEPT_PROGRAMS = ("python3", PYTHON)
LEFT_OUT = (
    "bin",
    "dev",
    "sbin",
    "usr/libexec",
    "usr/sbin",
    "var",
    # Of the machine that built it, or for programs that are not there.
    "etc/alternatives",
    "etc/apt",
    "etc/cron.daily",
    "etc/dpkg",
    "etc/fstab",
    "etc/hostname",
    "etc/logrotate.d",
    "etc/netconfig",
    "etc/resolv.conf",
    "etc/rmt",
    f"usr/lib/{PYTHON}/ensurepip",
    f"usr/lib/{PYTHON}/idlelib",
    f"usr/lib/{PYTHON}/lib2to3",
    f"usr/lib/{PYTHON}/test",
    f"usr/lib/{PYTHON}/tkinter",
    "usr/lib/dpkg",
)
KEPT_SHARES = ("doc",)
PASSWD = f"root:x:0:0:root:/:/usr/sbin/nologin\nhami:x:{UNPRIVILEGED}:{UNPRIVILEGED}:hami:/:/usr/sbin/nologin\n"
GROUP = f"root:x:0:\nhami:x:{UNPRIVILEGED}:\n"


def packages() -> tuple[str, ...]:
    """Names in ``packages.txt``."""
    lines = (line.strip() for line in PACKAGES.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def unpack(root: Path, names: Sequence[str]) -> None:
    """Unpack packages with all that they depend on into an empty folder. Needs ``mmdebstrap`` and Debian's archive."""
    tool = shutil.which("mmdebstrap")
    if tool is None:
        raise SystemExit("images: expected the program mmdebstrap, got none; apt-get install mmdebstrap")
    archive = root.with_suffix(".tar")
    command = [tool, "--quiet", "--variant=extract", f"--include={','.join(names)}", SUITE, str(archive)]
    command += [str(SOURCES)] if SOURCES.exists() else []
    subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "0"})
    with tarfile.open(archive) as tar:
        tar.extractall(root, members=[one for one in tar if not one.isdev()], filter="fully_trusted")
    archive.unlink()


def trim(root: Path) -> None:
    """Take away what a container of ours does not need, and what is of the machine that built it. Licences stay."""
    for name in LEFT_OUT:
        _remove(root / name)
    for path in (root / "usr/bin").iterdir():
        if path.name not in KEPT_PROGRAMS:
            _remove(path)
    for path in (root / "usr/share").iterdir():
        if path.name not in KEPT_SHARES:
            _remove(path)
    for path in sorted((root / "usr/share/doc").rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.name != "copyright" and not path.is_symlink():
            path.unlink()


def complete(root: Path) -> None:
    """Add what the packages' own scripts would have made."""
    for name, text in (("etc/passwd", PASSWD), ("etc/group", GROUP)):
        (root / name).write_text(text, encoding="utf-8")
    temporary = root / "tmp"
    temporary.mkdir(exist_ok=True)
    temporary.chmod(0o1777)
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir(exist_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
