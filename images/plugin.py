"""``python -m images.plugin REFERENCE WHEEL …``: an image that holds backends alone, for ``backends.NAME.plugin.image``."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from images import debian, oci, python
from images.build import architecture

SITE = Path("site-packages")
"""Where the chart looks for Python packages in a plugin image."""


def plugin_image(wheels: Sequence[Path], reference: str, out: Path) -> Path:
    """Write the archive of an image with wheels' content below ``/site-packages``, and ``cp`` for the chart's init container.

    :returns: the archive.
    """
    with tempfile.TemporaryDirectory(prefix="images-") as folder:
        root, content = Path(folder) / "root", Path(folder) / "content"
        for made in (root, content / "bin"):
            made.mkdir(parents=True)
        debian.unpack(root, ("busybox-static",))
        program = next(path for path in (root / "bin/busybox", root / "usr/bin/busybox") if path.exists())
        program.rename(content / "bin/cp")
        python.install(content, wheels, site=SITE)
        image = oci.Image(layers=(oci.layer_of(content),), env={"PATH": "/bin"}, architecture=architecture())
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(oci.archive_of({reference: image}))
    return out


def main() -> None:
    """Make one, and say where it lies."""
    parser = argparse.ArgumentParser(prog="python -m images.plugin", description=__doc__)
    parser.add_argument("reference", help="such as registry.example.com/hami-backend-acme:1.2")
    parser.add_argument(
        "wheels", nargs="+", type=Path, metavar="WHEEL", help="the backend, and what it needs besides hami"
    )
    parser.add_argument("--out", type=Path, default=Path("dist/images/plugin.tar"))
    given = parser.parse_args()
    print(plugin_image(given.wheels, given.reference, given.out))


if __name__ == "__main__":
    main()
