"""CDI specs: what we write, and what a vendor's specs add to it."""

import json

import pytest

from hami_core_py.codecs.cdi import CdiError, cdi_kind, class_word, name_of, parse_spec, render_spec, vendor_edits
from hami_core_py.models.allocations import Grant, Mount

VENDOR = b"""
cdiVersion: 0.7.0
kind: acme.example/npu
containerEdits:
  env: [ACME_DRIVER=1]
  hooks: [{hookName: createContainer, path: /usr/bin/acme-hook}]
devices:
- name: npu-0
  containerEdits: {deviceNodes: [{path: /dev/acme0}]}
- name: npu-1
  containerEdits: {deviceNodes: [{path: /dev/acme1}], env: [ACME_DEVICES=all]}
"""


def edits(text):
    return json.loads(text)["devices"][0]["containerEdits"]


def test_grant_becomes_edits():
    grant = Grant(
        env={"B": "2", "A": "1=x"},
        mounts=(
            Mount(host_path="/h", container_path="/c"),
            Mount(host_path="/w", container_path="/v", read_only=False),
        ),
        device_paths=("/dev/acme0",),
    )
    document = json.loads(render_spec("hami.io/acme", "n1", grant))
    assert (document["cdiVersion"], document["kind"], document["devices"][0]["name"]) == ("0.6.0", "hami.io/acme", "n1")
    found = document["devices"][0]["containerEdits"]
    assert found["env"] == ["A=1=x", "B=2"]
    assert found["deviceNodes"] == [{"path": "/dev/acme0"}]
    assert [(m["containerPath"], m["options"][0]) for m in found["mounts"]] == [("/c", "ro"), ("/v", "rw")]


def test_vendors_edits_come_first_and_ours_win():
    spec = parse_spec(VENDOR, "acme.yaml", is_yaml=True)
    version, more = vendor_edits(["acme.example/npu=npu-1", "acme.example/npu=npu-0"], [("acme.yaml", spec)])
    text = render_spec("hami.io/acme", "n", Grant(env={"ACME_DEVICES": "npu-1"}), vendor=more, vendor_version=version)
    assert json.loads(text)["cdiVersion"] == "0.7.0"
    assert edits(text)["env"] == ["ACME_DRIVER=1", "ACME_DEVICES=npu-1"]
    assert edits(text)["deviceNodes"] == [{"path": "/dev/acme1"}, {"path": "/dev/acme0"}]
    assert len(edits(text)["hooks"]) == 1


def test_name_in_no_spec_is_an_error_that_names_it():
    spec = parse_spec(VENDOR, "acme.yaml", is_yaml=True)
    with pytest.raises(CdiError, match=r"acme\.example/npu=npu-7"):
        vendor_edits(["acme.example/npu=npu-7"], [("acme.yaml", spec)])


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"kind": "a/b", "devices": [{}]}', b"{"])
def test_text_that_is_no_spec_is_an_error(text):
    with pytest.raises(CdiError):
        parse_spec(text, "x.json", is_yaml=False)


def test_family_names_become_valid_classes():
    assert [class_word(name) for name in ("Acme", "Ascend 910B3", "910", "a/../b")] == [
        "Acme",
        "Ascend-910B3",
        "f-910",
        "a----b",
    ]
    assert cdi_kind("Acme") == "hami.io/Acme"


def test_name_of_another_kind_is_none_of_ours():
    assert name_of("hami.io/acme=n1", "hami.io/acme") == "n1"
    assert name_of("hami.io/acme=", "hami.io/acme") is None
    assert name_of("other.io/acme=n1", "hami.io/acme") is None
