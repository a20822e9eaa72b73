"""Checks of what a plugin says about itself."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from hami_core_py.errors import SettingsError
from hami_core_py.hooks import API, GROUP, specs
from hami_core_py.hooks.manager import LoadedBackend, load_backends
from hami_core_py.testing.checks.annotations import differences
from hami_core_py.testing.checks.scene import Scene

IMPORT = """
import importlib, sys
seen = []
sys.addaudithook(lambda event, arguments: seen.append((event, arguments[:1]))
    if event.startswith(("subprocess.", "socket.connect", "os.posix_spawn"))
    or (event == "ctypes.dlopen" and arguments[0]) else None)
importlib.import_module(sys.argv[1])
drivers = [name for name in sys.argv[2:] if name in sys.modules]
if seen or drivers:
    sys.exit(f"importing it did {seen} and imported {drivers}; move that into the node-side hooks")
"""


class IdentityChecks(Scene):
    """Who it is, and what may be seen of it before it is asked anything else."""

    def test_it_says_who_it_is(self) -> None:
        info = self.plugin.hami_backend()
        assert info.name
        assert info.api == API
        assert info == self.plugin.hami_backend()

    def test_its_name_is_its_entry_points(self, name: str) -> None:
        modules = [p.value for p in entry_points(group=GROUP) if p.name == name]
        assert modules == [self.plugin.__name__], f"install it: entry point {name!r} of group {GROUP!r} is {modules}"

    def test_its_hooks_are_annotated_as_the_specs_are(self, backend: LoadedBackend) -> None:
        for hook in backend.hooks:
            wrong = "; ".join(differences(getattr(specs, hook), getattr(self.plugin, hook)))
            assert not wrong, f"{hook}: {wrong}"

    def test_importing_it_touches_no_driver(self) -> None:
        child = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", IMPORT, self.plugin.__name__, *self.driver_modules],
            capture_output=True,
            text=True,
            check=False,
        )
        assert child.returncode == 0, child.stdout + child.stderr

    def test_its_settings_have_defaults_and_refuse_unknown_keys(self, name: str) -> None:
        info = self.plugin.hami_backend()
        if info.settings is None:
            pytest.skip("it has no settings")
        info.settings()
        section = {info.section or name: {**self.settings, "noSuchKey": 1}}
        with pytest.raises(SettingsError, match="noSuchKey"):
            load_backends(plugins=[(name, self.plugin)], sections=section)

    def test_variables_that_close_a_container_cannot_be_set_by_its_author(self) -> None:
        info = self.plugin.hami_backend()
        assert set(info.closing_env) <= set(info.reserved_env)

    def test_resources_have_a_domain_and_belong_to_one_family(self, backend: LoadedBackend) -> None:
        names = [name for family in backend.families for name in family.resources.names()]
        assert len(names) == len(set(names))
        assert all(name.count("/") == 1 and all(name.split("/")) for name in names)
