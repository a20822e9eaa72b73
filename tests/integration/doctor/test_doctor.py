"""`hami doctor` against a real API server: mistakes made in real objects are found there."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hami_core_py.cluster.client import Client
from hami_core_py.codecs.native import RECORD, inventory_key
from hami_core_py.codecs.times import render_time
from hami_core_py.services.certificates.issuing import make_authority
from hami_core_py.testing.builders import COUNT
from tests.integration.doctor.conftest import REGISTRATION, Change, Installation, _base64

NODE = "/api/v1/nodes/n1"
POD = "/api/v1/namespaces/default/pods/train"


def test_healthy_installation_has_no_finding(installed: Installation) -> None:
    answer = installed.hami("doctor", "-o", "json")
    told = json.loads(answer.output)
    assert told["findings"] == []
    assert told["unseen"] == []
    assert told["healthy"] is True
    assert answer.exit_code == 0
    assert len(told["checked"]) >= 20


def trust_another_authority(installed: Installation) -> None:
    stranger = make_authority("stranger", datetime.now(UTC), timedelta(days=1))
    service = {"namespace": "hami-system", "name": "hami-webhook", "port": 443}
    installed.webhook(clientConfig={"service": service, "caBundle": _base64(stranger.certificate)})


def hide_endpoints(installed: Installation) -> None:
    path = "/apis/discovery.k8s.io/v1/namespaces/hami-system/endpointslices/hami-webhook-1"
    installed.client.patch(path, {"endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}]})


def audit_only(installed: Installation) -> None:
    path = f"{REGISTRATION}/validatingadmissionpolicybindings/records"
    installed.client.patch(path, {"spec": {"validationActions": ["Audit"]}})


def hang_the_agent(installed: Installation) -> None:
    long_ago = render_time(1_700_000_000_000_000_000)
    path = "/apis/coordination.k8s.io/v1/namespaces/hami-nodes/leases/hami-agent-mock-n1"
    installed.client.patch(path, {"spec": {"renewTime": long_ago}})


def stop_the_agent(installed: Installation) -> None:
    installed.client.patch(f"{NODE}/status", {"status": {"allocatable": {COUNT: "0"}}})


def misspell_a_setting(installed: Installation) -> None:
    installed.write_settings({"placement": {"nodePolcy": "spread"}})


def lose_the_checkpoint(installed: Installation) -> None:
    message = "no devices found allocated in local cache for pod uid, container main"
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": message}}
    installed.client.patch(f"{POD}/status", {"status": {"containerStatuses": [{"name": "main", "state": waiting}]}})


MISTAKES: dict[str, Change] = {
    "webhook-fails-open": lambda installed: installed.webhook(failurePolicy="Ignore"),
    "webhook-certificate-untrusted": trust_another_authority,
    "webhook-no-endpoints": hide_endpoints,
    "records-unprotected": audit_only,
    "extender-ignorable": lambda installed: installed.extender(ignorable=True),
    "extender-timeout": lambda installed: installed.extender(httpTimeout="30s"),
    "extender-misses-resource": lambda installed: installed.extender(managedResources=[{"name": COUNT}]),
    "settings-invalid": misspell_a_setting,
    "inventory-unreadable": lambda installed: _write(installed.client, NODE, {inventory_key("mock"): "{"}),
    "agent-not-registered": stop_the_agent,
    "agent-lease-stale": hang_the_agent,
    "record-unreadable": lambda installed: _write(installed.client, POD, {RECORD: "[{}]"}),
    "record-missing": lambda installed: _none(installed.pod("bare", node="n1")),
    "pod-not-admitted": lambda installed: _none(installed.pod("stray", schedulerName="default-scheduler")),
    "device-over-committed": lambda installed: _none(
        installed.pod("greedy", node="n1", annotations=installed.record("n1", "n1-0", memory_mib=16000))
    ),
    "checkpoint-lost": lose_the_checkpoint,
}


@pytest.mark.parametrize("code", MISTAKES)
def test_mistake_in_the_cluster_is_found_and_makes_it_unhealthy(installed: Installation, code: str) -> None:
    MISTAKES[code](installed)
    assert code in installed.findings()
    assert installed.hami("doctor").exit_code == 1


def test_text_for_people_names_problem_fix_and_page(installed: Installation) -> None:
    installed.webhook(failurePolicy="Ignore")
    answer = installed.hami("doctor").output
    assert "problem  webhook-fails-open" in answer
    assert "webhook hami-webhook/pods.hami.io: failurePolicy is Ignore" in answer
    assert "docs/how-to/doctor.md#webhook-fails-open" in answer
    assert "1 problems, 0 advice" in answer


def test_advice_alone_leaves_the_installation_healthy(installed: Installation) -> None:
    installed.webhook(reinvocationPolicy="Never")
    answer = installed.hami("doctor")
    assert "advice  webhook-not-reinvoked" in answer.output
    assert answer.exit_code == 0


def test_configuration_of_ones_own_kube_scheduler_is_looked_at_too(installed: Installation, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    managed = f"[{{name: {COUNT}}}]"
    path.write_text(f"extenders: [{{filterVerb: filter, bindVerb: bind, managedResources: {managed}}}]\n")
    answer = installed.hami("doctor", "--scheduler-config", path, "-o", "json")
    subjects = {
        one["subject"] for one in json.loads(answer.output)["findings"] if one["code"] == "extender-verb-missing"
    }
    assert subjects == {str(path)}


def test_cluster_that_cannot_be_asked_is_bad_input(installed: Installation, tmp_path: Path) -> None:
    nobody = tmp_path / "nobody"
    nobody.write_text(installed.kubeconfig.read_text().replace(installed.client.url, "http://127.0.0.1:1"))
    installed.kubeconfig = nobody
    answer = installed.hami("doctor", "-o", "json")
    assert answer.exit_code == 2
    assert "127.0.0.1:1" in json.loads(answer.output)["error"]["got"]


def _write(client: Client, path: str, annotations: dict[str, str]) -> None:
    client.patch(path, {"metadata": {"annotations": annotations}})


def _none(_answer: object) -> None:
    return None
