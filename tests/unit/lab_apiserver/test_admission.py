from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from hami_core_py.lab.apiserver import Caller, StatusError, Store
from hami_core_py.lab.apiserver.admission import WebhookAdmission
from hami_core_py.lab.apiserver.patches import MERGE_PATCH
from hami_core_py.lab.apiserver.webhook_client import WebhookClient, WebhookFailure

from .pods import binding, config, pod

Respond = Callable[[dict[str, Any]], dict[str, Any]]
POD_RULES = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]


class FakeClient(WebhookClient):
    """Webhooks as functions, by URL; remembers what each was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, Respond] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def post(self, url: str, ca_bundle: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        request = orjson.loads(orjson.dumps(body))["request"]  # as sent: the server goes on changing its own
        self.asked.append((url, request))
        return {"response": {"uid": request["uid"], **self.answers[url](request)}}


class Webhooks:
    """A store whose webhooks are functions."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.client = FakeClient()
        store.admission = WebhookAdmission(store.objects, self.client)

    def add(self, name: str, respond: Respond, *, mutates: bool = False, **fields: Any) -> None:
        url = f"https://127.0.0.1/{name}"
        self.client.answers[url] = respond
        kind = "mutatingwebhookconfigurations" if mutates else "validatingwebhookconfigurations"
        webhook = {"name": f"{name}.acme.example", "clientConfig": {"url": url}, "rules": POD_RULES}
        webhook |= {"sideEffects": "None", "admissionReviewVersions": ["v1"], **fields}
        self.store.create(kind, {"metadata": {"name": name}, "webhooks": [webhook]})

    def asked(self) -> list[str]:
        return [url.rpartition("/")[2] for url, _ in self.client.asked]


@pytest.fixture
def webhooks(store: Store) -> Webhooks:
    return Webhooks(store)


def allow(_: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def patching(*operations: dict[str, Any]) -> Respond:
    encoded = base64.b64encode(orjson.dumps(list(operations))).decode()
    return lambda _: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def test_a_mutated_pod_is_stored_with_defaults_for_what_was_added(webhooks: Webhooks) -> None:
    resources = {"op": "add", "path": "/spec/containers/0/resources", "value": {"limits": {"acme.example/mem": "4000"}}}
    webhooks.add("mutate", patching(resources), mutates=True)
    stored = webhooks.store.create("pods", pod())
    amounts = {"acme.example/mem": "4k"}
    assert stored["spec"]["containers"][0]["resources"] == {"limits": amounts, "requests": amounts}


def test_the_review_looks_like_a_real_servers(webhooks: Webhooks) -> None:
    webhooks.add("look", allow)
    webhooks.add("first", allow, mutates=True)
    webhooks.store.create("pods", pod(), "default", caller=Caller("someone", ("team",)))
    (_, mutating), (_, validating) = webhooks.client.asked
    assert mutating["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert mutating["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert (mutating["name"], mutating["namespace"], mutating["operation"]) == ("train", "default", "CREATE")
    assert mutating["userInfo"] == {"username": "someone", "groups": ["team"]}
    assert (mutating["oldObject"], mutating["dryRun"]) == (None, False)
    assert mutating["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    assert "uid" not in mutating["object"]["metadata"]
    assert validating["object"]["metadata"]["uid"]
    assert mutating["object"]["spec"]["schedulerName"] == "default-scheduler"


def test_a_denial_reaches_the_client_with_its_sentence(webhooks: Webhooks) -> None:
    webhooks.add("deny", lambda _: {"allowed": False, "status": {"message": "too big", "code": 422}})
    with pytest.raises(StatusError) as caught:
        webhooks.store.create("pods", pod())
    assert caught.value.message == 'admission webhook "deny.acme.example" denied the request: too big'
    assert caught.value.code == 422
    assert webhooks.store.list("pods").items == []


def test_a_denial_without_words_says_so(webhooks: Webhooks) -> None:
    webhooks.add("deny", lambda _: {"allowed": False})
    with pytest.raises(StatusError, match="denied the request without explanation") as caught:
        webhooks.store.create("pods", pod())
    assert caught.value.code == 403


def test_warnings_reach_the_caller(webhooks: Webhooks) -> None:
    webhooks.add("warn", lambda _: {"allowed": True, "warnings": ["old name"]})
    caller = Caller()
    webhooks.store.create("pods", pod(), caller=caller)
    assert caller.warnings == ["old name"]


def fail(_: dict[str, Any]) -> dict[str, Any]:
    raise WebhookFailure("failed to call webhook: connection refused")


def test_a_failing_webhook_refuses_or_is_ignored_by_its_policy(webhooks: Webhooks) -> None:
    webhooks.add("open", fail, failurePolicy="Ignore")
    webhooks.store.create("pods", pod("one"))
    webhooks.add("closed", fail)
    with pytest.raises(StatusError, match=r'failed calling webhook "closed\.acme\.example": failed to call') as caught:
        webhooks.store.create("pods", pod("two"))
    assert caught.value.code == 500


def test_an_answer_for_another_request_is_a_failure(webhooks: Webhooks) -> None:
    webhooks.add("odd", lambda _: {"allowed": True, "uid": "other"})
    with pytest.raises(StatusError, match="no response with the uid of the request"):
        webhooks.store.create("pods", pod())


def test_a_patch_that_does_not_apply_is_an_error(webhooks: Webhooks) -> None:
    webhooks.add("bad", patching({"op": "remove", "path": "/spec/nothing"}), mutates=True)
    with pytest.raises(StatusError, match="a patch that does not apply") as caught:
        webhooks.store.create("pods", pod())
    assert caught.value.code == 500


def label(key: str) -> Respond:
    return patching({"op": "add", "path": "/metadata/labels", "value": {key: ""}})


def test_mutation_comes_first_and_in_the_order_of_names(webhooks: Webhooks) -> None:
    webhooks.add("a-validates", allow)
    webhooks.add("c-mutates", label("c"), mutates=True)
    webhooks.add("b-mutates", label("b"), mutates=True)
    stored = webhooks.store.create("pods", pod())
    assert webhooks.asked() == ["b-mutates", "c-mutates", "a-validates"]
    assert stored["metadata"]["labels"] == {"c": ""}


def test_a_webhook_is_reinvoked_once_when_a_later_one_changed_the_object(webhooks: Webhooks) -> None:
    webhooks.add("a", allow, mutates=True, reinvocationPolicy="IfNeeded")
    webhooks.add("b", label("b"), mutates=True, reinvocationPolicy="IfNeeded")
    webhooks.add("c", allow, mutates=True)
    webhooks.store.create("pods", pod())
    assert webhooks.asked() == ["a", "b", "c", "a"]


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, True),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]}
                    ]
                }
            },
            False,
        ),
        ({"rules": [{**POD_RULES[0], "operations": ["*"], "resources": ["*"]}]}, True),
        ({"rules": [{**POD_RULES[0], "operations": ["UPDATE"]}]}, False),
        ({"rules": [{**POD_RULES[0], "resources": ["pods/binding"]}]}, False),
        ({"rules": [{**POD_RULES[0], "scope": "Cluster"}]}, False),
        ({"rules": [{**POD_RULES[0], "apiGroups": ["apps"]}]}, False),
        ({"rules": []}, False),
    ],
)
def test_rules_and_selectors_decide_who_is_asked(webhooks: Webhooks, fields: dict[str, Any], asked: bool) -> None:
    webhooks.add("one", allow, **fields)
    wanted = pod()
    wanted["metadata"]["labels"] = {"app": "web"}
    webhooks.store.create("pods", wanted, "default")
    assert bool(webhooks.client.asked) is asked


