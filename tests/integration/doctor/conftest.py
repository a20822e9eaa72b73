"""An installation as a cluster has it: real objects in a real API server, without any mistake."""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hami_core_py.cli import main
from hami_core_py.cluster.client import Client
from hami_core_py.cluster.leases import renew_lease
from hami_core_py.codecs.native import BIND_NODE, RECORD, inventory_key, render_inventory, render_shares
from hami_core_py.lab.apiserver import ApiServer
from hami_core_py.lab.apiserver.kubeconfig import write_kubeconfig
from hami_core_py.models.allocations import RecordedShare
from hami_core_py.services.certificates.issuing import Subject, issue, make_authority
from hami_core_py.testing.builders import CORE, COUNT, FAMILY, MEMORY, PERCENT, device, share

Json = dict[str, Any]

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
HOST = "hami-webhook.hami-system.svc"
TOTALS = {COUNT: "10", MEMORY: "16384", PERCENT: "100", CORE: "100"}
POD_KEYS = ["hami.io/device-allocated", "hami.io/device-allocated-proof", "hami.io/bind-node"]
SCHEDULER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "hami-scheduler"}],
    "extenders": [
        {
            "urlPrefix": "http://127.0.0.1:9443",
            "filterVerb": "filter",
            "prioritizeVerb": "score",
            "preemptVerb": "preempt",
            "bindVerb": "bind",
            "nodeCacheCapable": True,
            "httpTimeout": "5s",
            "managedResources": [{"name": name, "ignoredByScheduler": name != COUNT} for name in TOTALS],
        }
    ],
}


