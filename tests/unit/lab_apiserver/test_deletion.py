from __future__ import annotations

import pytest

from hami_core_py.lab.apiserver import Caller, Preconditions, StatusError, Store
from hami_core_py.lab.apiserver.patches import JSON_PATCH, MERGE_PATCH

from .conftest import Clock
from .pods import binding, config, pod


def bound(store: Store, name: str = "train") -> None:
    store.create("pods", pod(name))
    store.bind("default", name, binding(name))


def names(store: Store, resource: str) -> list[str]:
    return [one["metadata"]["name"] for one in store.list(resource).items]


def test_an_unbound_pod_is_gone_at_once(store: Store) -> None:
    store.create("pods", pod())
    watch = store.watch("pods", resource_version=str(store.objects.version))
    _, gone = store.delete("pods", "train", "default")
    assert gone
    assert names(store, "pods") == []
    marked, last = watch.poll()
    assert [marked.type, last.type] == ["MODIFIED", "DELETED"]
    assert marked.object["metadata"]["deletionTimestamp"] == last.object["metadata"]["deletionTimestamp"]


def test_a_bound_pod_is_marked_until_its_kubelet_ends_it(store: Store, clock: Clock) -> None:
    bound(store)
    marked, gone = store.delete("pods", "train", "default")
    assert not gone
    assert marked["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:30Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    clock.now += 60
    assert names(store, "pods") == ["train"]
    _, gone = store.delete("pods", "train", "default", grace_seconds=0)
    assert gone
    assert names(store, "pods") == []


def test_the_pods_own_grace_counts_and_can_only_be_shortened(store: Store) -> None:
    store.create("pods", pod(terminationGracePeriodSeconds=5))
    store.bind("default", "train", binding())
    assert store.delete("pods", "train", "default")[0]["metadata"]["deletionGracePeriodSeconds"] == 5
    assert store.delete("pods", "train", "default", grace_seconds=60)[0]["metadata"]["deletionGracePeriodSeconds"] == 5
    assert store.delete("pods", "train", "default", grace_seconds=1)[0]["metadata"]["deletionGracePeriodSeconds"] == 1


def test_a_finished_pod_is_gone_at_once(store: Store) -> None:
    bound(store)
    store.patch("pods", "train", {"status": {"phase": "Succeeded"}}, MERGE_PATCH, "default", subresource="status")
    assert store.delete("pods", "train", "default")[1]


def test_a_marked_pod_can_still_report_its_status(store: Store) -> None:
    bound(store)
    store.delete("pods", "train", "default")
    failed = {"status": {"phase": "Failed"}}
    written = store.patch("pods", "train", failed, MERGE_PATCH, "default", subresource="status")
    assert written["metadata"]["deletionTimestamp"]
    assert names(store, "pods") == ["train"]


def test_finalizers_hold_an_object_until_the_last_is_removed(store: Store) -> None:
    store.create(
        "configmaps", {"metadata": {"name": "cfg", "finalizers": ["acme.example/a", "acme.example/b"]}}, "default"
    )
    _, gone = store.delete("configmaps", "cfg", "default")
    assert not gone
    remove_first = [{"op": "remove", "path": "/metadata/finalizers/0"}]
    store.patch("configmaps", "cfg", remove_first, JSON_PATCH, "default")
    assert names(store, "configmaps") == ["cfg"]
    watch = store.watch("configmaps", resource_version=str(store.objects.version))
    store.patch("configmaps", "cfg", remove_first, JSON_PATCH, "default")
    assert names(store, "configmaps") == []
    assert [event.type for event in watch.poll()] == ["DELETED"]


def test_a_second_deletion_of_a_held_object_changes_nothing(store: Store) -> None:
    store.create("configmaps", {"metadata": {"name": "cfg", "finalizers": ["acme.example/a"]}}, "default")
    first, _ = store.delete("configmaps", "cfg", "default")
    assert store.delete("configmaps", "cfg", "default") == (first, False)


def test_preconditions_protect_a_successor_of_the_same_name(store: Store) -> None:
    first = store.create("pods", pod())
    store.delete("pods", "train", "default")
    store.create("pods", pod())
    with pytest.raises(StatusError, match="UID in precondition") as caught:
        store.delete("pods", "train", "default", preconditions=Preconditions(uid=first["metadata"]["uid"]))
    assert caught.value.code == 409
    stale = Preconditions(resource_version=first["metadata"]["resourceVersion"])
    with pytest.raises(StatusError, match="ResourceVersion in precondition"):
        store.delete("pods", "train", "default", preconditions=stale)
    assert names(store, "pods") == ["train"]


def test_a_dry_deletion_deletes_nothing(store: Store) -> None:
    store.create("pods", pod())
    store.delete("pods", "train", "default", caller=Caller(dry_run=True))
    assert names(store, "pods") == ["train"]


def test_an_eviction_deletes_the_pod(store: Store) -> None:
    bound(store)
    store.evict("default", "train", {"metadata": {"name": "train"}, "deleteOptions": {"gracePeriodSeconds": 3}})
    assert store.get("pods", "train", "default")["metadata"]["deletionGracePeriodSeconds"] == 3


def test_what_an_owner_alone_owned_goes_with_it(store: Store) -> None:
    owner = store.create("configmaps", config("owner"), "default")
    other = store.create("configmaps", config("other"), "default")

    def owned(name: str, *owners: dict[str, dict[str, str]]) -> None:
        references = [{"uid": one["metadata"]["uid"], "kind": "ConfigMap"} for one in owners]
        store.create("configmaps", {"metadata": {"name": name, "ownerReferences": references}}, "default")

    owned("child", owner)
    owned("shared", owner, other)
    grandchild = store.get("configmaps", "child", "default")
    owned("grandchild", grandchild)
    store.delete("configmaps", "owner", "default")
    assert names(store, "configmaps") == ["other", "shared"]


def test_orphans_stay(store: Store) -> None:
    owner = store.create("configmaps", config("owner"), "default")
    references = [{"uid": owner["metadata"]["uid"]}]
    store.create("configmaps", {"metadata": {"name": "child", "ownerReferences": references}}, "default")
    store.delete("configmaps", "owner", "default", orphan=True)
    assert names(store, "configmaps") == ["child"]


def test_a_namespace_goes_when_the_last_object_in_it_has_gone(store: Store) -> None:
    store.create("namespaces", {"metadata": {"name": "team"}})
    store.create("configmaps", config(), "team")
    store.create("pods", pod(), "team")
    store.bind("team", "train", binding())
    last, gone = store.delete("namespaces", "team")
    assert (gone, last["status"]["phase"]) == (False, "Terminating")
    assert names(store, "configmaps") == []
    with pytest.raises(StatusError, match="is being terminated") as caught:
        store.create("configmaps", config("late"), "team")
    assert caught.value.code == 403
    store.delete("pods", "train", "team", grace_seconds=0)
    assert "team" not in names(store, "namespaces")


def test_an_empty_namespace_is_gone_at_once(store: Store) -> None:
    store.create("namespaces", {"metadata": {"name": "team"}})
    assert store.delete("namespaces", "team")[1]
    assert "team" not in names(store, "namespaces")


def test_a_namespace_is_labelled_with_its_name(store: Store) -> None:
    labels = store.get("namespaces", "default")["metadata"]["labels"]
    assert labels == {"kubernetes.io/metadata.name": "default"}
