"""What the API server is told to send us, and what it refuses by itself."""

import json
import re
from typing import Any

import pytest

from hami_core_py.codecs.records import CORE_KEYS
from hami_core_py.commands.common import load
from hami_core_py.decisions.bookkeeping import is_bookkeeping
from tests.chart.rendering import NAMESPACE, SETS, objects, one


def hook(*options: str) -> dict[str, Any]:
    [found] = one(objects(*options), "MutatingWebhookConfiguration", "hami-webhook")["webhooks"]
    assert isinstance(found, dict)
    return found


def lists_in(expression: str) -> list[list[str]]:
    """The lists of texts in a CEL expression."""
    return [json.loads(found) for found in re.findall(r'\["[^\]]*"\]', expression)]


def test_webhook_fails_closed_and_within_five_seconds() -> None:
    found = hook()
    assert found["failurePolicy"] == "Fail"
    assert found["timeoutSeconds"] == 5
    assert found["sideEffects"] == "None"
    assert found["reinvocationPolicy"] == "IfNeeded"
    assert found["admissionReviewVersions"] == ["v1"]


def test_webhook_hears_of_new_pods_and_new_ephemeral_containers() -> None:
    assert {(*rule["operations"], *rule["resources"]) for rule in hook()["rules"]} == {
        ("CREATE", "pods"),
        ("UPDATE", "pods/ephemeralcontainers"),
    }


def test_only_pods_that_concern_devices_reach_the_webhook() -> None:
    [condition] = hook()["matchConditions"]
    resources, again, records = lists_in(condition["expression"])
    assert resources == again
    families = load(None).ask.families
    assert set(resources) == set(families["NVIDIA"].resources.names())
    assert set(CORE_KEYS) <= set(records)


def test_setting_that_concerns_every_pod_sends_every_pod() -> None:
    assert "matchConditions" not in hook(*SETS["every pod"])


def test_kube_system_and_our_own_namespaces_never_reach_the_webhook() -> None:
    named = hook()["namespaceSelector"]["matchExpressions"][0]
    assert named == {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["hami-nodes", NAMESPACE, "kube-system"],
    }


def test_further_namespaces_can_be_left_out_under_both_names() -> None:
    options = ("--set", "webhook.excludedNamespaces={a}", "--set", "scheduler.admissionWebhook.whitelistNamespaces={b}")
    values = hook(*options)["namespaceSelector"]["matchExpressions"][0]["values"]
    assert {"a", "b", "kube-system"} <= set(values)


def test_selectors_of_both_names_are_joined() -> None:
    options = (
        *("--set", "webhook.namespaceSelector.matchLabels.a=one"),
        *("--set", "scheduler.admissionWebhook.namespaceSelector.matchLabels.b=two"),
        *("--set", "webhook.objectSelector.matchLabels.c=three"),
    )
    assert hook(*options)["namespaceSelector"]["matchLabels"] == {"a": "one", "b": "two"}
    assert hook(*options)["objectSelector"] == {"matchLabels": {"c": "three"}}
    assert "objectSelector" not in hook()


def test_authority_comes_from_whoever_makes_the_certificates() -> None:
    assert "caBundle" not in hook()["clientConfig"]
    assert hook(*SETS["own certificates"])["clientConfig"]["caBundle"] == "UEVN"
    managed = one(objects(*SETS["cert-manager"]), "MutatingWebhookConfiguration", "hami-webhook")
    [certificate] = [
        item["metadata"]["name"]
        for item in objects(*SETS["cert-manager"])
        if item["kind"] == "Certificate" and item["metadata"]["name"].endswith("webhook-tls")
    ]
    assert managed["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == f"{NAMESPACE}/{certificate}"


def policy(name: str, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = one(objects(*options), "ValidatingAdmissionPolicy", f"hami-{name}")["spec"]
    return found


def variable(name: str, of: str, *options: str) -> str:
    [found] = [entry["expression"] for entry in policy(of, *options)["variables"] if entry["name"] == name]
    return str(found)


def test_records_are_guarded_on_pods_and_every_way_around_them() -> None:
    [rule] = policy("pod-records")["matchConstraints"]["resourceRules"]
    assert {"pods", "pods/status", "pods/binding", "bindings", "pods/ephemeralcontainers", "pods/resize"} == set(
        rule["resources"]
    )
    assert set(rule["operations"]) == {"CREATE", "UPDATE"}


def test_guarded_annotations_are_those_that_the_webhook_guards() -> None:
    both = ("--set", "backends.enabled={nvidia,mock}")
    keys = lists_in(variable("changed", "pod-records", *both))[0]
    ask = load(None).ask
    assert [key for key in keys if not is_bookkeeping(key, ask)] == []
    assert set(CORE_KEYS) <= set(keys)
    spellings = [f.v210 for f in ask.families.values() if f.v210 is not None]
    assert {key for v in spellings for key in (v.allocated, v.to_allocate) if key} <= set(keys)


def test_inventories_of_every_enabled_backend_are_guarded() -> None:
    keys = lists_in(variable("changed", "node-inventories", *SETS["third party"]))[0]
    assert {"hami.io/node-nvidia-inventory", "hami.io/node-acme-inventory", "hami.io/node-handshake"} <= set(keys)


def test_agent_writes_its_own_backends_annotations_alone() -> None:
    keys = json.loads(variable("keysOf", "node-inventories", *SETS["third party"]))
    assert keys["system:serviceaccount:hami-nodes:hami-device-plugin-acme"] == ["hami.io/node-acme-inventory"]


def test_backend_that_stands_in_writes_for_the_others_too() -> None:
    keys = json.loads(variable("keysOf", "node-inventories", *SETS["mock stands in"]))
    assert "hami.io/node-nvidia-inventory" in keys["system:serviceaccount:hami-nodes:hami-device-plugin-mock"]
    owners = json.loads(variable("ownersOf", "agent-leases", *SETS["mock stands in"]))
    assert owners["system:serviceaccount:hami-nodes:hami-device-plugin-mock"] == ["mock", "nvidia"]


def test_trusted_users_pass_both_the_policies_and_the_webhook() -> None:
    options = ("--set", "admissionPolicy.trustedUsers={system:serviceaccount:x:vendor}")
    for name in ("pod-records", "node-inventories"):
        [condition] = policy(name, *options)["matchConditions"]
        assert "system:serviceaccount:x:vendor" in condition["expression"]
    config = one(objects(*options), "ConfigMap", "hami-device-config", NAMESPACE)["data"]["device-config.yaml"]
    assert "- system:serviceaccount:x:vendor" in config


@pytest.mark.parametrize("name", ["pod-records", "node-inventories", "agent-leases"])
def test_policy_denies_and_fails_closed(name: str) -> None:
    assert policy(name)["failurePolicy"] == "Fail"
    binding = one(objects(), "ValidatingAdmissionPolicyBinding", f"hami-{name}")["spec"]
    assert binding == {"policyName": f"hami-{name}", "validationActions": ["Deny"]}


def test_policies_can_be_left_out() -> None:
    kinds = {item["kind"] for item in objects("--set", "admissionPolicy.enabled=false")}
    assert "ValidatingAdmissionPolicy" not in kinds
