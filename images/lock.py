"""Write ``requirements.txt``: everything that our distributions need, each version once, with the hashes of its files."""

import subprocess
import tempfile
from pathlib import Path

from images import debian, python
from images.build import default_epoch


def main() -> None:
    """Resolve anew. Needs ``uv``."""
    with tempfile.TemporaryDirectory() as folder:
        wheels = python.build_wheels(Path(folder), epoch=default_epoch())
        names = [wheel.name.split("-")[0].replace("_", "-") for wheel in wheels]
        ours = [option for name in names for option in ("--no-emit-package", name)]
        # Ours are pre-releases between two releases; nobody else's shall be.
        wanted = "".join(f"{name}>=0.dev0\n" for name in names)
        version = debian.PYTHON.removeprefix("python")
        command = ["uv", "pip", "compile", "--quiet", "-", "--find-links", folder, "--no-emit-find-links", *ours]
        command += ["--prerelease", "explicit", "--python-version", version, "--generate-hashes", "--no-annotate"]
        command += ["--no-header", "--upgrade", "--output-file", str(python.REQUIREMENTS)]
        subprocess.run(command, check=True, input=wanted, text=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
