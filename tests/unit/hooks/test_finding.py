"""Installed plugins are found, ordered, skipped and left out as promised; real distributions on a path of their own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hami_core_py.errors import BackendError, SettingsError
from hami_core_py.hooks import API
from hami_core_py.hooks.manager import load_backends

IDENTITY = """
from hami_core_py.hooks import hookimpl
from hami_core_py.models.backends import BackendInfo
from hami_core_py.models.families import Family, Resources

@hookimpl
def hami_backend():
    return BackendInfo(name={name!r}, api={api})
"""
RESOURCE = """
@hookimpl
def hami_families():
    return (Family(name={family!r}, resources=Resources(count={count!r})),)
"""


class Site:
    """A directory with installed distributions."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def install(self, name: str, text: str = "", *, distribution: str = "", api: int = API, alone: bool = False) -> str:
        """A distribution whose plugin says who it is and has this text; ``alone``: nothing but the text."""
        distribution = distribution or f"hami-backend-{name}"
        module = f"{distribution.replace('-', '_')}_{name.replace('-', '_')}"
        (self.path / f"{module}.py").write_text(text if alone else IDENTITY.format(name=name, api=api) + text)
        info = self.path / f"{distribution.replace('-', '_')}-1.5.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[hami]\n{name} = {module}\n")
        return module


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Only what a test installs here is found as a plugin."""
    from importlib.metadata import MetadataPathFinder

    found = MetadataPathFinder.find_distributions
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(
        MetadataPathFinder,
        "find_distributions",
        lambda *arguments, **options: [
            d for d in found(*arguments, **options) if Path(str(d.locate_file(""))) == tmp_path
        ],
    )
    before = set(sys.modules)
    yield Site(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]


def names(**options: object) -> list[str]:
    return [b.info.name for b in load_backends(**options).loaded]  # type: ignore[arg-type]


def test_plugins_come_in_alphabetical_order_whatever_the_order_of_installation(site: Site) -> None:
    for name in ("pear", "apple", "fig"):
        site.install(name)
    assert names() == ["apple", "fig", "pear"]


def test_version_and_hooks_of_a_plugin_are_known(site: Site) -> None:
    site.install("acme", RESOURCE.format(family="Acme", count="acme.example/npu"))
    (acme,) = load_backends().loaded
    assert (acme.distribution, acme.hooks) == ("hami-backend-acme 1.5", ("hami_backend", "hami_families"))
    assert [(f.name, f.backend) for f in acme.families] == [("Acme", "acme")]


def test_blocked_plugin_is_not_imported(site: Site) -> None:
    module = site.install("acme")
    assert load_backends(blocked=["acme"]).left_out == {"acme": "blocked"}
    assert module not in sys.modules


def test_plugin_that_is_not_enabled_is_not_imported(site: Site) -> None:
    site.install("apple")
    module = site.install("pear")
    backends = load_backends(enabled=["apple"])
    assert [b.info.name for b in backends.loaded] == ["apple"]
    assert backends.left_out == {"pear": "not enabled"}
    assert module not in sys.modules


def test_enabled_plugin_that_is_not_installed_is_an_error(site: Site) -> None:
    with pytest.raises(BackendError, match="enabled but not installed; install hami-backend-acme"):
        load_backends(enabled=["acme"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("raise OSError('libacme.so: cannot open')", "OSError: libacme.so: cannot open"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def hami_backend(:", "SyntaxError"),
    ],
)
def test_plugin_whose_import_fails_is_left_out_and_others_stay(site: Site, text: str, why: str) -> None:
    site.install("bad", text, alone=True)
    site.install("good")
    backends = load_backends()
    assert [b.info.name for b in backends.loaded] == ["good"]
    assert why in backends.left_out["bad"]


def test_plugin_whose_import_hangs_is_left_out_and_others_stay(site: Site) -> None:
    site.install("hung", "import threading; threading.Event().wait()", alone=True)
    site.install("sane")
    backends = load_backends(import_seconds=2.0)
    assert [b.info.name for b in backends.loaded] == ["sane"]
    assert "hangs: not done after 2 s" in backends.left_out["hung"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@hookimpl\ndef hami_discover_device(): pass", "hami_discover_device"),
        ("@hookimpl\ndef hami_discover_devices(setings): pass", "setings"),
        ("def hami_discover_devices(settings): pass", "is not marked; write @hookimpl above it"),
        ("@hookimpl\ndef hami_families(): raise KeyError('x')", "hami_families: KeyError: 'x'"),
        ("@hookimpl\ndef hami_families(): return ('npu',)", "expected Family values, got str"),
    ],
)
def test_plugin_that_breaks_the_contract_is_left_out_with_a_sentence(site: Site, text: str, why: str) -> None:
    site.install("bad", text)
    site.install("good")
    backends = load_backends()
    assert [b.info.name for b in backends.loaded] == ["good"]
    assert why in backends.left_out["bad"]


@pytest.mark.parametrize(("api", "side"), [(API - 1, "the backend"), (API + 1, "hami")])
def test_plugin_of_another_contract_is_left_out_and_told_which_side_to_upgrade(site: Site, api: int, side: str) -> None:
    site.install("acme", api=api)
    assert load_backends().left_out["acme"].endswith(f"this core serves {API}; upgrade {side}")


def test_plugin_that_calls_itself_otherwise_is_left_out(site: Site) -> None:
    site.install("acme", IDENTITY.format(name="emca", api=API), alone=True)
    assert "calls itself 'emca'" in load_backends().left_out["acme"]


def test_plugin_without_identity_is_left_out(site: Site) -> None:
    site.install("acme", "X = 1", alone=True)
    assert "every plugin says who it is" in load_backends().left_out["acme"]


def test_two_distributions_of_one_name_are_an_error_that_names_both(site: Site) -> None:
    site.install("acme")
    site.install("acme", distribution="acme-of-strangers")
    with pytest.raises(BackendError, match=r"acme-of-strangers 1\.5 and hami-backend-acme 1\.5"):
        load_backends()


def test_two_owners_of_a_resource_are_an_error_that_names_both_and_their_versions(site: Site) -> None:
    site.install("apple", RESOURCE.format(family="Apple", count="fruit.example/one"))
    site.install("pear", RESOURCE.format(family="Pear", count="fruit.example/one"))
    with pytest.raises(BackendError) as raised:
        load_backends()
    text = str(raised.value)
    assert "resource 'fruit.example/one' is claimed by apple (hami-backend-apple 1.5) and pear" in text
    assert "(hami-backend-pear 1.5)" in text


def test_two_owners_of_a_family_are_an_error(site: Site) -> None:
    site.install("apple", RESOURCE.format(family="Fruit", count="fruit.example/one"))
    site.install("pear", RESOURCE.format(family="Fruit", count="fruit.example/two"))
    with pytest.raises(BackendError, match="family 'Fruit' is claimed by apple"):
        load_backends()


SETTINGS = """
from hami_core_py.hooks import BackendSettings

