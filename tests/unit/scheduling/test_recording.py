"""The annotations of a Binding."""

from collections.abc import Mapping

import pytest

from hami_core_py.codecs.native import BIND_NODE, BIND_PHASE, RECORD
from hami_core_py.errors import BackendError, RecordError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import ContainerPlacement, PlacedPod, Placement
from hami_core_py.models.requests import ContainerKind, ContainerRequest, PodRequest
from hami_core_py.models.views import PodView
from hami_core_py.services.scheduling.recording import MOST_BYTES, check_annotations, check_complete, record_of
from hami_core_py.testing import builders
from hami_core_py.testing.plugins import make_plugin
from tests.unit.scheduling.books import ask_of


def placement() -> Placement:
    pairs = ((builders.device(), builders.share()),)
    return Placement(node="n1", containers=(ContainerPlacement(name="main", kind=ContainerKind.APP, pairs=pairs),))


def writing(text: Mapping[str, str], *declared: str) -> Ask:
    """A backend that adds annotations of its own."""

    def hami_write_record(placed: PlacedPod) -> Mapping[str, str]:
        return text

    return ask_of(make_plugin("acme", [builders.family()], hooks=[hami_write_record], annotations=declared))


def record(ask: Ask, pod: PodView | None = None) -> dict[str, str]:
    return record_of(pod or builders.pod(), placement(), ask, at_ns=1, ordered=frozenset())


def test_backend_adds_its_own_annotations_to_those_of_the_core() -> None:
    written = record(writing({"acme.example/ids": "0"}, "acme.example/ids"))

    assert {RECORD, BIND_NODE, BIND_PHASE, "acme.example/ids"} <= set(written)
    assert written["acme.example/ids"] == "0"


def test_backend_that_writes_a_key_it_did_not_declare_stops_the_bind() -> None:
    with pytest.raises(BackendError, match="not in BackendInfo"):
        record(writing({"other.example/key": "0"}))


def test_key_that_the_api_would_refuse_stops_the_bind() -> None:
    with pytest.raises(RecordError, match="valid annotation key"):
        record(writing({"no spaces": "0"}, "no spaces"))


def test_annotations_may_fill_the_limit_but_not_pass_it() -> None:
    pod = builders.pod(annotations={"a": "x" * (MOST_BYTES - 4)})
    check_annotations(pod, {"b": "yz"})

    with pytest.raises(RecordError, match="at most 262144 bytes"):
        check_annotations(pod, {"b": "xyz"})


def test_limit_counts_bytes_not_characters() -> None:
    with pytest.raises(RecordError):
        check_annotations(builders.pod(), {"b": "é" * (MOST_BYTES // 2)})


def test_placement_that_lacks_an_asked_device_is_not_recorded() -> None:
    asked = ContainerRequest(name="main", devices=(builders.request(count=2),))
    request = PodRequest(uid="u", namespace="default", name="train", containers=(asked,))

    with pytest.raises(RecordError, match="container 'main'"):
        check_complete(request, placement())
