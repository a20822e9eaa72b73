"""``hami backends chart`` writes a backend down as the Helm chart wants it."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from click.testing import CliRunner

from hami_core_py.commands.backends import command
from hami_core_py.commands.definitions import definition, values_file
from hami_core_py.errors import BackendError
from hami_core_py.hooks import BackendSettings, hookimpl
from hami_core_py.hooks.manager import LoadedBackend, load_backends
from hami_core_py.models.backends import BackendInfo
from hami_core_py.models.families import SHARED_LOCK, V210, AnnotatedDevices, Family, Handshake, Resources

PACKAGE = "hami_backend_gadget_for_tests"
PLUGIN = """
from {here} import GadgetSettings, families
from hami_core_py.hooks import hookimpl
from hami_core_py.models.allocations import Grant
from hami_core_py.models.backends import BackendInfo

@hookimpl
def hami_backend():
    plan = ("gadget.example/plan",)
    return BackendInfo(name="gadget", vendor="Gadget", settings=GadgetSettings, section="gadgets", annotations=plan)

@hookimpl
def hami_families(settings):
    return families(settings)

@hookimpl
def hami_discover_devices():
    return ()

@hookimpl
def hami_allocate():
    return Grant()
"""


class GadgetModel(BackendSettings):
    word: str = ""
    resource_name: str = ""


class GadgetSettings(BackendSettings):
    memory_name: str = "gadget.example/memory"
    hidden: frozenset[str] = frozenset({"b", "a"})
    configs: tuple[GadgetModel, ...] = (
        GadgetModel(word="one", resource_name="gadget.example/one"),
        GadgetModel(word="two", resource_name="gadget.example/two"),
    )


def families(settings: GadgetSettings) -> Sequence[Family]:
    return tuple(
        Family(
            name=one.word,
            resources=Resources(
                count=one.resource_name, memory=None if i else settings.memory_name, core=f"fixed/{one.word}"
            ),
            v210=V210(allocated=f"hami.io/{one.word}-devices-allocated", to_allocate=f"hami.io/{one.word}-to-allocate"),
            inventory=AnnotatedDevices(key=f"hami.io/node-{one.word}", links_key="gadget.example/links"),
            liveness=Handshake(f"hami.io/handshake-{one.word}"),
            lock=SHARED_LOCK,
        )
        for i, one in enumerate(settings.configs)
    )


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A backend's installed package, without what its authors may add for the chart."""
    folder = tmp_path / PACKAGE
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.setitem(sys.modules, "definitions_of_gadget", _here())
    (folder / "plugin.py").write_text(PLUGIN.format(here="definitions_of_gadget"))
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.startswith(PACKAGE)]:
        del sys.modules[name]


def _here() -> ModuleType:
    module = ModuleType("definitions_of_gadget")
    module.__dict__.update(GadgetSettings=GadgetSettings, families=families)
    return module


def gadget(_package: Path) -> LoadedBackend:
    from importlib import import_module

    plugin = import_module(f"{PACKAGE}.plugin")
    [backend] = load_backends(plugins=[("gadget", plugin)]).loaded
    return backend


def test_resources_are_named_by_the_settings_that_hold_them(package: Path) -> None:
    assert definition(gadget(package))["managed"] == [
        {"role": "count", "setting": "configs[].resourceName"},
        {"role": "memory", "setting": "memoryName"},
        {"role": "core", "name": "fixed/one"},
        {"role": "core", "name": "fixed/two"},
    ]


def test_settings_are_the_defaults_in_the_spelling_of_the_configuration(package: Path) -> None:
    found = definition(gadget(package))["settings"]
    assert found["memoryName"] == "gadget.example/memory"
    assert found["hidden"] == ["a", "b"]
    assert found["configs"][1] == {"word": "two", "resourceName": "gadget.example/two"}


def test_guarded_annotations_are_those_of_all_families(package: Path) -> None:
    found = definition(gadget(package))["bookkeeping"]
    assert found["pods"] == [
        *("gadget.example/plan", "hami.io/one-devices-allocated", "hami.io/one-to-allocate"),
        *("hami.io/two-devices-allocated", "hami.io/two-to-allocate"),
    ]
    assert found["nodes"] == [
        *("gadget.example/links", "hami.io/handshake-one", "hami.io/handshake-two", "hami.io/mutex.lock"),
        *("hami.io/node-gadget-inventory", "hami.io/node-one", "hami.io/node-two"),
    ]


def test_backend_that_discovers_and_allocates_has_an_agent_without_a_monitor(package: Path) -> None:
    assert definition(gadget(package))["agent"] == {"monitor": False}


def test_backend_of_tables_alone_has_no_agent() -> None:
    class Tables:
        @hookimpl
        def hami_backend(self) -> BackendInfo:
            return BackendInfo(name="tables")

        @hookimpl
        def hami_families(self) -> Sequence[Family]:
            return (Family(name="Tables", resources=Resources(count="tables.example/one")),)

    [backend] = load_backends(plugins=[("tables", Tables())]).loaded
    assert "agent" not in definition(backend)
    assert definition(backend)["managed"] == [{"role": "count", "name": "tables.example/one"}]


def test_authors_say_how_their_agent_runs(package: Path) -> None:
    (package / "chart.yaml").write_text(
        "agent: {nodeSelector: {gadget: 'yes'}}\naliases: {old: [settings.memoryName]}\n"
    )
    found = definition(gadget(package))
    assert found["agent"] == {"monitor": False, "nodeSelector": {"gadget": "yes"}}
    assert found["aliases"] == {"old": ["settings.memoryName"]}


def test_authors_can_say_that_there_is_no_agent(package: Path) -> None:
    (package / "chart.yaml").write_text("agent: null\n")
    assert "agent" not in definition(gadget(package))


@pytest.mark.parametrize("text", ["agnt: {}\n", "- a\n", "a: [\n"])
def test_wrong_file_of_the_authors_is_named(package: Path, text: str) -> None:
    (package / "chart.yaml").write_text(text)
    with pytest.raises(BackendError, match=r"chart\.yaml"):
        definition(gadget(package))


def test_written_text_is_a_values_file(package: Path) -> None:
    backend = gadget(package)
    assert yaml.safe_load(values_file(backend)) == {"backends": {"definitions": {"gadget": definition(backend)}}}


def test_command_prints_an_installed_backend() -> None:
    result = CliRunner().invoke(command, ["chart", "mock"])
    assert result.exit_code == 0
    assert set(yaml.safe_load(result.stdout)["backends"]["definitions"]) == {"mock"}


def test_command_names_the_known_backends_for_one_that_is_not_installed() -> None:
    result = CliRunner().invoke(command, ["chart", "gizmo"])
    assert result.exit_code == 2
    assert "got 'gizmo'; known: " in result.stderr
