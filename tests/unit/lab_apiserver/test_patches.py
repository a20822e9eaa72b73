from __future__ import annotations

from typing import Any

import pytest

from hami_core_py.lab.apiserver import StatusError
from hami_core_py.lab.apiserver.patches import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    apply_patch,
)

POD: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"x": "1"}, "finalizers": ["f/1"]},
    "spec": {
        "containers": [
            {"name": "main", "image": "one", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
            {"name": "side", "image": "two"},
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "a"}],
    },
    "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": "True"}]},
}


def strategic(patch: dict[str, Any], kind: str = "Pod", obj: dict[str, Any] = POD) -> dict[str, Any]:
    return apply_patch(kind, obj, STRATEGIC_PATCH, patch)


def test_a_patch_changes_neither_object_nor_patch() -> None:
    before = repr(POD)
    patch = {"spec": {"containers": [{"name": "main", "image": "new"}]}}
    strategic(patch)
    apply_patch("Pod", POD, JSON_PATCH, [{"op": "remove", "path": "/metadata/labels/x"}])
    apply_patch("Pod", POD, MERGE_PATCH, {"metadata": {"labels": None}})
    assert repr(POD) == before
    assert patch == {"spec": {"containers": [{"name": "main", "image": "new"}]}}


def test_json_patch_applies_its_operations_in_order() -> None:
    operations = [
        {"op": "add", "path": "/metadata/annotations", "value": {}},
        {"op": "add", "path": "/metadata/annotations/a~1b", "value": "c"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "new"},
        {"op": "test", "path": "/metadata/name", "value": "a"},
    ]
    patched = apply_patch("Pod", POD, JSON_PATCH, operations)
    assert patched["metadata"]["annotations"] == {"a/b": "c"}
    assert patched["spec"]["containers"][0]["image"] == "new"


@pytest.mark.parametrize(
    "operation",
    [{"op": "remove", "path": "/metadata/nothing"}, {"op": "test", "path": "/metadata/name", "value": "b"}],
)
def test_json_patch_that_does_not_apply_is_unprocessable(operation: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as caught:
        apply_patch("Pod", POD, JSON_PATCH, [operation])
    assert caught.value.code == 422


@pytest.mark.parametrize("patch", [{"op": "remove"}, [{"op": "what", "path": "/a"}], [{"path": "/a"}], ["x"]])
def test_malformed_json_patch_is_refused(patch: Any) -> None:
    with pytest.raises(StatusError) as caught:
        apply_patch("Pod", POD, JSON_PATCH, patch)
    assert caught.value.code in (400, 422)


def test_merge_patch_removes_by_null_and_replaces_lists() -> None:
    patched = apply_patch(
        "Pod", POD, MERGE_PATCH, {"metadata": {"labels": {"x": None, "y": "2"}}, "spec": {"volumes": []}}
    )
    assert patched["metadata"]["labels"] == {"y": "2"}
    assert patched["spec"]["volumes"] == []
    assert patched["spec"]["containers"] == POD["spec"]["containers"]


def test_strategic_merge_merges_containers_and_their_variables_by_name() -> None:
    patched = strategic(
        {"spec": {"containers": [{"name": "main", "env": [{"name": "B", "value": "9"}, {"name": "C"}]}]}}
    )
    main, side = patched["spec"]["containers"]
    assert main["image"] == "one"
    assert main["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "9"}, {"name": "C"}]
    assert side == POD["spec"]["containers"][1]


def test_strategic_merge_merges_conditions_by_type() -> None:
    patched = strategic({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    assert patched["status"]["conditions"] == [
        {"type": "Ready", "status": "True"},
        {"type": "PodScheduled", "status": "True"},
    ]


def test_strategic_merge_replaces_tolerations_as_a_whole() -> None:
    assert strategic({"spec": {"tolerations": [{"key": "b"}]}})["spec"]["tolerations"] == [{"key": "b"}]


def test_strategic_merge_deletes_an_element_by_directive() -> None:
    patched = strategic({"spec": {"containers": [{"name": "side", "$patch": "delete"}]}})
    assert [one["name"] for one in patched["spec"]["containers"]] == ["main"]


def test_strategic_merge_replaces_a_list_or_map_by_directive() -> None:
    containers = [{"$patch": "replace"}, {"name": "only", "image": "x"}]
    patched = strategic({"metadata": {"labels": {"$patch": "replace", "z": "1"}}, "spec": {"containers": containers}})
    assert patched["spec"]["containers"] == [{"name": "only", "image": "x"}]
    assert patched["metadata"]["labels"] == {"z": "1"}


def test_strategic_merge_deletes_a_map_by_directive() -> None:
    assert "labels" not in strategic({"metadata": {"labels": {"$patch": "delete"}}})["metadata"]


def test_retain_keys_drops_what_is_not_retained() -> None:
    volume = {"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}
    assert strategic({"spec": {"volumes": [volume]}})["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


def test_set_element_order_orders_known_elements_and_leaves_strangers_in_place() -> None:
    patched = strategic(
        {
            "spec": {
                "$setElementOrder/containers": [{"name": "new"}, {"name": "side"}],
                "containers": [{"name": "new", "image": "n"}],
            }
        }
    )
    assert [one["name"] for one in patched["spec"]["containers"]] == ["new", "main", "side"]


def test_finalizers_are_a_set_that_grows_and_shrinks() -> None:
    grown = strategic({"metadata": {"finalizers": ["f/2"]}})
    assert grown["metadata"]["finalizers"] == ["f/1", "f/2"]
    shrunk = strategic({"metadata": {"$deleteFromPrimitiveList/finalizers": ["f/1"]}}, obj=grown)
    assert shrunk["metadata"]["finalizers"] == ["f/2"]


def test_ports_merge_by_number_in_a_service_and_by_container_port_in_a_pod() -> None:
    service = {"spec": {"ports": [{"port": 80, "name": "http"}]}}
    patched = strategic({"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}, kind="Service", obj=service)
    assert patched["spec"]["ports"] == [{"port": 80, "name": "http", "targetPort": 8080}]


def test_an_element_without_its_merge_key_is_refused() -> None:
    with pytest.raises(StatusError, match="does not contain declared merge key: name"):
        strategic({"spec": {"containers": [{"image": "x"}]}})


def test_apply_merges_and_removes_nothing() -> None:
    patched = apply_patch("Pod", POD, APPLY_PATCH, {"metadata": {"labels": {"y": "2"}}})
    assert patched["metadata"]["labels"] == {"x": "1", "y": "2"}


def test_an_unknown_patch_type_is_an_unsupported_media_type() -> None:
    with pytest.raises(StatusError) as caught:
        apply_patch("Pod", POD, "application/json", {})
    assert caught.value.code == 415
