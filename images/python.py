"""The layers above: Python distributions as their wheels hold them, compiled by the image's own Python."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from images.debian import PYTHON, SITE

ROOT = Path(__file__).parents[1]
REQUIREMENTS = Path(__file__).parent / "requirements.txt"
DISTRIBUTIONS = (ROOT, ROOT / "backends/nvidia", ROOT / "backends/mock")
SCRIPT = Path(__file__).parent / "hami"
USELESS_FOLDERS = frozenset({"tests", "test", "__pycache__", "include"})
# The client's other half, for asyncio, which is the largest thing of all and nobody here imports.
USELESS_PACKAGES = ("kubernetes/aio/",)
USELESS_ENDINGS = (".pyi", ".pyx", ".pxd", ".h", ".c", ".a")


def build_wheels(folder: Path, sources: Iterable[Path] = DISTRIBUTIONS, *, epoch: int) -> tuple[Path, ...]:
    """Our distributions, or others, as wheels."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    found = []
    for source in sources:
        before = set(folder.glob("*.whl"))
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(source)]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        found += sorted(set(folder.glob("*.whl")) - before)
    return tuple(found)


def download(folder: Path) -> tuple[Path, ...]:
    """Wheels of ``requirements.txt`` for this machine and the image's Python, their hashes checked."""
    tags = [f"manylinux_2_{minor}_{os.uname().machine}" for minor in range(36, 16, -1)]
    platforms = [f"--platform={tag}" for tag in (*tags, f"manylinux2014_{os.uname().machine}")]
    version = ["--python-version", PYTHON.removeprefix("python"), "--implementation", "cp"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes", "--no-deps"]
    command += ["--only-binary=:all:", *version, *platforms, "--dest", str(folder), "-r", str(REQUIREMENTS)]
    subprocess.run(command, check=True)
    return tuple(sorted(folder.glob("*.whl")))


def install(root: Path, wheels: Sequence[Path], *, whole: bool = True, site: Path = SITE) -> None:
    """Unpack wheels. Their scripts stay out: the image has one of its own.

    :param whole: whether all of them is kept; else what nobody uses at run time stays out as well.
    """
    target = root / site
    target.mkdir(parents=True, exist_ok=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if not member.is_dir() and (whole or not _is_useless(member.filename)):
                    _extract(archive, member, target)


def add_script(root: Path) -> None:
    """The command ``hami``."""
    path = root / "usr/local/bin/hami"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(SCRIPT, path)
    path.chmod(0o755)


def compile_below(root: Path, *folders: Path) -> None:
    """Compile folders of the image, or single files, so that a read-only container need not do it at each start.

    :param folders: relative to the image's root.
    """
    # Some packages carry files of other Python versions that do not compile; nobody imports them.
    arguments = ["-q", "-q", "-f", "--invalidation-mode", "unchecked-hash", "-s", str(root)]
    arguments += [str(root / folder) for folder in folders]
    environment = {"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
    # What the compiler itself imports would be written with a time in it.
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    subprocess.run([*interpreter(root), "-m", "compileall", *arguments], check=False, env=environment)


def interpreter(root: Path) -> list[str]:
    """The image's own Python, run where it lies by its own loader; needs no rights."""
    machine = os.uname().machine
    loader = next(path for path in (root / "lib64", root / "lib") if path.exists())
    program = next(loader.glob("ld-linux-*.so.*"))
    libraries = ":".join(str(root / prefix / f"{machine}-linux-gnu") for prefix in ("lib", "usr/lib"))
    return [str(program), "--library-path", libraries, str(root / "usr/bin" / PYTHON)]


def _extract(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    name = member.filename
    top, _, rest = name.partition("/")
    if top.endswith(".data"):
        kind, _, inner = rest.partition("/")
        if kind not in ("purelib", "platlib"):
            return
        name = inner
    path = (target / name).resolve()
    if not path.is_relative_to(target.resolve()):
        raise SystemExit(f"images: {archive.filename}: expected paths inside the wheel, got {member.filename!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, path.open("wb") as copy:
        shutil.copyfileobj(source, copy)
    path.chmod(0o755 if (member.external_attr >> 16) & 0o111 else 0o644)


def _is_useless(name: str) -> bool:
    """Tests, types and headers of other packages: nothing imports them at run time."""
    folders = name.split("/")[:-1]
    return (
        bool(USELESS_FOLDERS & set(folders[1:])) or name.startswith(USELESS_PACKAGES) or name.endswith(USELESS_ENDINGS)
    )
