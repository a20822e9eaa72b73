from __future__ import annotations

from typing import Any

import pytest

from hami_core_py.lab.apiserver import StatusError, Store
from hami_core_py.lab.apiserver.patches import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

from .pods import pod

LIMIT = 262_144


def test_a_pod_gets_the_defaults_that_users_see(store: Store) -> None:
    spec = store.create("pods", pod(), "default")["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["restartPolicy"] == "Always"
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["serviceAccountName"] == "default"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [one["key"] for one in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("host:5000/busybox", "Always"),
        ("host:5000/busybox:1", "IfNotPresent"),
        ("busybox@sha256:00", "IfNotPresent"),
    ],
)
def test_an_image_without_a_fixed_tag_is_always_pulled(store: Store, image: str, policy: str) -> None:
    created = store.create("pods", {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": image}]}})
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_requests_follow_limits_and_amounts_become_canonical(store: Store) -> None:
    created = store.create("pods", pod(limits={"acme.example/gpu": 1, "acme.example/mem": "4000", "cpu": "0.5"}))
    amounts = {"acme.example/gpu": "1", "acme.example/mem": "4k", "cpu": "500m"}
    assert created["spec"]["containers"][0]["resources"] == {"limits": amounts, "requests": amounts}


def test_a_request_that_is_given_stays(store: Store) -> None:
    wanted = pod()
    wanted["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}
    assert store.create("pods", wanted)["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


def test_a_new_pod_is_pending_whatever_status_it_brings(store: Store) -> None:
    created = store.create("pods", {**pod(), "status": {"phase": "Running"}})
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"limits": {"acme.example/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_the_quality_class_follows_cpu_and_memory(store: Store, resources: dict[str, Any], quality: str) -> None:
    wanted = pod()
    wanted["spec"]["containers"][0]["resources"] = resources
    assert store.create("pods", wanted)["status"]["qosClass"] == quality


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        (
            {"limits": {"acme.example/gpu": "1500m"}},
            r"spec\.containers\[0\]\.resources\.limits\[acme\.example/gpu\]: Invalid value: \"1500m\": must be an integer",
        ),
        (
            {"limits": {"acme.example/gpu": "1"}, "requests": {"acme.example/gpu": "2"}},
            r"resources\.requests: Invalid value: \"2\": must be equal to acme\.example/gpu limit of 1",
        ),
        ({"requests": {"acme.example/gpu": "1"}}, "Limit must be set for non overcommitable resources"),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}, "must be less than or equal to cpu limit of 1"),
        ({"limits": {"acme.example/gpu": "-1"}}, "must be greater than or equal to 0"),
        ({"limits": {"gpu": "1"}}, "must be a standard resource type or fully qualified"),
    ],
)
def test_bad_amounts_are_refused_in_the_servers_words(store: Store, resources: dict[str, Any], words: str) -> None:
    wanted = pod()
    wanted["spec"]["containers"][0]["resources"] = resources
    with pytest.raises(StatusError, match=words) as caught:
        store.create("pods", wanted)
    assert caught.value.code == 422


@pytest.mark.parametrize("amount", ["12GiB", "", True, None, {"a": 1}])
def test_what_is_no_quantity_is_a_bad_request(store: Store, amount: Any) -> None:
    with pytest.raises(StatusError) as caught:
        store.create("pods", pod(limits={"acme.example/gpu": amount}))
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"containers": []}, r"spec\.containers: Required value"),
        ({"containers": [{"name": "a", "image": "x"}] * 2}, r'spec\.containers\[1\]\.name: Duplicate value: "a"'),
        ({"containers": [{"name": "a"}]}, r"spec\.containers\[0\]\.image: Required value"),
        ({"restartPolicy": "Sometimes"}, r'spec\.restartPolicy: Unsupported value: "Sometimes"'),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, r'spec\.volumes\[1\]\.name: Duplicate value: "v"'),
    ],
)
def test_a_malformed_spec_is_refused(store: Store, change: dict[str, Any], words: str) -> None:
    wanted = pod()
    wanted["spec"].update(change)
    with pytest.raises(StatusError, match=words):
        store.create("pods", wanted)


