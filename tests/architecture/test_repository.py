"""Only the project speaks in the repository."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home/\w+)/[\w.]")


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / line for line in listed.stdout.splitlines()]


def test_no_file_names_a_path_of_a_machine() -> None:
    found = []
    for path in tracked_files():
        if path == Path(__file__) or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in MACHINE_PATH.finditer(text)]
    assert found == []


def test_every_tox_environment_says_what_it_is_for() -> None:
    sections = re.split(r"^\[testenv", (ROOT / "tox.ini").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert sections
    assert [s.splitlines()[0] for s in sections if "description =" not in s] == []