class Settings(BackendSettings):
    resource_name: str = "acme.example/npu"
    slots: int = 4

@hookimpl
def hami_backend():
    return BackendInfo(name="acme", api=1, settings=Settings)

@hookimpl
def hami_families(settings):
    return (Family(name="Acme", resources=Resources(count=settings.resource_name)),)
"""
IMPORTS = IDENTITY.partition("@hookimpl")[0]


def test_settings_reach_the_families(site: Site) -> None:
    site.install("acme", IMPORTS + SETTINGS, alone=True)
    backends = load_backends(sections={"acme": {"resourceName": "acme.example/tpu"}})
    assert [f.resources.count for f in backends.families.values()] == ["acme.example/tpu"]
    assert backends.loaded[0].settings.slots == 4


def test_unknown_key_of_a_section_is_refused_with_a_suggestion(site: Site) -> None:
    site.install("acme", IMPORTS + SETTINGS, alone=True)
    with pytest.raises(SettingsError, match=r"acme\.resourceNam: .* did you mean 'resourceName'\?"):
        load_backends(sections={"acme": {"resourceNam": "x"}})


def test_wrong_value_of_a_section_is_refused_with_its_place(site: Site) -> None:
    site.install("acme", IMPORTS + SETTINGS, alone=True)
    with pytest.raises(SettingsError, match=r"acme\.slots: .*got 'many'"):
        load_backends(sections={"acme": {"slots": "many"}})


def test_misspelt_section_is_refused_with_a_suggestion(site: Site) -> None:
    site.install("acme", IMPORTS + SETTINGS, alone=True)
    with pytest.raises(SettingsError, match="did you mean 'acme'"):
        load_backends(sections={"acmee": {}})


def test_section_of_a_backend_that_is_not_here_is_no_error(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.install("acme", IMPORTS + SETTINGS, alone=True)
    load_backends(sections={"quasar": {"x": 1}})
    assert [r.section for r in caplog.records] == ["quasar"]  # type: ignore[attr-defined]