def test_the_priority_comes_from_the_class(store: Store) -> None:
    store.create("priorityclasses", {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    spec = store.create("pods", pod(priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    with pytest.raises(StatusError, match="no PriorityClass with name nope was found") as caught:
        store.create("pods", pod("other", priorityClassName="nope"))
    assert caught.value.code == 403


def test_a_global_default_class_gives_its_priority(store: Store) -> None:
    store.create("priorityclasses", {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    spec = store.create("pods", pod())["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)


def test_an_unknown_runtime_class_is_refused(store: Store) -> None:
    with pytest.raises(StatusError, match='RuntimeClass "fast" not found'):
        store.create("pods", pod(runtimeClassName="fast"))
    store.create("runtimeclasses", {"metadata": {"name": "fast"}, "handler": "fast"})
    assert store.create("pods", pod(runtimeClassName="fast"))["spec"]["runtimeClassName"] == "fast"


def test_the_image_may_change_and_the_limits_may_not(store: Store) -> None:
    store.create("pods", pod(limits={"acme.example/gpu": "1"}))
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "busybox:2"}]
    changed = store.patch("pods", "train", image, JSON_PATCH, "default")
    assert (changed["spec"]["containers"][0]["image"], changed["metadata"]["generation"]) == ("busybox:2", 2)
    limit = [{"op": "replace", "path": "/spec/containers/0/resources/limits/acme.example~1gpu", "value": "2"}]
    with pytest.raises(StatusError, match="spec: Forbidden: pod updates may not change fields other than") as caught:
        store.patch("pods", "train", limit, JSON_PATCH, "default")
    assert caught.value.code == 422


def test_a_node_is_given_by_a_binding_only(store: Store) -> None:
    store.create("pods", pod())
    with pytest.raises(StatusError, match="spec: Forbidden"):
        store.patch("pods", "train", {"spec": {"nodeName": "node-a"}}, MERGE_PATCH, "default")


def test_tolerations_grow_and_do_not_shrink(store: Store) -> None:
    tolerations = store.create("pods", pod())["spec"]["tolerations"]
    more = {"spec": {"tolerations": [*tolerations, {"key": "k", "operator": "Exists"}]}}
    assert len(store.patch("pods", "train", more, STRATEGIC_PATCH, "default")["spec"]["tolerations"]) == 3
    with pytest.raises(StatusError, match="spec: Forbidden"):
        store.patch("pods", "train", {"spec": {"tolerations": tolerations}}, STRATEGIC_PATCH, "default")


def test_annotations_have_a_size_limit_on_create_and_update(store: Store) -> None:
    full = pod()
    full["metadata"]["annotations"] = {"k": "x" * (LIMIT - 1)}
    store.create("pods", full)
    with pytest.raises(
        StatusError, match=r"metadata\.annotations: Too long: may not be more than 262144 bytes"
    ) as caught:
        store.patch("pods", "train", {"metadata": {"annotations": {"l": ""}}}, MERGE_PATCH, "default")
    assert caught.value.code == 422
    full["metadata"] = {"name": "over", "annotations": {"k": "x" * LIMIT}}
    with pytest.raises(StatusError, match="Too long"):
        store.create("pods", full)


def test_an_ephemeral_container_is_added_through_its_subresource(store: Store) -> None:
    store.create("pods", pod())
    added = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}}
    with pytest.raises(StatusError, match="spec: Forbidden"):
        store.patch("pods", "train", added, STRATEGIC_PATCH, "default")
    changed = store.patch("pods", "train", added, STRATEGIC_PATCH, "default", subresource="ephemeralcontainers")
    assert [one["name"] for one in changed["spec"]["ephemeralContainers"]] == ["debug"]
    gone = {"spec": {"ephemeralContainers": None}}
    with pytest.raises(StatusError, match="may not be removed"):
        store.patch("pods", "train", gone, MERGE_PATCH, "default", subresource="ephemeralcontainers")


def test_a_gated_pod_says_so(store: Store) -> None:
    created = store.create("pods", pod(schedulingGates=[{"name": "acme.example/wait"}]))
    assert created["status"]["conditions"][0]["reason"] == "SchedulingGated"
    opened = store.patch("pods", "train", {"spec": {"schedulingGates": []}}, MERGE_PATCH, "default")
    assert opened["spec"]["schedulingGates"] == []


def test_a_node_keeps_the_status_it_registers_with(store: Store) -> None:
    node = {"metadata": {"name": "node-a"}, "status": {"capacity": {"cpu": "4", "acme.example/mem": "24000"}}}
    assert store.create("nodes", node)["status"]["capacity"] == {"cpu": "4", "acme.example/mem": "24k"}
