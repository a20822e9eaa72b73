"""The mock in a core of its own: on behalf of others, of itself, and while a person edits its file."""

import threading
from pathlib import Path

import pytest
from hami_backend_mock import health, plugin

from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.allocations import HealthChange
from hami_core_py.models.devices import Health
from hami_core_py.testing.builders import allocation, device, family, share
from hami_core_py.testing.plugins import make_plugin

FILE = """
devices:
  - {family: Acme, memory_mib: 8192}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "devices.yaml"
    path.write_text(FILE)
    return path


def core(file: Path, *others, **settings) -> Ask:
    sections = {"mock": {"devicesFile": str(file), "nodeName": "n1", "pollSeconds": 0.01, **settings}}
    return Ask(load_backends(plugins=[("mock", plugin), *others], sections=sections))


def mock_of(asked: Ask):
    return next(b for b in asked.backends.loaded if b.info.name == "mock")


def test_devices_of_an_installed_backend_are_offered_on_its_behalf(file):
    asked = core(file, make_plugin("acme", [family()]))
    assert [(d.id, d.family) for d in asked.discover_devices(mock_of(asked))] == [("Acme-n1-0", "Acme")]
    assert asked.owner("Acme").info.name == "acme"


def test_file_and_node_come_from_the_environment_where_the_section_is_silent(file, monkeypatch):
    monkeypatch.setenv("HAMI_MOCK_DEVICES", str(file))
    monkeypatch.setenv("NODE_NAME", "from-the-cluster")
    asked = Ask(load_backends(plugins=[("mock", plugin)]))
    assert [d.id for d in asked.discover_devices(mock_of(asked))] == ["Acme-from-the-cluster-0"]
    monkeypatch.setenv("HAMI_NODE_NAME", "n9")
    assert [d.id for d in asked.discover_devices(mock_of(asked))] == ["Acme-n9-0"]


def test_edited_file_is_read_anew(file):
    asked = core(file)
    asked.discover_devices(mock_of(asked))
    file.write_text(FILE + "  - {family: Acme, memory_mib: 1}\n")
    assert [d.memory_mib for d in asked.discover_devices(mock_of(asked))] == [8192, 1]


def test_health_toggled_in_the_file_is_told_both_ways(file, monkeypatch):
    monkeypatch.setattr(health, "_seen", {})
    asked = core(file)
    (npu,) = asked.discover_devices(mock_of(asked))
    assert asked.check_health(mock_of(asked), [npu]) == ()

    file.write_text(FILE.replace("8192", "8192, health: unhealthy"))
    sick = HealthChange(device=npu.id, healthy=False, detail=f"as {file} says")
    assert asked.check_health(mock_of(asked), [npu]) == (sick,)

    file.write_text(FILE)
    well = HealthChange(device=npu.id, healthy=True, detail=f"as {file} says")
    lying_ill = device(npu.id, family="Acme", health=Health.UNHEALTHY)
    assert asked.check_health(mock_of(asked), [lying_ill]) == (well,)


def test_health_check_waits_for_an_edit(file, monkeypatch):
    monkeypatch.setattr(health, "_seen", {})
    asked = core(file)
    (npu,) = asked.discover_devices(mock_of(asked))
    asked.check_health(mock_of(asked), [npu])
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(asked.check_health(mock_of(asked), [npu])))
    waiting.start()
    edited = file.with_suffix(".new")
    edited.write_text(FILE.replace("8192", "8192, health: unhealthy"))
    edited.replace(file)
    waiting.join()
    assert [change.healthy for change in answers[0]] == [False]


def test_invented_device_is_granted_by_variables_of_its_family():
    grant = plugin.hami_allocate(
        allocation(
            (device("a", family="Foo-1"), share(memory_mib=5, core_units=6)),
            (device("b", family="Foo-1"), share(memory_mib=7, core_units=8, profile="half")),
        )
    )
    assert grant.env == {
        "MOCK_VISIBLE_DEVICES": "a,b",
        "FOO_1_VISIBLE_DEVICES": "a,b",
        "FOO_1_MEMORY_LIMIT_MIB_0": "5",
        "FOO_1_CORE_LIMIT_0": "6",
        "FOO_1_MEMORY_LIMIT_MIB_1": "7",
        "FOO_1_CORE_LIMIT_1": "8",
        "FOO_1_PROFILE_1": "half",
    }


def test_invented_use_is_half_of_the_share():
    (sample,) = plugin.hami_collect_metrics([allocation((device("a"), share(memory_mib=4)), container="main")])
    assert sample.value == 2 * 2**20
    assert sample.labels == {"namespace": "default", "pod": "train", "container": "main", "device_uuid": "a"}
