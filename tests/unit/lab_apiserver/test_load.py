from __future__ import annotations

import json
from pathlib import Path

import pytest

from hami_core_py.lab.apiserver import StatusError, Store
from hami_core_py.lab.apiserver.listfile import objects_in

POD = {
    "metadata": {"name": "train", "namespace": "default", "uid": "u-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {"nodeName": "node-a", "containers": [{"name": "main", "image": "x"}]},
    "status": {"phase": "Running"},
}


def saved(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_saved_objects_keep_uid_node_and_status(store: Store, tmp_path: Path) -> None:
    path = saved(tmp_path / "pods.json", {"kind": "PodList", "apiVersion": "v1", "items": [POD]})
    assert store.load(objects_in(path)) == 1
    loaded = store.get("pods", "train", "default")
    assert (loaded["metadata"]["uid"], loaded["spec"]["nodeName"], loaded["status"]) == ("u-1", "node-a", POD["status"])
    assert loaded["kind"] == "Pod"


def test_a_mixed_list_and_a_single_object_are_read(store: Store, tmp_path: Path) -> None:
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "node-a"}}
    mixed = saved(
        tmp_path / "all.json",
        {"kind": "List", "apiVersion": "v1", "items": [node, {**POD, "kind": "Pod", "apiVersion": "v1"}]},
    )
    assert store.load(objects_in(mixed)) == 2
    assert store.load(objects_in(saved(tmp_path / "one.json", {**node, "metadata": {"name": "node-b"}}))) == 1
    assert store.get("nodes", "node-b")["metadata"]["uid"]


def test_what_is_not_served_is_named(store: Store, tmp_path: Path) -> None:
    path = saved(tmp_path / "x.json", {"kind": "Wheel", "apiVersion": "v1", "metadata": {"name": "w"}})
    with pytest.raises(ValueError, match=r"object 1 \(w\): expected a kind served here, got 'Wheel' of 'v1'"):
        store.load(objects_in(path))


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_file_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"bad\.json: expected"):
        list(objects_in(path))


def test_a_taken_name_is_refused(store: Store) -> None:
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "node-a"}}
    with pytest.raises(StatusError, match="already exists"):
        store.load([node, node])
