"""The envelope: every body gets an answer that an API server understands."""

import base64
import json
import logging
from typing import Any

import pytest

from hami_core_py.services.admission import AdmissionService, Answer
from tests.unit.admission.acme import RULES, Json, ask_of, container, pod


def service(**settings: Any) -> AdmissionService:
    return AdmissionService(ask_of(), RULES, **settings)


def review(raw: Any, *, version: str | None = "admission.k8s.io/v1", **request: Any) -> bytes:
    fields = {"uid": "r1", "namespace": "ml", "operation": "CREATE", "object": raw, **request}
    head = {} if version is None else {"kind": "AdmissionReview", "apiVersion": version}
    return json.dumps({**head, "request": fields}).encode()


def answer(body: bytes, content_type: str = "application/json", **settings: Any) -> Json:
    found: Json = json.loads(service(**settings).review(body, content_type).body)
    return found


def outcome(body: bytes) -> str:
    return service().review(body, "application/json").outcome


@pytest.mark.parametrize("version", ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"])
def test_pod_is_patched_in_the_version_of_the_request(version: str) -> None:
    found = answer(review(pod(container(count=1)), version=version))
    response = found["response"]
    patch = json.loads(base64.b64decode(response.pop("patch")))
    assert (found["kind"], found["apiVersion"]) == ("AdmissionReview", version)
    assert response == {
        "uid": "r1",
        "allowed": True,
        "status": {"metadata": {}, "code": 200},
        "patchType": "JSONPatch",
    }
    assert {"op": "replace", "path": "/spec/schedulerName", "value": "hami-scheduler"} in patch


def test_missing_version_is_the_first() -> None:
    assert answer(review(pod(container()), version=None))["apiVersion"] == "admission.k8s.io/v1"


def test_unchanged_pod_has_no_patch() -> None:
    response = answer(review(pod(container())))["response"]
    assert response == {"uid": "r1", "allowed": True, "status": {"metadata": {}, "code": 200}}


def test_denial_carries_code_reason_and_sentence() -> None:
    response = answer(review(pod(container(count=1, privileged=True))))["response"]
    status = {"metadata": {}, "message": "container main is privileged", "reason": "Forbidden", "code": 403}
    assert response == {"uid": "r1", "allowed": False, "status": status}


def test_warnings_reach_the_author() -> None:
    response = answer(review(pod(container(count=1), schedulerName="volcano")))["response"]
    assert response["status"]["message"] == "pod already has different scheduler assigned"
    assert response["warnings"][0].startswith("not managed by HAMi")


def test_namespace_of_the_request_names_the_pod() -> None:
    raw = pod(container(count="x"))
    del raw["metadata"]["namespace"]
    assert "pod ml/train" in answer(review(raw))["response"]["status"]["message"]


def test_generated_name_stands_for_a_name() -> None:
    raw = pod(container(count="x"))
    raw["metadata"] = {"generateName": "train-"}
    assert "pod ml/train-" in answer(review(raw))["response"]["status"]["message"]


def test_old_object_counts_at_an_update_alone() -> None:
    before = pod(container(), annotations={"hami.io/vgpu-node": "n1"})
    assert answer(review(before, operation="UPDATE", oldObject=before))["response"]["allowed"]
    assert not answer(review(before, operation="CREATE", oldObject=before))["response"]["allowed"]


def test_ephemeral_containers_are_told_from_the_subresource() -> None:
    before = pod(container(count=1))
    after = pod(container(count=1), ephemeralContainers=[container("debug")])
    response = answer(review(after, operation="UPDATE", oldObject=before, subResource="ephemeralcontainers"))[
        "response"
    ]
    assert response["patchType"] == "JSONPatch"


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_calls_that_write_no_pod_pass(operation: str) -> None:
    assert answer(review(None, operation=operation))["response"]["allowed"]


@pytest.mark.parametrize(
    ("body", "content_type", "code", "message"),
    [
        (b"", "application/json", 400, "request body is empty"),
        (b"{}", "application/yaml", 400, "contentType=application/yaml, expected application/json"),
        (b"{}", "application/json; charset=utf-8", 400, "contentType=application/json; charset=utf-8, expected"),
        (b"{}", "", 400, "contentType=, expected application/json"),
        (b"{", "application/json", 400, "couldn't get version/kind; json parse error"),
        (b"[]", "application/json", 400, "couldn't get version/kind"),
        (b"\xff", "application/json", 400, "couldn't get version/kind"),
        (b"x" * 100, "application/json", 413, "request entity is too large; limit is 100 bytes"),
    ],
)
def test_body_that_is_no_review_is_answered_without_a_uid(
    body: bytes, content_type: str, code: int, message: str
) -> None:
    found = answer(body, content_type, max_body_bytes=100)
    assert found.keys() == {"response"}
    response = found["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("", False, code)
    assert response["status"]["message"].startswith(message)


@pytest.mark.parametrize(
    ("body", "uid"),
    [
        ({"kind": "Pod", "apiVersion": "v1"}, ""),
        ({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}, ""),
        ({"kind": "AdmissionReview", "request": []}, ""),
        ({"request": {"uid": "r2", "operation": "CREATE"}}, "r2"),
        ({"request": {"uid": 7, "operation": "CREATE"}}, ""),
    ],
)
def test_review_without_content_is_answered(body: Json, uid: str) -> None:
    response = answer(json.dumps(body).encode())["response"]
    status = {"metadata": {}, "message": "there is no content to decode", "code": 400}
    assert response == {"uid": uid, "allowed": False, "status": status}


def test_version_nobody_knows_is_refused() -> None:
    response = answer(review(pod(container()), version="admission.k8s.io/v2"))["response"]
    assert (response["uid"], response["status"]["code"]) == ("r1", 400)
    assert "admission.k8s.io/v1beta1" in response["status"]["message"]


@pytest.mark.parametrize("raw", [[], "pod", 7, {"metadata": []}, {"spec": {"containers": [None]}}])
@pytest.mark.parametrize("field", ["object", "oldObject"])
def test_object_that_is_no_pod_is_refused(raw: Any, field: str) -> None:
    objects = {"object": pod(container()), "oldObject": pod(container()), field: raw}
    response = answer(review(None, operation="UPDATE", **objects))["response"]
    if raw == [] and field == "oldObject":  # as good as none
        assert response["allowed"]
        return
    assert (response["allowed"], response["status"]["code"]) == (False, 400)


def test_failure_of_ours_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    broken = AdmissionService(None, RULES)  # type: ignore[arg-type]
    with caplog.at_level(logging.ERROR):
        found: Answer = broken.review(review(pod(container(count=1))), "application/json")
    response = json.loads(found.body)["response"]
    assert found.outcome == "failed"
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("r1", False, 500)
    assert response["status"]["message"].startswith("panic: ")
    assert "admission failed" in caplog.text


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (review(pod(container())), "allowed"),
        (review(pod(container(count=1))), "patched"),
        (review(pod(container(count=1, privileged=True))), "denied"),
        (review(pod(container(count="x"))), "denied"),
        (review([]), "unreadable"),
        (b"{", "unreadable"),
    ],
)
def test_outcomes_are_told_apart(body: bytes, expected: str) -> None:
    assert outcome(body) == expected


def test_body_ends_with_a_line_break() -> None:
    assert service().review(b"{", "application/json").body.endswith(b"}\n")
