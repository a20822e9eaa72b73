"""The kubelet's checkpoint file."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core_py.lab.kubelet import checkpoint
from hami_core_py.lab.kubelet.checkpoint import Entry

ENTRY = Entry("uid-1", "main", "acme.example/npu", {-1: ("a",), 0: ("b", "c")}, b"\x01\xff")


def test_file_has_the_shape_that_plugins_read(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, [ENTRY], {"acme.example/npu": {"c", "a", "b"}})
    document = json.loads((tmp_path / "kubelet_internal_checkpoint").read_text())
    assert document["Data"] == {
        "PodDeviceEntries": [
            {
                "PodUID": "uid-1",
                "ContainerName": "main",
                "ResourceName": "acme.example/npu",
                "DeviceIDs": {"-1": ["a"], "0": ["b", "c"]},
                "AllocResp": base64.b64encode(b"\x01\xff").decode(),
            }
        ],
        "RegisteredDevices": {"acme.example/npu": ["a", "b", "c"]},
    }
    assert isinstance(document["Checksum"], int)
    assert [path.name for path in tmp_path.iterdir()] == ["kubelet_internal_checkpoint"]


def test_no_entries_are_null_as_in_go(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, [], {})
    assert json.loads((tmp_path / checkpoint.NAME).read_text())["Data"]["PodDeviceEntries"] is None
    found = checkpoint.read(tmp_path)
    assert found is not None
    assert list(found.entries) == []


def test_missing_file_is_no_checkpoint(tmp_path: Path) -> None:
    assert checkpoint.read(tmp_path) is None


def test_changed_or_broken_file_is_not_believed(tmp_path: Path) -> None:
    checkpoint.write(tmp_path, [ENTRY], {})
    path = tmp_path / checkpoint.NAME
    path.write_text(path.read_text().replace("uid-1", "uid-2"))
    assert checkpoint.read(tmp_path) is None
    path.write_text('{"Data": ')
    assert checkpoint.read(tmp_path) is None


@given(
    st.lists(
        st.builds(
            Entry,
            st.text(max_size=5),
            st.text(max_size=5),
            st.text(max_size=5),
            st.dictionaries(st.integers(-1, 3), st.lists(st.text(max_size=3), max_size=3).map(tuple), max_size=2),
            st.binary(max_size=8),
        ),
        max_size=3,
    )
)
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, entries: list[Entry]) -> None:
    directory = tmp_path_factory.mktemp("checkpoint")
    checkpoint.write(directory, entries, {"r": {"x"}})
    found = checkpoint.read(directory)
    assert found is not None
    assert (list(found.entries), dict(found.registered)) == (entries, {"r": ("x",)})
