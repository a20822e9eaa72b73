"""Clusters made up for measuring."""

import json

import pytest

from hami_core_py.bench.generate import Size, as_list, generate
from hami_core_py.bench.shapes import shapes_of
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.requests import Policies
from hami_core_py.services.snapshot import Snapshot
from hami_core_py.services.tables import CoreDefaults
from hami_core_py.testing import builders
from hami_core_py.testing.plugins import make_plugin

SIZE = Size(nodes=5, devices=4, pods=30, seed=3)


def ask() -> Ask:
    return Ask(load_backends(plugins=[make_plugin("acme", [builders.family()])], defaults=CoreDefaults()))


def test_same_seed_makes_the_same_cluster_and_another_seed_another() -> None:
    family = ask().families[builders.FAMILY]

    assert generate(family, SIZE) == generate(family, SIZE)
    assert generate(family, SIZE) != generate(family, Size(nodes=5, devices=4, pods=30, seed=4))


def test_every_pod_is_counted_and_no_device_is_over_committed() -> None:
    found = ask()
    nodes, pods, _ = generate(found.families[builders.FAMILY], SIZE)

    snapshot = Snapshot(nodes, pods, found, policies=Policies())

    rows = snapshot.devices()
    assert (len(rows), len(snapshot.holdings())) == (20, 30)
    assert sum(used.slots for _, _, used in rows) == 30
    for _, device, used in rows:
        assert used.slots <= device.slots
        assert used.memory_mib <= device.memory_mib
        assert used.core_units <= device.core_units


def test_more_pods_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(ValueError, match="expected fewer pods"):
        generate(ask().families[builders.FAMILY], Size(nodes=1, devices=1, pods=100))


def test_lists_are_as_kubectl_prints_them() -> None:
    document = as_list([{"kind": "Node"}])

    assert (document["kind"], document["items"]) == ("List", [{"kind": "Node"}])


def test_shapes_ask_for_different_amounts_and_the_first_is_the_pod_itself() -> None:
    found = ask()
    pod = generate(found.families[builders.FAMILY], SIZE)[2]

    shapes = shapes_of(pod, found.families, 300)

    assert shapes[0] == pod
    asked = {json.dumps(shape["spec"]["containers"][0]["resources"]["limits"], sort_keys=True) for shape in shapes}
    assert len(asked) == 300
