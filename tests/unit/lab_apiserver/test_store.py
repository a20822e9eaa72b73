from __future__ import annotations

import threading
from typing import Any

import pytest

from hami_core_py.lab.apiserver import Call, Caller, StatusError, Store
from hami_core_py.lab.apiserver.patches import APPLY_PATCH, MERGE_PATCH
from hami_core_py.lab.apiserver.status import StaleError

from .conftest import Clock
from .pods import binding, config, pod


def types_and_names(events: list[Any]) -> list[tuple[str, str]]:
    return [(event.type, event.object["metadata"]["name"]) for event in events]


def test_a_created_object_gets_what_the_server_decides(store: Store) -> None:
    created = store.create("configmaps", config(a="1"), "default")
    metadata = created["metadata"]
    assert (created["kind"], created["apiVersion"], metadata["namespace"]) == ("ConfigMap", "v1", "default")
    assert metadata["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert metadata["uid"]
    assert int(metadata["resourceVersion"]) == store.objects.version
    assert store.get("configmaps", "cfg", "default") == created


def test_a_client_cannot_choose_uid_or_times(store: Store) -> None:
    metadata = {"name": "cfg", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "resourceVersion": "1"}
    created = store.create("configmaps", {"metadata": metadata}, "default")
    assert created["metadata"]["uid"] != "mine"
    assert created["metadata"]["creationTimestamp"] == "2027-01-15T08:00:00Z"


def test_a_taken_name_is_refused(store: Store) -> None:
    store.create("configmaps", config(), "default")
    with pytest.raises(StatusError, match='configmaps "cfg" already exists') as caught:
        store.create("configmaps", config(), "default")
    assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")


def test_a_missing_object_is_not_found(store: Store) -> None:
    with pytest.raises(StatusError, match=r'leases\.coordination\.k8s\.io "x" not found') as caught:
        store.get("leases", "x", "default")
    assert caught.value.code == 404


def test_a_missing_namespace_is_not_found(store: Store) -> None:
    with pytest.raises(StatusError, match='namespaces "nowhere" not found'):
        store.create("configmaps", config(), "nowhere")


def test_names_are_generated_and_differ(store: Store) -> None:
    names = {
        store.create("configmaps", {"metadata": {"generateName": "cfg-"}}, "default")["metadata"]["name"]
        for _ in range(20)
    }
    assert len(names) == 20
    assert all(name.startswith("cfg-") and len(name) == 9 for name in names)


def test_a_stale_update_conflicts(store: Store) -> None:
    first = store.create("configmaps", config(a="1"), "default")
    store.update("configmaps", {**first, "data": {"a": "2"}})
    with pytest.raises(StatusError, match="the object has been modified") as caught:
        store.update("configmaps", {**first, "data": {"a": "3"}})
    assert caught.value.code == 409
    assert store.get("configmaps", "cfg", "default")["data"] == {"a": "2"}


def test_an_update_for_another_uid_conflicts(store: Store) -> None:
    first = store.create("configmaps", config(a="1"), "default")
    first["metadata"] = {"name": "cfg", "namespace": "default", "uid": "other"}
    with pytest.raises(StatusError, match="UID in precondition: other") as caught:
        store.update("configmaps", first)
    assert caught.value.code == 409


def test_a_lease_is_never_updated_without_a_version(store: Store) -> None:
    store.create("leases", {"metadata": {"name": "lock"}}, "default")
    with pytest.raises(StatusError, match=r"metadata\.resourceVersion: Invalid value: 0: must be specified"):
        store.update("leases", {"metadata": {"name": "lock", "namespace": "default"}})


def test_an_update_that_changes_nothing_makes_no_version_and_no_event(store: Store) -> None:
    first = store.create("configmaps", config(a="1"), "default")
    watch = store.watch("configmaps", resource_version=first["metadata"]["resourceVersion"])
    assert store.update("configmaps", first) == first
    assert store.patch("configmaps", "cfg", {"data": {"a": "1"}}, MERGE_PATCH, "default") == first
    assert watch.poll() == []


def test_answers_are_private_copies(store: Store) -> None:
    created = store.create("configmaps", config(a="1"), "default")
    created["data"]["a"] = "changed"
    store.get("configmaps", "cfg", "default")["data"]["a"] = "changed"
    store.list("configmaps").items[0]["data"]["a"] = "changed"
    assert store.get("configmaps", "cfg", "default")["data"] == {"a": "1"}


def test_the_status_is_written_only_through_its_subresource(store: Store) -> None:
    store.create("pods", pod(), "default")
    current = store.get("pods", "train", "default")
    current["status"] = {"phase": "Running"}
    assert store.update("pods", current)["status"]["phase"] == "Pending"
    current = store.get("pods", "train", "default")
    current["status"] = {"phase": "Running"}
    current["spec"]["nodeName"] = "sneaky"
    current["metadata"]["annotations"] = {"walked": "around"}
    written = store.update("pods", current, subresource="status")
    assert written["status"] == {"phase": "Running"}
    assert "nodeName" not in written["spec"]
    assert written["metadata"]["annotations"] == {"walked": "around"}


def test_a_patch_that_names_a_version_conflicts_when_it_is_old(store: Store) -> None:
    first = store.create("configmaps", config(a="1"), "default")
    store.patch("configmaps", "cfg", {"data": {"a": "2"}}, MERGE_PATCH, "default")
    named = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"a": "3"}}
    with pytest.raises(StatusError) as caught:
        store.patch("configmaps", "cfg", named, MERGE_PATCH, "default")
    assert caught.value.code == 409


