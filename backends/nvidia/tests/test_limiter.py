"""Where the library of this installation is."""

from pathlib import Path

import pytest
from hami_backend_nvidia import limiter, plugin

from hami_core_py.models.backends import HostFile


def test_library_that_is_named_is_what_the_agent_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    library = tmp_path / "libvgpu.so"
    library.write_bytes(b"\x7fELF")
    monkeypatch.setenv(limiter.VARIABLE, str(library))
    assert plugin.hami_backend().host_files == (HostFile(name="libvgpu.so", source=str(library)),)


def test_installation_without_a_library_installs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(limiter.VARIABLE, str(tmp_path / "absent"))
    assert plugin.hami_backend().host_files == ()
