"""The kubelet's checkpoint, as a kubelet writes it and as it must not be misread."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core_py.codecs.checkpoint import CheckpointEntry, CheckpointError, parse_checkpoint, render_checkpoint

WRITTEN = {
    "Data": {
        "PodDeviceEntries": [
            {
                "PodUID": "u1",
                "ContainerName": "main",
                "ResourceName": "acme.example/npu",
                "DeviceIDs": {"0": ["npu-0::1"], "1": ["npu-1::0"]},
                "AllocResp": "CgQKAmE9",
            }
        ],
        "RegisteredDevices": {"acme.example/npu": ["npu-0::0"]},
    },
    "Checksum": 1494443240,
}


def test_ids_near_different_numa_nodes_belong_together():
    (entry,) = parse_checkpoint(json.dumps(WRITTEN).encode(), "checkpoint")
    assert entry == CheckpointEntry(
        pod_uid="u1",
        container="main",
        resource="acme.example/npu",
        ids=frozenset({"npu-0::1", "npu-1::0"}),
        answer=b"\n\x04\n\x02a=",
    )


def test_kubelet_without_devices_has_no_entries():
    assert parse_checkpoint(b'{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":0}', "x") == ()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        (b"", "checkpoint"),
        (b"[]", "checkpoint"),
        (b'{"Data":{}}', "checkpoint"),
        (b'{"Data":{"PodDeviceEntries":{}}}', "PodDeviceEntries"),
        (b'{"Data":{"PodDeviceEntries":[1]}}', "entry 0"),
        (json.dumps(WRITTEN).replace('"u1"', "1").encode(), "PodUID"),
        (json.dumps(WRITTEN).replace('{"0": ["npu-0::1"], "1": ["npu-1::0"]}', '["npu-0::1"]').encode(), "DeviceIDs"),
        (json.dumps(WRITTEN).replace('["npu-0::1"]', "[1]").encode(), "DeviceIDs"),
        (json.dumps(WRITTEN).replace("CgQKAmE9", "?").encode(), "AllocResp"),
    ],
)
def test_another_shape_is_an_error_that_says_where(text, where):
    with pytest.raises(CheckpointError, match=where):
        parse_checkpoint(text, "checkpoint")


@given(
    st.lists(
        st.builds(
            CheckpointEntry,
            pod_uid=st.text(max_size=8),
            container=st.text(max_size=8),
            resource=st.text(max_size=8),
            ids=st.frozensets(st.text(max_size=8), max_size=3),
            answer=st.binary(max_size=16),
        ),
        max_size=3,
    )
)
def test_what_is_written_is_read_again(entries):
    assert parse_checkpoint(render_checkpoint(tuple(entries)), "x") == tuple(entries)