def test_patches_of_many_threads_are_all_kept(store: Store) -> None:
    store.create("configmaps", config(), "default")

    def write(worker: int) -> None:
        for i in range(50):
            while True:
                try:
                    store.patch("configmaps", "cfg", {"data": {f"{worker}-{i}": "x"}}, MERGE_PATCH, "default")
                    break
                except StaleError:
                    continue  # lost five races in a row

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.get("configmaps", "cfg", "default")["data"]) == 200


def test_apply_creates_what_is_missing_and_merges_what_is_there(store: Store) -> None:
    store.patch("configmaps", "cfg", {"data": {"a": "1"}}, APPLY_PATCH, "default")
    store.patch("configmaps", "cfg", {"data": {"b": "2"}}, APPLY_PATCH, "default")
    assert store.get("configmaps", "cfg", "default")["data"] == {"a": "1", "b": "2"}


def test_a_dry_run_answers_and_writes_nothing(store: Store) -> None:
    version = store.objects.version
    assert store.create("pods", pod(), "default", caller=Caller(dry_run=True))["spec"]["restartPolicy"] == "Always"
    assert store.objects.version == version
    store.create("pods", pod(), "default")
    with pytest.raises(StatusError, match="already exists"):
        store.create("pods", pod(), "default", caller=Caller(dry_run=True))


def test_lists_are_ordered_by_namespace_and_name(store: Store) -> None:
    store.create("namespaces", {"metadata": {"name": "a-team"}})
    for namespace, name in (("default", "b"), ("a-team", "z"), ("default", "a")):
        store.create("configmaps", config(name), namespace)
    page = store.list("configmaps")
    assert [one["metadata"]["name"] for one in page.items] == ["z", "a", "b"]
    assert [one["metadata"]["name"] for one in store.list("configmaps", "default").items] == ["a", "b"]
    assert page.version == store.objects.version


def test_pages_show_one_moment(store: Store) -> None:
    for i in range(5):
        store.create("configmaps", config(f"c{i}"), "default")
    first = store.list("configmaps", limit=2)
    assert first.remaining == 3
    store.delete("configmaps", "c3", "default")
    store.create("configmaps", config("c9"), "default")
    second = store.list("configmaps", limit=2, continue_token=first.continue_token)
    third = store.list("configmaps", limit=2, continue_token=second.continue_token)
    names = [one["metadata"]["name"] for page in (first, second, third) for one in page.items]
    assert names == ["c0", "c1", "c2", "c3", "c4"]
    assert first.version == second.version == third.version
    assert third.continue_token == ""


def test_compaction_expires_unfinished_lists(store: Store) -> None:
    for i in range(3):
        store.create("configmaps", config(f"c{i}"), "default")
    first = store.list("configmaps", limit=1)
    store.compact()
    with pytest.raises(StatusError, match="continue parameter is too old") as caught:
        store.list("configmaps", limit=1, continue_token=first.continue_token)
    assert (caught.value.code, caught.value.reason) == (410, "Expired")


def test_a_version_from_the_future_is_not_served(store: Store) -> None:
    with pytest.raises(StatusError, match="Too large resource version") as caught:
        store.list("pods", resource_version="99999")
    assert caught.value.code == 504
    with pytest.raises(StatusError, match="Too large resource version"):
        store.watch("pods", resource_version="99999")


