"""Who may do what: least rights, restricted pods, and reasons for what is more."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import hami_core_py
from tests.chart.rendering import NAMESPACE, ROOT, SETS, Object, container, objects, one, refusal, workload, workloads

CORE = Path(hami_core_py.__file__).parent
SECURITY = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")

Right = tuple[str, str]
"""Resource and verb."""


def roles(*options: str) -> Iterator[Object]:
    return (item for item in objects(*options) if item["kind"] in ("Role", "ClusterRole"))


def rights(name: str, *options: str) -> set[Right]:
    """All rights of the roles of one name."""
    return {
        (resource, verb)
        for role in roles(*options)
        if role["metadata"]["name"] == name
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("name", SETS)
def test_no_role_holds_a_wildcard_or_a_way_to_more_rights(name: str) -> None:
    for role in roles(*SETS[name]):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], role["metadata"]["name"]
            assert set(rule["verbs"]).isdisjoint({"escalate", "bind", "impersonate", "delete", "deletecollection"})
            assert "nonResourceURLs" not in rule


@pytest.mark.parametrize("name", SETS)
def test_secrets_are_reached_by_name_alone(name: str) -> None:
    for role in roles(*SETS[name]):
        for rule in role["rules"]:
            if {"secrets", "mutatingwebhookconfigurations"} & set(rule["resources"]):
                assert rule["resourceNames"]
                assert rule["verbs"] == ["get", "patch"]


EXTENDER: dict[Right, tuple[str, str]] = {
    ("pods", "get"): ("services/scheduling/binding.py", "get_pod("),
    ("pods", "list"): ("services/scheduling/assembly.py", "Watcher("),
    ("pods", "watch"): ("services/scheduling/assembly.py", "Watcher("),
    ("pods/binding", "create"): ("services/scheduling/binding.py", "pods.bind("),
    ("pods/status", "patch"): ("services/scheduling/nominating.py", "nominate("),
    ("nodes", "get"): ("cluster/locks.py", "get_node("),
    ("nodes", "list"): ("services/scheduling/assembly.py", "Watcher("),
    ("nodes", "watch"): ("services/scheduling/assembly.py", "Watcher("),
    ("nodes", "patch"): ("cluster/stamps.py", "patch_annotations("),
    ("events", "create"): ("cluster/events.py", "self._client.create("),
    ("events", "patch"): ("cluster/events.py", "self._client.patch("),
}
"""What the extender may do, and where it does it."""

AGENT: dict[Right, tuple[str, str]] = {
    ("nodes", "get"): ("cluster/locks.py", "get_node("),
    ("nodes", "list"): ("services/agent/publishing.py", "Watcher("),
    ("nodes", "watch"): ("services/agent/publishing.py", "Watcher("),
    ("nodes", "patch"): ("services/agent/publishing.py", "patch_annotations("),
    ("nodes/status", "patch"): ("services/agent/publishing.py", "patch_status("),
    ("pods", "get"): ("services/agent/ordered.py", "get_pod("),
    ("pods", "list"): ("services/agent/pods.py", "Watcher("),
    ("pods", "watch"): ("services/agent/pods.py", "Watcher("),
    ("pods", "patch"): ("services/agent/ordered.py", "patch_annotations("),
    ("leases", "create"): ("cluster/leases.py", "client.create("),
    ("leases", "patch"): ("cluster/leases.py", "client.patch("),
    ("events", "create"): ("cluster/events.py", "self._client.create("),
    ("events", "patch"): ("cluster/events.py", "self._client.patch("),
}

CERTIFICATES: dict[Right, tuple[str, str]] = {
    ("secrets", "get"): ("cluster/secrets.py", "client.get("),
    ("secrets", "patch"): ("cluster/secrets.py", "client.patch("),
    ("mutatingwebhookconfigurations", "get"): ("cluster/webhooks.py", "client.get("),
    ("mutatingwebhookconfigurations", "patch"): ("cluster/webhooks.py", "client.patch("),
}

PROCESSES = {"hami-scheduler": EXTENDER, "hami-device-plugin": AGENT, "hami-certificates": CERTIFICATES}


@pytest.mark.parametrize("role", PROCESSES)
def test_process_may_do_what_its_code_does_and_nothing_else(role: str) -> None:
    assert rights(role) == set(PROCESSES[role])


EVICTING: dict[Right, tuple[str, str]] = {
    ("events", "list"): ("services/scheduling/evicting.py", "Watcher("),
    ("events", "watch"): ("services/scheduling/evicting.py", "Watcher("),
    ("pods/eviction", "create"): ("services/scheduling/evicting.py", "evict("),
}
"""What the extender may do beside that, where it evicts pods whose limits do not hold."""


def test_extender_may_evict_only_where_it_is_wanted_and_no_agent_ever_may() -> None:
    wanted = ("--set", "settings.monitor.evict=true")
    assert rights("hami-scheduler", *wanted) == {*EXTENDER, *EVICTING}
    for right in EVICTING:
        assert right not in rights("hami-scheduler")
        assert right not in rights("hami-device-plugin", *wanted)


def test_nobody_is_evicted_where_anybody_could_write_the_event_that_asks_for_it() -> None:
    message = refusal("--set", "settings.monitor.evict=true,admissionPolicy.enabled=false")
    assert "expected admissionPolicy.enabled beside it" in message


@pytest.mark.parametrize(
    ("place", "call"), sorted({where for table in (*PROCESSES.values(), EVICTING) for where in table.values()})
)
def test_reason_for_a_right_is_still_in_the_code(place: str, call: str) -> None:
    assert call in (CORE / place).read_text(encoding="utf-8")


def test_every_call_to_the_api_server_is_one_that_a_right_was_weighed_for() -> None:
    """A new call shows here first: it wants a right in a role, a row in the page, and a line in the tables above."""
    calls = re.compile(r"[cC]lient\.(get|list|pages|create|replace|patch|delete|watch)\(")
    found = {
        f"{path.relative_to(CORE)} {match[1]}"
        for folder in ("cluster", "services", "servers")
        for path in (CORE / folder).rglob("*.py")
        if "doctor" not in path.parts  # it runs with the rights of whoever asks it
        for match in calls.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == {
        *("cluster/events.py create", "cluster/events.py patch"),
        *("cluster/leases.py create", "cluster/leases.py patch"),
        *("cluster/nodes.py get", "cluster/nodes.py patch"),
        *("cluster/pods.py create", "cluster/pods.py get", "cluster/pods.py list", "cluster/pods.py patch"),
        *("cluster/secrets.py get", "cluster/secrets.py patch"),
        *("cluster/webhooks.py get", "cluster/webhooks.py patch"),
        *("cluster/watch.py pages", "cluster/watch.py watch"),
        "services/scheduling/care.py pages",
    }


@pytest.mark.parametrize("role", PROCESSES)
def test_security_page_says_what_each_right_is_for(role: str) -> None:
    more = EVICTING if role == "hami-scheduler" else {}
    missing = {f"{resource} {verb}" for resource, verb in (*PROCESSES[role], *more)} - documented(role)
    assert missing == set()


def documented(role: str) -> set[str]:
    """Rights in the table below the role's heading: ``| pods | get, list | … |``."""
    _, _, rest = SECURITY.partition(f"### `{role}`")
    found = set()
    for line in rest.partition("\n#")[0].splitlines():
        cells = [cell.strip(" `") for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3:
            found |= {f"{cells[0]} {verb.strip(' `')}" for verb in cells[1].split(",")}
    return found


def test_late_agents_may_not_patch_pods() -> None:
    assert ("pods", "patch") not in rights("hami-device-plugin", *SETS["late"])
    assert ("pods", "patch") not in rights("hami-device-plugin", "--set", "settings.agent.identity=late")


def test_webhook_has_no_token() -> None:
    of = workload(objects(), "hami-webhook")
    assert of.pod["automountServiceAccountToken"] is False
    assert one(objects(), "ServiceAccount", "hami-webhook")["automountServiceAccountToken"] is False


def test_kube_schedulers_rights_are_given_only_beside_a_kube_scheduler() -> None:
    def bound(*options: str) -> set[str]:
        found = objects(*options)
        return {item["roleRef"]["name"] for item in found if item["kind"].endswith("RoleBinding")}

    assert {"system:kube-scheduler", "system:volume-scheduler"} <= bound()
    assert not {name for name in bound(*SETS["existing kube-scheduler"]) if name.startswith("system:")}


@pytest.mark.parametrize("name", sorted(set(SETS) - {"host network"}))
def test_control_plane_is_restricted(name: str) -> None:
    for of in workloads(objects(*SETS[name])):
        if of.namespace != NAMESPACE:
            continue
        pod = of.pod
        assert not {"hostPID", "hostIPC", "hostNetwork"} & set(pod)
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] != 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        kinds = {kind for volume in pod.get("volumes", ()) for kind in volume if kind != "name"}
        assert kinds <= {"configMap", "secret", "emptyDir", "image"}
        for c in of.containers:
            context = c["securityContext"]
            assert context["allowPrivilegeEscalation"] is False, c["name"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["readOnlyRootFilesystem"] is True
            assert not context.get("privileged")
            assert not any("hostPort" in port for port in c.get("ports", ()))


def test_agents_have_named_capabilities_and_reasons() -> None:
    of = workload(objects(), "hami-device-plugin-nvidia")
    contexts: dict[str, Any] = {c["name"]: c["securityContext"] for c in of.containers}
    assert contexts["device-plugin"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    assert contexts["monitor"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_PTRACE"]}
    for context in contexts.values():
        assert context["allowPrivilegeEscalation"] is False
        assert not context.get("privileged")
    assert "SYS_PTRACE" in SECURITY


def test_security_page_names_every_host_path() -> None:
    of = workload(objects(), "hami-device-plugin-nvidia")
    paths = [volume["hostPath"]["path"] for volume in of.pod["volumes"] if "hostPath" in volume]
    assert paths
    assert [path for path in paths if f"`{path}`" not in SECURITY] == []


def test_agents_live_in_a_namespace_of_their_own_that_allows_them() -> None:
    found = objects()
    space = one(found, "Namespace", "hami-nodes")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"
    assert {of.namespace for of in workloads(found)} == {NAMESPACE, "hami-nodes"}


def test_two_vendors_have_accounts_and_selectors_of_their_own() -> None:
    found = objects("--set", "backends.enabled={nvidia,mock}")
    agents = [of for of in workloads(found) if of.namespace != NAMESPACE]
    assert len({of.pod["serviceAccountName"] for of in agents}) == 2
    assert len({str(of.owner["spec"]["selector"]) for of in agents}) == 2
    assert {container(of, "device-plugin")["args"][1] for of in agents} == {"--backend=nvidia", "--backend=mock"}


def test_shipped_values_leave_no_secret_in_a_manifest() -> None:
    for item in objects():
        if item["kind"] == "Secret":
            assert not item.get("data")
            assert not item.get("stringData")


def test_rules_of_roles_are_documented_in_the_page_by_name_only_once() -> None:
    for role in PROCESSES:
        assert SECURITY.count(f"### `{role}`") == 1, yaml.safe_dump(role)
