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
LEFT_OUT = (
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/doc-base",
    "usr/share/pixmaps",
    "usr/share/applications",
    "usr/share/bug",
    "var/cache",
    "var/lib/apt",
    "var/lib/dpkg/info",
    "var/log",
    "dev",
    "etc/apt",
    f"usr/lib/{PYTHON}/test",
    f"usr/lib/{PYTHON}/idlelib",
    f"usr/lib/{PYTHON}/tkinter",
    f"usr/lib/{PYTHON}/ensurepip",
    f"usr/lib/{PYTHON}/lib2to3",
)
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
        members = [member for member in tar if not _is_left_out(member.name) and not (member.isdev())]
        tar.extractall(root, members=members, filter="fully_trusted")
    archive.unlink()


def complete(root: Path) -> None:
    """Add what the packages' own scripts would have made."""
    for name, text in (("etc/passwd", PASSWD), ("etc/group", GROUP)):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    temporary = root / "tmp"
    temporary.mkdir(exist_ok=True)
    temporary.chmod(0o1777)
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir(exist_ok=True)
    for path in sorted((root / "usr/share/doc").rglob("*"), reverse=True):
        # Licences stay.
        if path.is_file() and path.name != "copyright":
            path.unlink()
        elif path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def _is_left_out(name: str) -> bool:
    plain = name.removeprefix("./").rstrip("/")
    return any(plain == one or plain.startswith(f"{one}/") for one in LEFT_OUT)