def test_a_watch_tells_what_follows_its_version(store: Store) -> None:
    first = store.create("configmaps", config("a"), "default")
    watch = store.watch("configmaps", "default", resource_version=first["metadata"]["resourceVersion"])
    store.create("configmaps", config("b"), "default")
    store.patch("configmaps", "a", {"data": {"x": "1"}}, MERGE_PATCH, "default")
    store.delete("configmaps", "b", "default")
    assert types_and_names(watch.poll()) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert watch.poll() == []


def test_a_deletion_event_has_a_version_of_its_own(store: Store) -> None:
    created = store.create("configmaps", config("a"), "default")
    watch = store.watch("configmaps", resource_version=created["metadata"]["resourceVersion"])
    store.delete("configmaps", "a", "default")
    (event,) = watch.poll()
    assert int(event.object["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])


def test_a_watch_without_version_tells_what_exists_first(store: Store) -> None:
    store.create("configmaps", config("a"), "default")
    for version in ("", "0"):
        watch = store.watch("configmaps", resource_version=version)
        assert types_and_names(watch.poll()) == [("ADDED", "a")]


def test_a_watch_sees_objects_enter_and_leave_its_selector(store: Store) -> None:
    store.create("pods", pod(), "default")
    watch = store.watch("pods", fields="status.phase=Running", resource_version=str(store.objects.version))
    for phase in ("Running", "Running", "Failed"):
        store.patch(
            "pods", "train", {"status": {"phase": phase, "reason": phase}}, MERGE_PATCH, "default", subresource="status"
        )
        store.patch("pods", "train", {"metadata": {"labels": {"at": phase}}}, MERGE_PATCH, "default")
    assert [event.type for event in watch.poll()] == ["ADDED", "MODIFIED", "DELETED"]


def test_an_old_version_expires_when_history_is_full(clock: Clock) -> None:
    store = Store(clock=clock, history=10)
    store.seed_defaults()
    first = store.create("configmaps", config("a"), "default")
    for i in range(50):
        store.patch("configmaps", "a", {"data": {"i": str(i)}}, MERGE_PATCH, "default")
    with pytest.raises(StatusError, match="too old resource version") as caught:
        store.watch("configmaps", resource_version=first["metadata"]["resourceVersion"])
    assert caught.value.code == 410


def test_a_watch_that_polls_too_rarely_expires(clock: Clock) -> None:
    store = Store(clock=clock, history=10)
    store.seed_defaults()
    store.create("configmaps", config("a"), "default")
    watch = store.watch("configmaps", resource_version=str(store.objects.version))
    for i in range(50):
        store.patch("configmaps", "a", {"data": {"i": str(i)}}, MERGE_PATCH, "default")
    with pytest.raises(StatusError) as caught:
        watch.poll()
    assert caught.value.code == 410


def test_compaction_expires_old_versions_but_not_a_watch_that_is_current(store: Store) -> None:
    first = store.create("configmaps", config("a"), "default")["metadata"]["resourceVersion"]
    store.create("configmaps", config("b"), "default")
    current = store.watch("configmaps", resource_version=str(store.objects.version))
    behind = store.watch("configmaps", resource_version=first)
    store.compact()
    with pytest.raises(StatusError, match="too old"):
        store.watch("configmaps", resource_version=first)
    with pytest.raises(StatusError, match="too old"):
        behind.poll()
    store.create("configmaps", config("c"), "default")
    assert types_and_names(current.poll()) == [("ADDED", "c")]


def test_a_bookmark_tells_how_far_the_watch_has_come(store: Store) -> None:
    watch = store.watch("configmaps", resource_version=str(store.objects.version))
    store.create("pods", pod(), "default")
    watch.poll()
    bookmark = watch.bookmark()
    assert (bookmark.type, bookmark.object["kind"]) == ("BOOKMARK", "ConfigMap")
    assert bookmark.object["metadata"]["resourceVersion"] == str(store.objects.version)


def test_a_closed_watch_is_not_woken(store: Store) -> None:
    woken: list[int] = []
    watch = store.watch("configmaps", resource_version=str(store.objects.version), wake=lambda: woken.append(1))
    store.create("configmaps", config("a"), "default")
    watch.close()
    store.create("configmaps", config("b"), "default")
    assert woken == [1]


def test_the_spec_counts_generations_and_metadata_does_not(store: Store) -> None:
    store.create("deployments", {"metadata": {"name": "d"}, "spec": {"replicas": 1}}, "default")
    store.patch("deployments", "d", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH, "default")
    assert store.get("deployments", "d", "default")["metadata"]["generation"] == 1
    store.patch("deployments", "d", {"spec": {"replicas": 2}}, MERGE_PATCH, "default")
    assert store.get("deployments", "d", "default")["metadata"]["generation"] == 2


def test_one_event_is_read_in_both_shapes(store: Store) -> None:
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "train"},
        "note": "placed",
        "reportingController": "lab",
        "deprecatedCount": 2,
    }
    store.create("events.events.k8s.io", event, "default")
    core = store.get("events", "e", "default")
    assert (core["apiVersion"], core["message"], core["count"]) == ("v1", "placed", 2)
    assert store.list("events", fields="involvedObject.name=train").items == [core]
    (new,) = store.list("events.events.k8s.io", fields="regarding.name=train").items
    assert (new["apiVersion"], new["note"]) == ("events.k8s.io/v1", "placed")
    watch = store.watch("events.events.k8s.io")
    assert [one.object for one in watch.poll()] == [new]


