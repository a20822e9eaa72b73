"""Resolving CDI names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami_core_py.lab.kubelet.cdi import UnresolvableDevices, resolve


def write(directory: Path, file: str, *devices: dict[str, Any], **more: Any) -> None:
    spec = {"cdiVersion": "0.6.0", "kind": "acme.example/npu", "devices": list(devices)} | more
    (directory / file).write_text(json.dumps(spec))


def device(name: str, *env: str) -> dict[str, Any]:
    return {"name": name, "containerEdits": {"env": list(env)}}


def test_specs_own_edits_come_once_before_those_of_its_devices(tmp_path: Path) -> None:
    common = {"env": ["A=spec", "B=spec"], "mounts": [{"hostPath": "/h", "containerPath": "/c"}]}
    write(tmp_path, "one.json", device("0", "A=zero"), device("1", "C=one"), containerEdits=common)
    edits = resolve(tmp_path, ["acme.example/npu=0", "acme.example/npu=1"])
    assert dict(edits.env) == {"A": "zero", "B": "spec", "C": "one"}
    assert edits.mounts == [{"hostPath": "/h", "containerPath": "/c"}]


def test_no_names_need_no_directory(tmp_path: Path) -> None:
    assert dict(resolve(tmp_path / "absent", []).env) == {}


def test_all_unresolvable_names_are_told(tmp_path: Path) -> None:
    write(tmp_path, "one.json", device("0"))
    names = ["acme.example/npu=0", "acme.example/npu=7", "other.example/npu=0"]
    with pytest.raises(UnresolvableDevices, match=r"acme\.example/npu=7, other\.example/npu=0$"):
        resolve(tmp_path, names)


def test_name_that_two_specs_define_is_unresolvable(tmp_path: Path) -> None:
    write(tmp_path, "one.json", device("0", "A=1"))
    write(tmp_path, "two.json", device("0", "A=2"))
    with pytest.raises(UnresolvableDevices):
        resolve(tmp_path, ["acme.example/npu=0"])


@pytest.mark.parametrize("broken", ["{", "[]", '{"kind": "acme.example/npu"}', '{"cdiVersion": "0.6.0", "kind": 3}'])
def test_broken_spec_stops_no_other_one(tmp_path: Path, broken: str) -> None:
    (tmp_path / "a.json").write_text(broken)
    write(tmp_path, "b.json", device("0", "A=1"))
    assert dict(resolve(tmp_path, ["acme.example/npu=0"]).env) == {"A": "1"}


def test_file_that_is_still_being_written_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, ".one.json.tmp", device("0"))
    with pytest.raises(UnresolvableDevices):
        resolve(tmp_path, ["acme.example/npu=0"])


def test_yaml_specs_are_read_too(tmp_path: Path) -> None:
    text = "cdiVersion: 0.6.0\nkind: acme.example/npu\ndevices: [{name: '0', containerEdits: {env: [A=1]}}]\n"
    (tmp_path / "one.yaml").write_text(text)
    assert dict(resolve(tmp_path, ["acme.example/npu=0"]).env) == {"A": "1"}