class Installation:
    """Objects of an installation, and the command line that looks at them."""

    def __init__(self, server: ApiServer, client: Client, kubeconfig: Path) -> None:
        self.server, self.client, self.kubeconfig = server, client, kubeconfig
        self.authority = make_authority("hami", datetime.now(UTC), timedelta(days=365))

    def create(self, path: str, kind: str, name: str, *, namespace: str = "", **fields: Any) -> Json:
        metadata: Json = {"name": name, **({"namespace": namespace} if namespace else {}), **fields.pop("metadata", {})}
        return self.client.create(path, {"kind": kind, "metadata": metadata, **fields})

    def install(self) -> None:
        """Everything that a healthy installation has."""
        client = self.client
        for name, level in (("hami-system", "restricted"), ("hami-nodes", "privileged")):
            labels = {"pod-security.kubernetes.io/enforce": level, "kubernetes.io/metadata.name": name}
            self.create("/api/v1/namespaces", "Namespace", name, metadata={"labels": labels})
        self._install_webhook()
        self._install_policies()
        config = {"config.yaml": yaml.safe_dump(SCHEDULER)}
        self.create(_in("configmaps"), "ConfigMap", "hami-scheduler", data=config)
        self.write_settings({})
        self._workload("deployments", "hami-system", "hami-scheduler", ["hami", "scheduler"])
        self._workload("deployments", "hami-system", "hami-webhook", ["hami", "webhook"])
        self._workload("daemonsets", "hami-nodes", "hami-device-plugin", ["hami", "device-plugin", "--backend=mock"])
        annotations = {inventory_key("mock"): render_inventory("mock", [device("n1-0")], "late")}
        node_info = {"kubeletVersion": "v1.34.1", "containerRuntimeVersion": "containerd://2.1.0"}
        status = {
            "capacity": TOTALS,
            "allocatable": TOTALS,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": node_info,
        }
        self.create("/api/v1/nodes", "Node", "n1", metadata={"annotations": annotations}, status=status)
        renew_lease(client, "hami-nodes", "hami-agent-mock-n1", holder="n1", lease_seconds=180)
        self.pod("train", node="n1", annotations=self.record("n1", "n1-0"))

    def record(self, node: str, device_id: str, **fields: Any) -> dict[str, str]:
        shares = [RecordedShare(container="main", family=FAMILY, device=device_id, share=share(**fields))]  # type: ignore[arg-type]
        return {RECORD: render_shares(shares), BIND_NODE: node}

    def pod(self, name: str, *, node: str = "", annotations: Any = None, **spec: Any) -> Json:
        container = {"name": "main", "image": "app", "resources": {"limits": {COUNT: "1"}, "requests": {COUNT: "1"}}}
        fields: Json = {
            "containers": [{**container, **spec.pop("container", {})}],
            "schedulerName": "hami-scheduler",
            **spec,
        }
        if node:
            fields["nodeName"] = node
        metadata = {"annotations": annotations or {}}
        return self.create("/api/v1/namespaces/default/pods", "Pod", name, metadata=metadata, spec=fields)

    def write_settings(self, settings: Json) -> None:
        """The device configuration that the processes read."""
        text = yaml.safe_dump({"backends": {"enabled": ["mock"]}, **settings})
        path = _in("configmaps")
        try:
            self.client.patch(f"{path}/hami-device-config", {"data": {"device-config.yaml": text}})
        except Exception:  # noqa: BLE001 - it is not there yet
            self.create(path, "ConfigMap", "hami-device-config", data={"device-config.yaml": text})

    def webhook(self, **fields: Any) -> None:
        """Change the webhook's entry."""
        path = f"{REGISTRATION}/mutatingwebhookconfigurations/hami-webhook"
        entry = self.client.get(path)["webhooks"][0]
        self.client.delete(path)
        self.load_webhook({**entry, **fields})

    def load_webhook(self, entry: Json) -> None:
        """Put a webhook's entry in place. It names a Service, which this API server cannot call: it wants a URL besides."""
        entry["clientConfig"]["url"] = "https://127.0.0.1:1/webhook"
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
        self.server.store.load([{**kind, "metadata": {"name": "hami-webhook"}, "webhooks": [entry]}])

    def extender(self, **fields: Any) -> None:
        """Change kube-scheduler's configuration."""
        changed = {**SCHEDULER, "extenders": [{**SCHEDULER["extenders"][0], **fields}]}  # type: ignore[dict-item]
        self.client.patch(f"{_in('configmaps')}/hami-scheduler", {"data": {"config.yaml": yaml.safe_dump(changed)}})

    def hami(self, *arguments: str | Path) -> Result:
        """Run the command line against this cluster."""
        command = [*map(str, arguments), "--kubeconfig", str(self.kubeconfig)]
        return CliRunner().invoke(main, command)

    def findings(self) -> dict[str, Json]:
        """The doctor's findings by code."""
        answer = json.loads(self.hami("doctor", "-o", "json").output)
        assert answer["unseen"] == []
        return {one["code"]: one for one in answer["findings"]}

    def _install_webhook(self) -> None:
        pair = issue(self.authority, Subject((HOST,), True), datetime.now(UTC), timedelta(days=90))
        data = {"tls.crt": _base64(pair.certificate), "tls.key": _base64(pair.key)}
        self.create(_in("secrets"), "Secret", "hami-webhook-tls", type="kubernetes.io/tls", data=data)
        self.create(_in("services"), "Service", "hami-webhook", spec={"ports": [{"port": 443}]})
        self.create(
            "/apis/discovery.k8s.io/v1/namespaces/hami-system/endpointslices",
            "EndpointSlice",
            "hami-webhook-1",
            metadata={"labels": {"kubernetes.io/service-name": "hami-webhook"}},
            addressType="IPv4",
            endpoints=[{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
        )
        excluded = {"key": "kubernetes.io/metadata.name", "operator": "NotIn"}
        entry = {
            "name": "pods.hami.io",
            "clientConfig": {
                "service": {"namespace": "hami-system", "name": "hami-webhook", "port": 443, "path": "/webhook"},
                "caBundle": _base64(self.authority.certificate),
            },
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["UPDATE"],
                    "resources": ["pods/ephemeralcontainers"],
                },
            ],
            "matchConditions": [{"name": "concerns-devices", "expression": f"'{COUNT}' in object"}],
            "namespaceSelector": {
                "matchExpressions": [{**excluded, "values": ["kube-system", "hami-system", "hami-nodes", "default"]}]
            },
            "failurePolicy": "Fail",
            "timeoutSeconds": 5,
            "reinvocationPolicy": "IfNeeded",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        self.load_webhook(entry)

    def _install_policies(self) -> None:
        guarded = {
            "records": (["pods", "pods/status", "pods/binding", "bindings"], POD_KEYS),
            "inventories": (["nodes"], [inventory_key("mock")]),
        }
        for name, (resources, keys) in guarded.items():
            rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": resources}
            spec = {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": f"object.metadata.annotations.all(k, !(k in {json.dumps(keys)}))"}],
            }
            self.create(f"{REGISTRATION}/validatingadmissionpolicies", "ValidatingAdmissionPolicy", name, spec=spec)
            self.create(
                f"{REGISTRATION}/validatingadmissionpolicybindings",
                "ValidatingAdmissionPolicyBinding",
                name,
                spec={"policyName": name, "validationActions": ["Deny"]},
            )

    def _workload(self, kind: str, namespace: str, name: str, command: list[str]) -> None:
        path = f"/apis/apps/v1/namespaces/{namespace}/{kind}"
        spec = {
            "replicas": 2,
            "template": {
                "spec": {"containers": [{"name": "main", "image": "hami", "command": command[:2], "args": command[2:]}]}
            },
        }
        self.create(path, {"deployments": "Deployment", "daemonsets": "DaemonSet"}[kind], name, spec=spec)
        numbers = {"readyReplicas": 2, "desiredNumberScheduled": 1, "numberReady": 1}
        self.client.patch(f"{path}/{name}/status", {"status": numbers})


def _in(kind: str) -> str:
    return f"/api/v1/namespaces/hami-system/{kind}"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the mock backend own the family Acme."""
    resources = {"count": COUNT, "memory": MEMORY, "memory_percent": PERCENT, "core": CORE}
    path = tmp_path / "world.yaml"
    path.write_text(yaml.safe_dump({"families": [{"name": FAMILY, "resources": resources}]}))
    monkeypatch.setenv("HAMI_MOCK_DEVICES", str(path))
    monkeypatch.delenv("KUBECONFIG", raising=False)


@pytest.fixture
def installed(acme: None, tmp_path: Path) -> Iterator[Installation]:
    """A healthy installation."""
    with ApiServer() as server:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", server.url)
        client = Client.from_kubeconfig(kubeconfig)
        installation = Installation(server, client, kubeconfig)
        installation.install()
        yield installation
        client.close()


Change = Callable[[Installation], None]
