"""The server as the `kubernetes` client sees it, over real HTTP."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest
from kubernetes import client, watch

from hami_core_py.lab.apiserver import ApiServer

Watch: Any = watch.Watch  # untyped in its own package
POD: dict[str, Any] = {
    "metadata": {"name": "train", "labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "resources": {"limits": {"acme.example/gpu": "1", "acme.example/mem": "4000"}},
            }
        ]
    },
}


def config(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def test_objects_are_created_read_listed_and_deleted(core: Any) -> None:
    created = core.create_namespaced_pod("default", POD)
    assert created.status.phase == "Pending"
    assert created.spec.containers[0].resources.requests == {"acme.example/gpu": "1", "acme.example/mem": "4k"}
    assert core.read_namespaced_pod("train", "default").metadata.uid == created.metadata.uid
    listed = core.list_pod_for_all_namespaces(label_selector="app=web", field_selector="spec.nodeName=")
    assert [one.metadata.name for one in listed.items] == ["train"]
    assert int(listed.metadata.resource_version) >= int(created.metadata.resource_version)
    core.delete_namespaced_pod("train", "default")
    with pytest.raises(client.ApiException) as caught:
        core.read_namespaced_pod("train", "default")
    assert (caught.value.status, caught.value.reason) == (404, "Not Found")


def test_a_stale_update_conflicts(core: Any) -> None:
    created = core.create_namespaced_config_map("default", config("a", x="1"))
    created.data = {"x": "2"}
    core.replace_namespaced_config_map("a", "default", created)
    with pytest.raises(client.ApiException) as caught:
        core.replace_namespaced_config_map("a", "default", created)
    assert caught.value.status == 409
    assert '"reason":"Conflict"' in str(caught.value.body)


def test_all_kinds_of_patch_are_understood(core: Any, api_client: Any) -> None:
    core.create_namespaced_pod("default", POD)

    def patch(body: Any, content_type: str) -> Any:
        return core.patch_namespaced_pod("train", "default", body, _content_type=content_type)

    pod = patch([{"op": "add", "path": "/metadata/labels/a", "value": "1"}], "application/json-patch+json")
    assert pod.metadata.labels == {"app": "web", "a": "1"}
    pod = patch({"metadata": {"labels": {"a": None}}}, "application/merge-patch+json")
    assert pod.metadata.labels == {"app": "web"}
    containers = [{"name": "main", "image": "other"}]
    pod = patch({"spec": {"containers": containers}}, "application/strategic-merge-patch+json")
    assert (pod.spec.containers[0].image, pod.spec.containers[0].resources.limits["acme.example/gpu"]) == ("other", "1")


def test_a_binding_with_annotations_and_uid_binds_in_one_write(core: Any) -> None:
    created = core.create_namespaced_pod("default", POD)

    def binding(uid: str) -> dict[str, Any]:
        metadata = {"name": "train", "uid": uid, "annotations": {"hami.io/device-allocated": "[]"}}
        return {"metadata": metadata, "target": {"kind": "Node", "name": "node-a"}}

    with pytest.raises(client.ApiException) as caught:
        core.create_namespaced_pod_binding("train", "default", binding("other"), _preload_content=False)
    assert caught.value.status == 409
    core.create_namespaced_pod_binding("train", "default", binding(created.metadata.uid), _preload_content=False)
    bound = core.read_namespaced_pod("train", "default")
    assert bound.spec.node_name == "node-a"
    assert bound.metadata.annotations == {"hami.io/device-allocated": "[]"}
    with pytest.raises(client.ApiException) as caught:
        core.create_namespaced_binding("default", binding(created.metadata.uid), _preload_content=False)
    assert "already assigned to node" in str(caught.value.body)


def test_a_bound_pod_is_deleted_with_grace_and_its_kubelet_ends_it(core: Any) -> None:
    core.create_namespaced_pod("default", POD)
    core.create_namespaced_pod_binding("train", "default", {"target": {"name": "node-a"}}, _preload_content=False)
    assert core.delete_namespaced_pod("train", "default").metadata.deletion_timestamp is not None
    core.patch_namespaced_pod_status("train", "default", {"status": {"phase": "Failed"}})
    core.delete_namespaced_pod("train", "default", grace_period_seconds=0)
    assert core.list_namespaced_pod("default").items == []


def test_an_eviction_ends_a_pod(core: Any) -> None:
    core.create_namespaced_pod("default", POD)
    core.create_namespaced_pod_eviction("train", "default", client.V1Eviction(metadata={"name": "train"}))
    assert core.list_namespaced_pod("default").items == []


def test_a_watch_resumes_where_a_list_ended(core: Any) -> None:
    core.create_namespaced_config_map("default", config("before"))
    version = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map("default", config("after"))
    core.delete_namespaced_config_map("before", "default")
    stream = Watch().stream(core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=5)
    seen = [(event["type"], event["object"].metadata.name) for event in islice(stream, 2)]
    assert seen == [("ADDED", "after"), ("DELETED", "before")]


def test_a_watch_delivers_what_is_written_while_it_is_open(core: Any, server: ApiServer) -> None:
    version = str(server.store.objects.version)
    follower = Watch()
    stream = follower.stream(core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=30)
    writer = threading.Thread(target=lambda: core.create_namespaced_pod("default", POD))
    writer.start()
    event = next(iter(stream))
    follower.stop()
    writer.join()
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "train")


def test_an_expired_version_is_gone(core: Any, server: ApiServer) -> None:
    version = core.list_namespaced_pod("default").metadata.resource_version
    core.create_namespaced_pod("default", POD)
    server.store.compact()
    with pytest.raises(client.ApiException) as caught:
        list(Watch().stream(core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=5))
    assert caught.value.status == 410


def test_an_open_watch_can_be_expired(core: Any, server: ApiServer) -> None:
    core.create_namespaced_pod("default", POD)
    stream = iter(Watch().stream(core.list_namespaced_pod, "default", resource_version="0", timeout_seconds=30))
    assert next(stream)["type"] == "ADDED"
    assert server.end_watches(is_expired=True) == 1
    with pytest.raises(client.ApiException) as caught:
        next(stream)
    assert caught.value.status == 410


def test_bookmarks_tell_an_idle_watch_how_far_it_is(core: Any, server: ApiServer) -> None:
    version = str(server.store.objects.version)
    core.create_namespaced_config_map("default", config("elsewhere"))
    stream = Watch().stream(
        core.list_namespaced_pod, "default", resource_version=version, timeout_seconds=10, allow_watch_bookmarks=True
    )
    bookmark = next(iter(stream))
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["raw_object"]["metadata"]["resourceVersion"]) >= server.store.objects.version - 1


def test_pages_follow_one_another(core: Any) -> None:
    for name in "abc":
        core.create_namespaced_config_map("default", config(name))
    first = core.list_namespaced_config_map("default", limit=2)
    assert first.metadata.remaining_item_count == 1
    second = core.list_namespaced_config_map("default", limit=2, _continue=first.metadata._continue)
    assert [one.metadata.name for one in [*first.items, *second.items]] == ["a", "b", "c"]


def test_leases_events_and_namespaces_work(api_client: Any, core: Any) -> None:
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name="team")))
    leases: Any = client.CoordinationV1Api(api_client)
    lease = client.V1Lease(metadata=client.V1ObjectMeta(name="lock"), spec=client.V1LeaseSpec(holder_identity="a"))
    held = leases.create_namespaced_lease("team", lease)
    held.spec.holder_identity = "b"
    assert leases.replace_namespaced_lease("lock", "team", held).spec.holder_identity == "b"
    about = client.V1ObjectReference(kind="Pod", name="train", namespace="team")
    event = client.CoreV1Event(
        metadata=client.V1ObjectMeta(generate_name="train."),
        involved_object=about,
        event_time=datetime.now(UTC),
        message="hello",
    )
    core.create_namespaced_event("team", event)
    newer: Any = client.EventsV1Api(api_client).list_namespaced_event("team", field_selector="regarding.name=train")
    assert [one.note for one in newer.items] == ["hello"]
    core.delete_namespace("team")
    assert "team" not in [one.metadata.name for one in core.list_namespace().items]


def test_rights_are_asked_and_granted(api_client: Any) -> None:
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec())
    authorization: Any = client.AuthorizationV1Api(api_client)
    answer = authorization.create_self_subject_access_review(review)
    assert answer.status.allowed is True
