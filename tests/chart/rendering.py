"""The chart as Helm renders it, read back as objects."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "hami"
FIXTURES = ROOT / "tests" / "fixtures" / "chart"
NAMESPACE = "hami-system"
CERT_MANAGER, PROMETHEUS = ("--api-versions", "cert-manager.io/v1"), ("--api-versions", "monitoring.coreos.com/v1")

Object = dict[str, Any]


def _set(*pairs: str) -> tuple[str, ...]:
    return tuple(part for pair in pairs for part in ("--set", pair))


def _file(name: str) -> tuple[str, ...]:
    return "-f", str(FIXTURES / name)


SETS: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "one backend": _set("backends.enabled={nvidia}"),
    "mock": _set(
        "backends.enabled={mock}", "backends.mock.managed[0].role=count", "backends.mock.managed[0].name=a.example/b"
    ),
    "mock stands in": _set("backends.enabled={nvidia,mock}", "backends.nvidia.agent.enabled=false"),
    "third party": (*_file("acme.values.yaml"), *_set("backends.enabled={nvidia,acme}")),
    "third party alone": (
        *_file("acme.values.yaml"),
        *_set("backends.enabled={acme}", "backends.acme.plugin.as=volume"),
    ),
    "v2.10": _file("v210.values.yaml"),
    "guide": _file("guide.values.yaml"),
    "cert-manager": (*_set("certificates.source=cert-manager"), *CERT_MANAGER),
    "cert-manager and mtls": (
        *_set("scheduler.certManager.enabled=true", "scheduler.extender.transport=mtls"),
        *CERT_MANAGER,
    ),
    "own certificates": _set("certificates.source=existing", "certificates.caBundle=PEM"),
    "mtls": _set("scheduler.extender.transport=mtls"),
    "existing kube-scheduler": _set("scheduler.kubeScheduler.enabled=false"),
    "without webhook": _set("webhook.enabled=false"),
    "without agents": _set("devicePlugin.enabled=false"),
    "late": _set("devicePlugin.identity=late"),
    "every pod": _set("backends.nvidia.settings.overwriteEnv=true"),
    "prometheus": (*_set("prometheus.enabled=true", "prometheus.labels.release=kube"), *PROMETHEUS),
    "no election": _set("scheduler.leaderElect=false"),
    "existing namespace": _set("devicePlugin.namespace.create=false", "devicePlugin.namespace.name=agents"),
    "pull secrets": _set("global.imagePullSecrets={a}", "scheduler.extender.image.pullSecrets[0].name=b"),
    "environment": _set(
        "scheduler.extender.extraEnvs.A=one", "webhook.extraEnvs[0].name=B", "webhook.extraEnvs[0].value=two"
    ),
    "host network": _set("scheduler.hostNetwork=true", "webhook.hostNetwork=true", "certificates.hostNetwork=true"),
    "private registry": _set("global.imageRegistry=registry.example.com", "global.imageTag=1.2"),
}
"""Values with which the chart must hold together."""


def helm() -> str:
    """The helm binary that the cluster tests build, or one on the path. Skips the test when there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    built = Path(os.environ.get("HAMI_CLUSTER_CACHE") or cache / "hami-cluster") / "bin" / "helm"
    found = str(built) if built.exists() else shutil.which("helm")
    if not found:
        pytest.skip("no helm: the cluster tests build it into the cache, or put one on the path")
    return found


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """One call of helm, away from any cluster."""
    return subprocess.run([helm(), *arguments], capture_output=True, text=True, check=False)


@cache
def text(*options: str, version: str = "1.33.2") -> str:
    """What ``helm template`` prints. :raises AssertionError: it failed."""
    ended = run("template", "hami", str(CHART), "-n", NAMESPACE, "--kube-version", version, *options)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refusal(*options: str) -> str:
    """Why values are refused. :raises AssertionError: they are not."""
    ended = run("template", "hami", str(CHART), "-n", NAMESPACE, "--kube-version", "1.33.2", *options)
    assert ended.returncode != 0
    return ended.stderr


@cache
def objects(*options: str, version: str = "1.33.2") -> list[Object]:
    """All objects of a rendering; shared by the tests, which leave them as they are."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [found for found in yaml.load_all(text(*options, version=version), Loader=loader) if found]


def one(found: list[Object], kind: str, name: str, namespace: str | None = None) -> Object:
    """The object of a kind and name."""
    [match] = [
        item
        for item in found
        if item["kind"] == kind
        and item["metadata"]["name"] == name
        and namespace in (None, item["metadata"].get("namespace"))
    ]
    return match


@dataclass(frozen=True)
class Workload:
    """A pod that would run."""

    owner: Object

    @property
    def name(self) -> str:
        return str(self.owner["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.owner["metadata"]["namespace"])

    @property
    def pod(self) -> Object:
        spec: Object = self.owner["spec"]["template"]["spec"]
        return spec

    @property
    def labels(self) -> Mapping[str, str]:
        labels: Mapping[str, str] = self.owner["spec"]["template"]["metadata"]["labels"]
        return labels

    @property
    def containers(self) -> list[Object]:
        return [*self.pod.get("initContainers", ()), *self.pod["containers"]]

    @property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for c in self.containers for port in c.get("ports", ())}


def workloads(found: list[Object]) -> Iterator[Workload]:
    """Every Deployment and DaemonSet."""
    return (Workload(item) for item in found if item["kind"] in ("Deployment", "DaemonSet"))


def workload(found: list[Object], name: str) -> Workload:
    """One of them."""
    [match] = [item for item in workloads(found) if item.name == name]
    return match


def container(of: Workload, name: str) -> Object:
    """A container by name."""
    [match] = [item for item in of.containers if item["name"] == name]
    return match
