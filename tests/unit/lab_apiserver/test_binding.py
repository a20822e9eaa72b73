from __future__ import annotations

from typing import Any

import pytest

from hami_core_py.lab.apiserver import Caller, StatusError, Store
from hami_core_py.lab.apiserver.patches import MERGE_PATCH

from .pods import binding, pod

LIMIT = 262_144


def read(store: Store) -> dict[str, Any]:
    return store.get("pods", "train", "default")


def test_a_binding_gives_node_annotations_and_condition_in_one_write(store: Store) -> None:
    created = store.create("pods", {**pod(), "metadata": {"name": "train", "annotations": {"a": "1", "b": "1"}}})
    watch = store.watch("pods", resource_version=created["metadata"]["resourceVersion"])
    store.bind("default", "train", binding(annotations={"b": "2", "c": "3"}))
    (event,) = watch.poll()
    assert event.type == "MODIFIED"
    assert event.object["spec"]["nodeName"] == "node-a"
    assert event.object["metadata"]["annotations"] == {"a": "1", "b": "2", "c": "3"}
    (condition,) = event.object["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert read(store) == event.object


def test_a_binding_ends_a_nomination_and_an_earlier_refusal(store: Store) -> None:
    store.create("pods", pod())
    refused = {"conditions": [{"type": "PodScheduled", "status": "False"}], "nominatedNodeName": "node-b"}
    store.patch("pods", "train", {"status": refused}, MERGE_PATCH, "default", subresource="status")
    store.bind("default", "train", binding())
    status = read(store)["status"]
    assert "nominatedNodeName" not in status
    assert [(one["type"], one["status"]) for one in status["conditions"]] == [("PodScheduled", "True")]


def test_a_binding_for_another_uid_conflicts_and_changes_nothing(store: Store) -> None:
    before = store.create("pods", pod())
    with pytest.raises(StatusError, match=r"pods/binding \"train\": .*UID in precondition: other") as caught:
        store.bind("default", "train", binding(uid="other", annotations={"a": "1"}))
    assert caught.value.code == 409
    assert read(store) == before
    store.bind("default", "train", binding(uid=before["metadata"]["uid"]))


def test_a_bound_pod_is_not_bound_again(store: Store) -> None:
    store.create("pods", pod())
    store.bind("default", "train", binding())
    with pytest.raises(StatusError, match='pod train is already assigned to node "node-a"') as caught:
        store.bind("default", "train", binding(node="node-b", annotations={"a": "1"}))
    assert (caught.value.code, caught.value.reason) == (409, "Conflict")
    assert "annotations" not in read(store)["metadata"]


def test_a_pod_being_deleted_is_not_bound(store: Store) -> None:
    store.create("pods", {**pod(), "metadata": {"name": "train", "finalizers": ["acme.example/wait"]}})
    store.delete("pods", "train", "default")
    with pytest.raises(StatusError, match="pod train is being deleted, cannot be assigned to a host") as caught:
        store.bind("default", "train", binding())
    assert caught.value.code == 409


def test_a_gated_pod_is_not_bound(store: Store) -> None:
    store.create("pods", pod(schedulingGates=[{"name": "acme.example/wait"}]))
    with pytest.raises(StatusError, match=r"non-empty \.spec\.schedulingGates"):
        store.bind("default", "train", binding())


def test_a_binding_walks_past_the_annotation_limit_and_status_then_fails(store: Store) -> None:
    store.create("pods", pod())
    store.bind("default", "train", binding(annotations={"k": "x" * LIMIT}))
    assert read(store)["spec"]["nodeName"] == "node-a"
    with pytest.raises(StatusError, match="Too long") as caught:
        store.patch("pods", "train", {"status": {"phase": "Running"}}, MERGE_PATCH, "default", subresource="status")
    assert caught.value.code == 422


def test_a_binding_without_a_node_is_invalid(store: Store) -> None:
    store.create("pods", pod())
    with pytest.raises(StatusError, match=r"target\.name: Required value"):
        store.bind("default", "train", {"metadata": {}, "target": {}})
    with pytest.raises(StatusError, match=r'target\.kind: Unsupported value: "Rack"'):
        store.bind("default", "train", {"target": {"kind": "Rack", "name": "r"}})


def test_a_binding_for_another_name_is_a_bad_request(store: Store) -> None:
    store.create("pods", pod())
    with pytest.raises(StatusError, match="name in URL does not match") as caught:
        store.bind("default", "train", binding("other"))
    assert caught.value.code == 400


def test_a_binding_for_nobody_is_not_found(store: Store) -> None:
    with pytest.raises(StatusError) as caught:
        store.bind("default", "ghost", binding("ghost"))
    assert caught.value.code == 404


def test_a_dry_binding_changes_nothing(store: Store) -> None:
    before = store.create("pods", pod())
    store.bind("default", "train", binding(), caller=Caller(dry_run=True))
    assert read(store) == before
