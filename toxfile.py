"""Beside tox.ini: the checks that name one ``env_dir`` share the environment there.

By itself tox makes an environment anew when it goes by another name than the last time, and does not see what has changed in
a project that is installed editable. So what tox noted of the shared one loses its name once it is set up, and is dropped when
a project's requirements are newer: then it is installed once more.
"""

import json
import os
from pathlib import Path

from tox.plugin import impl
from tox.tox_env.api import ToxEnv

ROOT = Path(__file__).parent
SHARED = ROOT / ".tox" / "checks"
NOTES = SHARED / ".tox-info.json"
PROJECTS = (ROOT, ROOT / "backends" / "nvidia", ROOT / "backends" / "mock")


@impl
def tox_add_core_config() -> None:
    """Before any environment is looked at."""
    newest = max((project / "pyproject.toml").stat().st_mtime for project in PROJECTS)
    if NOTES.exists() and NOTES.stat().st_mtime < newest:
        NOTES.unlink()
    forget_name()


@impl
def tox_before_run_commands(tox_env: ToxEnv) -> None:
    """The environment is ready: the next check may take it over."""
    if tox_env.env_dir == SHARED:
        forget_name()


def forget_name() -> None:
    """Leave all that tox noted of the shared environment but for whom it was made."""
    if NOTES.exists():
        noted_at, notes = NOTES.stat(), json.loads(NOTES.read_text())
        notes.pop(ToxEnv.__name__, None)
        NOTES.write_text(json.dumps(notes, indent=2))
        os.utime(NOTES, ns=(noted_at.st_atime_ns, noted_at.st_mtime_ns))
