from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_core_py.lab.apiserver import StatusError
from hami_core_py.lab.apiserver.protobuf import decode_protobuf


def varint(value: int) -> bytes:
    value %= 2**64
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(key: str, value: bytes | str) -> bytes:
    return field(1, key) + field(2, value)


def body(api_version: str, kind: str, content: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, content)


def test_a_namespace_is_read_with_its_labels() -> None:
    metadata = field(1, "team") + field(5, "") + field(7, 0) + field(8, b"") + field(11, entry("a", "b"))
    sent = body("v1", "Namespace", field(1, metadata) + field(2, b"") + field(3, field(1, "")))
    expected = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"a": "b"}}}
    assert decode_protobuf(sent) == expected


def test_numbers_flags_and_quantities_are_read() -> None:
    sent = body("scheduling.k8s.io/v1", "PriorityClass", field(1, field(1, "low")) + field(2, -5) + field(3, 1))
    assert decode_protobuf(sent)["value"] == -5
    assert decode_protobuf(sent)["globalDefault"] is True
    quota = field(1, field(1, "q")) + field(2, field(1, entry("pods", field(1, "3"))))
    assert decode_protobuf(body("v1", "ResourceQuota", quota))["spec"] == {"hard": {"pods": "3"}}


def test_a_secrets_data_is_base64_as_in_json() -> None:
    sent = body("v1", "Secret", field(1, field(1, "s")) + field(2, entry("k", b"\x00\xff")))
    assert decode_protobuf(sent)["data"] == {"k": "AP8="}


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (body("apps/v1", "Deployment", b""), "Deployment in protobuf is not understood here; send JSON"),
        (body("v1", "Namespace", field(1, field(99, "x"))), "field 99 of ObjectMeta"),
    ],
)
def test_what_is_not_known_is_said_by_name(sent: bytes, words: str) -> None:
    with pytest.raises(StatusError, match=words) as caught:
        decode_protobuf(sent)
    assert caught.value.code == 415


@given(st.binary(max_size=60), st.booleans())
def test_any_other_bytes_are_a_bad_request(noise: bytes, has_magic: bool) -> None:
    try:
        decode_protobuf((b"k8s\x00" if has_magic else b"") + noise)
    except StatusError as error:
        assert error.code in (400, 415)  # noqa: PT017 - most noise is refused, and some of it is an empty object
