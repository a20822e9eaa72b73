"""Files that a backend's package brings for the host, such as a library that containers load.

They lie in a directory per backend and version. A file is never changed in place: running containers keep what they
started with, and an old version stays until somebody removes it.
"""

import importlib.resources
import logging
import re
from pathlib import Path

from hami_core_py.errors import BackendError
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.models.backends import HostFile
from hami_core_py.services.agent.files import put

log = logging.getLogger(__name__)


class HostFiles:
    """Installs the files of backends below the agent's state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._root = state_dir / "host"

    def directory(self, backend: LoadedBackend) -> Path | None:
        """Where a backend's files are; ``None``: it has none."""
        if not backend.info.host_files:
            return None
        version = backend.distribution.rpartition(" ")[2]
        return self._root / _word(backend.info.name) / _word(version)

    def install(self, backend: LoadedBackend) -> Path | None:
        """Put a backend's files in place; those that are right already are left alone.

        :returns: their directory; ``None``: it has none. :raises BackendError: a file is missing or cannot be written.
        """
        directory = self.directory(backend)
        if directory is None:
            return None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for file in backend.info.host_files:
                if put(directory / _word(file.name), _content(backend, file), mode=file.mode):
                    log.info("host file installed", extra={"backend": backend.info.name, "file": file.name})
        except OSError as problem:
            raise BackendError(backend.info.name, "", f"host file not installed: {problem}") from problem
        return directory


def _content(backend: LoadedBackend, file: HostFile) -> bytes:
    module = getattr(backend.plugin, "__package__", None) or getattr(backend.plugin, "__name__", "")
    source = Path(file.source)
    if source.is_absolute():
        return source.read_bytes()
    if not module:
        raise BackendError(backend.info.name, "", f"host file {file.name!r}: the plugin is in no package")
    return importlib.resources.files(module).joinpath(file.source).read_bytes()


def _word(text: str) -> str:
    word = re.sub(r"[^A-Za-z0-9._+-]", "_", text)
    return word if word.strip(".") else "_"
