from __future__ import annotations

from pathlib import Path

import pytest

from hami_core_py.lab.apiserver import StatusError, Store
from hami_core_py.lab.apiserver.journal import Journal

from .pods import binding, config, pod


def reopened(path: Path) -> tuple[Store, Journal]:
    store = Store()
    journal = Journal(path, store.objects)
    store.seed_defaults()
    return store, journal


def test_a_store_is_the_same_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "data" / "objects.jsonl"
    store, journal = reopened(path)
    store.create("pods", pod())
    store.bind("default", "train", binding())
    store.create("configmaps", config("gone"), "default")
    store.delete("configmaps", "gone", "default")
    before = store.get("pods", "train", "default")
    version = store.objects.version
    journal.close()

    again, second = reopened(path)
    assert again.get("pods", "train", "default") == before
    assert again.list("configmaps").items == []
    assert again.objects.version == version
    second.close()


def test_history_does_not_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "objects.jsonl"
    store, journal = reopened(path)
    first = store.create("configmaps", config("a"), "default")
    store.create("configmaps", config("b"), "default")
    journal.close()
    again, second = reopened(path)
    with pytest.raises(StatusError) as caught:
        again.watch("configmaps", resource_version=first["metadata"]["resourceVersion"])
    assert caught.value.code == 410
    assert again.watch("configmaps", resource_version=str(again.objects.version)).poll() == []
    second.close()


def test_a_line_cut_off_by_a_kill_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "objects.jsonl"
    store, journal = reopened(path)
    store.create("configmaps", config("kept"), "default")
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"resource": "configm')
    again, second = reopened(path)
    assert [one["metadata"]["name"] for one in again.list("configmaps").items] == ["kept"]
    second.close()


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "objects.jsonl"
    _, journal = reopened(path)
    journal.close()
    path.write_bytes(b"what?\n" + path.read_bytes())
    with pytest.raises(ValueError, match="line 1: expected one write as JSON"):
        reopened(path)