def test_bindings_updates_and_deletions_are_reviewed(webhooks: Webhooks) -> None:
    rule = {**POD_RULES[0], "operations": ["UPDATE", "DELETE"], "resources": ["pods", "pods/status"]}
    webhooks.add("pods", allow, rules=[rule])
    webhooks.add("binding", allow, rules=[{**POD_RULES[0], "resources": ["pods/binding"]}])
    store = webhooks.store
    store.create("pods", pod(), "default")
    store.bind("default", "train", binding(annotations={"a": "1"}))
    store.patch("pods", "train", {"status": {"phase": "Running"}}, MERGE_PATCH, "default", subresource="status")
    store.delete("pods", "train", "default", grace_seconds=0)
    bound, status, deletion = (request for _, request in webhooks.client.asked)
    assert (bound["kind"]["kind"], bound["subResource"], bound["object"]["metadata"]["annotations"]) == (
        "Binding",
        "binding",
        {"a": "1"},
    )
    assert (status["operation"], status["subResource"]) == ("UPDATE", "status")
    assert status["oldObject"]["status"]["phase"] == "Pending"
    assert (deletion["operation"], deletion["object"]) == ("DELETE", None)
    assert deletion["oldObject"]["status"]["phase"] == "Running"


def test_a_refused_binding_binds_nothing(webhooks: Webhooks) -> None:
    deny = [{**POD_RULES[0], "resources": ["pods/binding"]}]
    webhooks.add("fence", lambda _: {"allowed": False, "status": {"message": "stale epoch"}}, rules=deny)
    webhooks.store.create("pods", pod(), "default")
    with pytest.raises(StatusError, match="stale epoch"):
        webhooks.store.bind("default", "train", binding())
    assert "nodeName" not in webhooks.store.get("pods", "train", "default")["spec"]


def test_webhook_configurations_cannot_lock_themselves_in(webhooks: Webhooks) -> None:
    everything = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "*"]}]
    webhooks.add("deny", lambda _: {"allowed": False}, rules=everything)
    with pytest.raises(StatusError):
        webhooks.store.create("configmaps", config(), "default")
    webhooks.store.delete("validatingwebhookconfigurations", "deny")
    webhooks.store.create("configmaps", config(), "default")


def test_a_changed_configuration_is_read_anew(webhooks: Webhooks) -> None:
    webhooks.add("one", allow)
    webhooks.store.create("pods", pod("a"))
    webhooks.store.patch("validatingwebhookconfigurations", "one", {"webhooks": []}, MERGE_PATCH)
    webhooks.store.create("pods", pod("b"))
    assert webhooks.asked() == ["one"]


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ({"service": {"name": "s", "namespace": "n"}}, "the lab has no network of services; give clientConfig.url"),
        ({"url": "http://127.0.0.1/x"}, "'https' is the only allowed URL scheme"),
    ],
)
def test_a_webhook_that_cannot_be_reached_is_refused_at_once(store: Store, client: dict[str, Any], words: str) -> None:
    webhook = {"name": "a.b.c", "clientConfig": client, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    with pytest.raises(StatusError, match=words) as caught:
        store.create("mutatingwebhookconfigurations", {"metadata": {"name": "x"}, "webhooks": [webhook]})
    assert caught.value.code == 422


def test_match_conditions_are_not_evaluated_and_that_is_said_once(
    webhooks: Webhooks, caplog: pytest.LogCaptureFixture
) -> None:
    webhooks.add("cel", allow, matchConditions=[{"name": "never", "expression": "false"}])
    for name in ("a", "b"):
        webhooks.store.create("pods", pod(name))
    assert webhooks.asked() == ["cel", "cel"]
    assert [record.message for record in caplog.records] == [
        "matchConditions are not evaluated: the webhook is always asked"
    ]