def test_faults_are_consulted_before_each_request(store: Store) -> None:
    seen: list[Call] = []

    def before(call: Call) -> None:
        seen.append(call)
        if call.verb == "patch":
            raise StatusError(503, "ServiceUnavailable", "away")

    store.create("pods", pod(), "default")
    store.before = before
    store.get("pods", "train", "default", caller=Caller(user="me"))
    with pytest.raises(StatusError, match="away"):
        store.patch("pods", "train", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH, "default")
    assert [(call.verb, call.resource.plural, call.name, call.user) for call in seen] == [
        ("get", "pods", "train", "me"),
        ("patch", "pods", "train", "lab-admin"),
    ]
    store.before = None
    assert "labels" not in store.get("pods", "train", "default")["metadata"]


def test_a_hidden_answer_leaves_the_request_carried_out(store: Store) -> None:
    def hide(call: Call) -> None:
        raise TimeoutError(f"no answer to {call.verb}")

    store.create("pods", pod(), "default")
    store.after = hide
    with pytest.raises(TimeoutError, match="no answer to create"):
        store.bind("default", "train", binding())
    store.after = None
    assert store.get("pods", "train", "default")["spec"]["nodeName"] == "node-a"


def test_a_seed_makes_uids_repeatable(clock: Clock) -> None:
    def uid() -> str:
        store = Store(clock=clock, seed=3)
        store.seed_defaults()
        return str(store.create("pods", pod(), "default")["metadata"]["uid"])

    assert uid() == uid()


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        ({"kind": "Secret", "metadata": {"name": "x"}}, "cannot be handled as a ConfigMap"),
        ({"apiVersion": "v2", "metadata": {"name": "x"}}, "does not match the expected API version"),
        ({"metadata": {"name": "x", "namespace": "kube-system"}}, "namespace of the provided object does not match"),
        ({"metadata": {"name": "x", "annotations": {"a": 1}}}, "expected a string"),
        ({"metadata": "x"}, "unrecognized"),
    ],
)
def test_an_object_that_contradicts_its_path_is_a_bad_request(store: Store, obj: dict[str, Any], words: str) -> None:
    with pytest.raises(StatusError, match=words) as caught:
        store.create("configmaps", obj, "default")
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({}, r"metadata\.name: Required value"),
        ({"name": "Train"}, r'metadata\.name: Invalid value: "Train": a lowercase RFC 1123 subdomain'),
        ({"name": "x", "labels": {"a": "b c"}}, r"metadata\.labels: Invalid value"),
        ({"name": "x", "labels": {"a/b/c": ""}}, r"metadata\.labels: Invalid value"),
        ({"name": "x", "annotations": {"-a": ""}}, r"metadata\.annotations: Invalid value"),
    ],
)
def test_bad_metadata_is_told_by_field(store: Store, metadata: dict[str, Any], field: str) -> None:
    with pytest.raises(StatusError, match=field) as caught:
        store.create("configmaps", {"metadata": metadata}, "default")
    assert caught.value.code == 422


def test_the_body_of_a_refusal_names_every_cause(store: Store) -> None:
    with pytest.raises(StatusError) as caught:
        store.create("pods", {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "A"}]}}, "default")
    body = caught.value.body()
    assert (body["kind"], body["status"], body["reason"], body["code"]) == ("Status", "Failure", "Invalid", 422)
    assert body["details"]["kind"] == "Pod"
    assert [cause["field"] for cause in body["details"]["causes"]] == [
        "spec.containers[0].name",
        "spec.containers[0].image",
    ]
    assert body["message"].startswith('Pod "x" is invalid: [spec.containers[0].name: Invalid value')
