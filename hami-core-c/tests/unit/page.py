"""``python page.py``: write docs/reference/compute-shares.md anew, from what the grid program prints."""

import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = ROOT.parent / "docs" / "reference" / "compute-shares.md"


def printed() -> str:
    """Compile the grid and run it; about fifteen seconds."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "grid"
        parts = [HERE / "grid.c", HERE / "plant.c", ROOT / "src" / "throttle.c", ROOT / "simulator" / "engine.c"]
        flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-ffp-contract=off", f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]
        subprocess.run(["cc", *flags, *map(str, parts), "-o", str(program), "-lm"], check=True)
        return subprocess.run([program, "--table"], check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    PAGE.write_text(printed(), encoding="utf-8")
