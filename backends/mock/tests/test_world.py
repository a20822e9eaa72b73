"""What the file of invented devices may say, and how it answers mistakes."""

from pathlib import Path

import pytest
from hami_backend_mock.world import read_world

from hami_core_py.errors import SettingsError
from hami_core_py.models.devices import Device, DeviceId, Health, Profile
from hami_core_py.models.families import V210, Group, Handshake, NodeLock

SHARED = Path(__file__).parent / "devices.yaml"


@pytest.fixture
def file(tmp_path: Path):
    path = tmp_path / "devices.yaml"

    def write(text: str) -> Path:
        path.write_text(text)
        return path

    return write


def test_without_a_file_there_is_nothing():
    world = read_world(None)
    assert (world.families, world.on("n1")) == ((), ())


def test_empty_file_says_nothing(file):
    assert read_world(file("")).on("n1") == ()


def test_node_has_the_devices_under_its_name():
    assert [(d.id, d.family, d.index, d.health) for d in read_world(SHARED).on("n1")] == [
        ("Mock-n1-0", "Mock", 0, Health.HEALTHY),
        ("Mock-n1-1", "Mock", 1, Health.HEALTHY),
        ("npu-2", "Boardy", 2, Health.UNHEALTHY),
    ]


def test_other_nodes_have_the_devices_of_all_with_ids_of_their_own():
    world = read_world(SHARED)
    assert [d.id for name in ("n2", "n3") for d in world.on(name)] == ["Mock-n2-0", "Mock-n3-0"]


def test_every_field_of_a_device_can_be_said(file):
    world = read_world(
        file(
            """
devices:
  - family: Any
    id: x
    index: 7
    model: M
    slots: 2
    memory_mib: 100
    core_units: 16
    numa: 1
    modes: [soft]
    groups: {board: b}
    links: {y: 5}
    facts: {minor: 3}
    cells: 8
    blocked_cells: 1
    profiles: [{name: half, memory_mib: 50, cells: 4, starts: [0, 4]}]
"""
        )
    )
    assert world.on("n") == (
        Device(
            id=DeviceId("x"),
            family="Any",
            index=7,
            model="M",
            slots=2,
            memory_mib=100,
            core_units=16,
            numa=1,
            modes=("soft",),
            groups={"board": "b"},
            links={DeviceId("y"): 5},
            facts={"minor": 3},
            cells=8,
            blocked_cells=1,
            profiles=(Profile(name="half", memory_mib=50, cells=4, starts=(0, 4)),),
        ),
    )


def test_invented_vendor_has_the_tables_it_is_given():
    _, boardy = read_world(SHARED).families
    assert boardy.lock == NodeLock(key="boardy.example/lock", expires_seconds=60)
    assert boardy.liveness == Handshake("boardy.example/handshake")
    assert boardy.placing.accounts == {"memory"}
    assert isinstance(boardy.v210, V210)


def test_inventory_tables_are_told_apart_by_their_keys(file):
    families = read_world(
        file(
            """
families:
  - name: A
    resources: {count: a.example/x}
    inventory: {role: count, infix: a, per_device: 2}
  - name: B
    resources: {count: b.example/x}
    inventory: {key: b.example/devices, form: text, groups: [{name: card, fact: AIC}]}
"""
        )
    ).families
    assert [type(f.inventory).__name__ for f in families] == ["CapacityDevices", "AnnotatedDevices"]
    assert families[1].inventory.groups == (Group(name="card", fact="AIC"),)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("devices: [", r":1: expected YAML"),
        ("- 1", r":1: the file: expected a mapping with families, devices, nodes, got list"),
        ("devices: []\ndevicez: []", r":2: devicez: expected one of families, devices, nodes"),
        ("\ndevices: 3", r":2: devices: expected a list, got int"),
        ("nodes: [a]", r":1: nodes: expected node names with their devices, got list"),
        ("devices:\n  - 3", r":2: devices\.0: expected a mapping, got int"),
        (
            "devices:\n  - family: A\n    memory: 3",
            r":3: devices\.0\.memory: expected a known key, .* did you mean 'memory_mib'",
        ),
        (
            "devices:\n  - {family: A, memory_mib: 1}\n  - family: A\n    memory_mib: lots",
            r":4: devices\.1\.memory_mib: expected a valid integer.*'lots'",
        ),
        ("devices:\n  - family: A\n    memory_mib: -5", r":3: devices\.0\.memory_mib: .* from 0, got -5"),
        ("devices:\n  - family: A\n    health: sick", r":3: devices\.0\.health: expected 'healthy' or 'unhealthy'"),
        ("devices:\n  - slots: 1", r":2: devices\.0\.family: expected a value, got nothing"),
        ("devices:\n  - family: A\n    count: 1.5", r":3: devices\.0\.count: expected a whole number from 0 to 1024"),
        (
            "nodes:\n  n1:\n    - {family: A, id: x}\n    - {family: A, id: x}",
            r":4: nodes\.n1\.1\.id: expected a different id",
        ),
        (
            "families:\n  - name: A\n    resources:\n      count: a/b\n      memery: a/c",
            r":5: families\.0\.resources\.memery: .* did you mean 'memory'",
        ),
        (
            "families:\n  - name: A\n    resources: {count: a/b}\n    lock: {kei: x}",
            r":4: families\.0\.lock\.kei: expected a known key.*did you mean 'key'",
        ),
        (
            "families:\n  - name: A\n    resources: {count: a/b}\n    profiles:\n      - {name: p, memory: 3}",
            r":5: families\.0\.profiles\.0\.memory: expected a known key.*'memory_mib'",
        ),
    ],
)
def test_mistake_is_answered_with_file_line_and_field(file, text, error):
    path = file(text)
    with pytest.raises(SettingsError, match=f"^{path}{error}"):
        read_world(path)


def test_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"nowhere\.yaml: expected a readable YAML file"):
        read_world(tmp_path / "nowhere.yaml")
