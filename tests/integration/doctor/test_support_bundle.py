"""A support bundle of a real API server: it holds what helps, and none of the secrets planted there."""

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_core_py.testing.builders import COUNT
from tests.integration.doctor.conftest import Installation

SECRETS = {
    "environment": "hunter2-environment",
    "argument": "hunter2-argument",
    "annotation": "hunter2-annotation",
    "applied": "hunter2-applied",
    "secret": "hunter2-secret",
    "config map": "hunter2-config",
    "setting": "hunter2-setting",
    "event": "hunter2-event",
    "url": "hunter2-url",
    "token": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.c2lnbmF0dXJl",
    "kubeconfig": "hunter2-kubeconfig",
}


def plant(installed: Installation) -> None:
    """Put a secret into every place where people put them."""
    container = {
        "command": ["train"],
        "args": ["--password", SECRETS["argument"], f"--key={SECRETS['argument']}"],
        "env": [
            {"name": "PASSWORD", "value": SECRETS["environment"]},
            {"name": "HARMLESS", "value": SECRETS["environment"]},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        ],
    }
    last = json.dumps({"spec": {"env": SECRETS["applied"]}})
    annotations = {
        "vault.example/role": SECRETS["annotation"],
        "kubectl.kubernetes.io/last-applied-configuration": last,
    }
    installed.pod("secretive", container=container, annotations=annotations)
    installed.client.patch(
        "/api/v1/namespaces/default/pods/secretive/status",
        {
            "status": {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "message": f"pull https://me:{SECRETS['url']}@registry failed",
                    }
                ]
            }
        },
    )
    secrets = "/api/v1/namespaces/hami-system/secrets"
    installed.create(
        secrets, "Secret", "db", data={"password": "aHVudGVyMi1zZWNyZXQ="}, stringData={"x": SECRETS["secret"]}
    )
    config = {"extenders": SECRETS["config map"], "any": SECRETS["config map"]}
    installed.create("/api/v1/namespaces/hami-system/configmaps", "ConfigMap", "other", data=config)
    installed.write_settings({"stranger": {"apiToken": SECRETS["setting"], "url": f"https://a:{SECRETS['setting']}@b"}})
    event = {
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "secretive"},
        "reason": "Failed",
        "message": f"token={SECRETS['event']} and Bearer {SECRETS['token']}",
    }
    installed.create("/api/v1/namespaces/default/events", "Event", "secretive.1", **event)
    credentials = yaml.safe_load(installed.kubeconfig.read_text())
    credentials["users"][0]["user"] = {"token": SECRETS["kubeconfig"]}
    installed.kubeconfig.write_text(yaml.safe_dump(credentials))


Bundle = Callable[[], dict[str, str]]


@pytest.fixture
def bundle(installed: Installation, tmp_path: Path) -> Bundle:
    """Makes a bundle. Its files by name."""

    def make() -> dict[str, str]:
        path = tmp_path / "bundle.tar.gz"
        answer = installed.hami("support-bundle", "-o", path)
        assert answer.exit_code == 0, answer.output
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
            read = {member.name: archive.extractfile(member) for member in archive}
            return {name.partition("/")[2]: file.read().decode() for name, file in read.items() if file is not None}

    return make


def names(text: str) -> list[str]:
    return [one["metadata"]["name"] for one in json.loads(text)]


def test_no_planted_secret_is_in_the_bundle(installed: Installation, bundle: Bundle) -> None:
    plant(installed)
    text = "\n".join(bundle().values())
    assert "secretive" in text
    assert [place for place, secret in SECRETS.items() if secret in text] == []
    assert "aHVudGVyMi1zZWNyZXQ=" not in text
    assert "PRIVATE KEY" not in text


def test_bundle_tells_versions_settings_findings_and_objects(installed: Installation, bundle: Bundle) -> None:
    installed.write_settings({"placement": {"nodePolicy": "spread"}})
    installed.webhook(failurePolicy="Ignore")
    files = bundle()
    versions = json.loads(files["versions.json"])
    assert versions["namespaces"] == ["hami-nodes", "hami-system"]
    assert [backend["name"] for backend in versions["backends"]] == ["mock"]
    assert json.loads(files["settings.json"])["placement"] == {"nodePolicy": "spread"}
    assert [one["code"] for one in json.loads(files["doctor.json"])["findings"]] == ["webhook-fails-open"]
    assert names(files["nodes.json"]) == ["n1"]
    assert names(files["pods.json"]) == ["train"]
    assert names(files["leases.json"]) == ["hami-agent-mock-n1"]
    assert names(files["workloads.json"]) == ["hami-scheduler", "hami-webhook", "hami-device-plugin"]
    assert json.loads(files["schedulers.json"])[0]["config"]["extenders"][0]["bindVerb"] == "bind"


def test_record_and_inventory_stay_readable(installed: Installation, bundle: Bundle) -> None:
    files = bundle()
    assert "n1-0" in json.loads(files["pods.json"])[0]["metadata"]["annotations"]["hami.io/device-allocated"]
    assert "n1-0" in json.loads(files["nodes.json"])[0]["metadata"]["annotations"]["hami.io/node-mock-inventory"]


def test_pending_pod_is_explained(installed: Installation, bundle: Bundle) -> None:
    limits = {COUNT: "3"}
    installed.pod("waits", container={"resources": {"limits": limits, "requests": limits}})
    (told,) = json.loads(bundle()["pending.json"])
    assert (told["pod"], told["fits"]) == ("default/waits", False)
    assert told["nodes"][0]["refusals"]


def test_pods_that_have_nothing_to_do_with_devices_stay_out(installed: Installation, bundle: Bundle) -> None:
    installed.pod("plain", container={"resources": {}})
    assert names(bundle()["pods.json"]) == ["train"]


def test_our_own_arguments_are_shown_and_others_are_not(installed: Installation, bundle: Bundle) -> None:
    plant(installed)
    files = bundle()
    agent = json.loads(files["workloads.json"])[-1]
    assert agent["spec"]["template"]["spec"]["containers"][0]["args"] == ["--backend=mock"]
    secretive = next(one for one in json.loads(files["pods.json"]) if one["metadata"]["name"] == "secretive")
    container: dict[str, Any] = secretive["spec"]["containers"][0]
    assert container["args"] == ["--password", "(left out)", "--key=(left out)"]
    assert container["env"][2]["valueFrom"]["secretKeyRef"]["name"] == "db"


def test_cluster_that_cannot_be_asked_leaves_no_file(installed: Installation, tmp_path: Path) -> None:
    text = installed.kubeconfig.read_text().replace(installed.client.url, "http://127.0.0.1:1")
    installed.kubeconfig.write_text(text)
    path = tmp_path / "bundle.tar.gz"
    assert installed.hami("support-bundle", "-o", path).exit_code == 2
    assert not path.exists()
