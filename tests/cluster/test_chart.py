"""The chart on a real API server: what helm sends is accepted, and comes and goes without harm to pods that run."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hami_core_py.cluster.client import join_path
from hami_core_py.cluster.errors import ApiError, NotFound
from tests.cluster import v210
from tests.cluster.daemons import eventually
from tests.cluster.fakenodes import add_node, devices_of, remove_nodes
from tests.cluster.hami import WEBHOOKS, Hami
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods, gpu, pod, shares_of
from tests.cluster.release_chart import NAMESPACE, NODES, Chart, everything

VARIANTS = {
    "nvidia": (),
    "both backends": ("--set", "backends.enabled={nvidia,mock}"),
    "two schedulers": ("--set", "scheduler.replicas=2"),
    "existing kube-scheduler": ("--set", "scheduler.kubeScheduler.enabled=false"),
    "mutual TLS": ("--set", "scheduler.extender.transport=mtls"),
    "v2.10 names": ("--set", "scheduler.replicas=1,scheduler.leaderElect.enabled=false,webhook.replicas=3"),
}


CERT_MANAGER = (
    "--api-versions",
    "cert-manager.io/v1",
    "--set",
    "certificates.source=cert-manager,scheduler.extender.transport=mtls",
)
ISSUER = ("--set-json", 'certificates.certManager.issuerRef={"kind":"ClusterIssuer","name":"corporate"}')
OWN_ISSUERS = ("self-signed", "authority")


@pytest.fixture
def chart(fake_plane: ControlPlane) -> Iterator[Chart]:
    """A release that is removed in any case."""
    found = Chart(fake_plane)
    yield found
    found.clear()


@pytest.fixture(scope="class")
def namespaces(fake_plane: ControlPlane) -> Iterator[None]:
    """The release's namespaces, which a dry run does not create."""
    for name in (NAMESPACE, NODES):
        fake_plane.kubectl("create", "namespace", name)
    yield
    for name in (NAMESPACE, NODES):
        fake_plane.kubectl("delete", "namespace", name, "--wait")


@pytest.fixture(scope="class")
def cert_manager(fake_plane: ControlPlane) -> str:
    """cert-manager's kinds, without cert-manager; the group they are of. They stay."""
    kinds = fake_plane.release.files("cert-manager")
    fake_plane.kubectl("apply", "--server-side", "-f", kinds)
    fake_plane.kubectl("wait", "--for=condition=Established", "-f", kinds)
    return "cert-manager.io"


@pytest.mark.usefixtures("namespaces")
class TestManifests:
    """What helm renders."""

    @pytest.mark.parametrize("flags", VARIANTS.values(), ids=VARIANTS.keys())
    def test_api_server_accepts_them(self, fake_plane: ControlPlane, flags: tuple[str, ...]) -> None:
        manifests = Chart(fake_plane).manifests(*flags)
        told = fake_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests)
        assert "mutatingwebhookconfiguration.admissionregistration.k8s.io/hami-webhook" in told

    @pytest.mark.parametrize("issuer", [(), ISSUER], ids=["own authority", "issuer given"])
    def test_api_server_with_cert_managers_kinds_accepts_its_objects(
        self, fake_plane: ControlPlane, cert_manager: str, issuer: tuple[str, ...]
    ) -> None:
        manifests = Chart(fake_plane).manifests(*CERT_MANAGER, *issuer)
        told = fake_plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=manifests)
        names = {line.split(" ")[0] for line in told.splitlines() if f".{cert_manager}/" in line}
        certificates = {f"certificate.{cert_manager}/hami-{n}-tls" for n in ("webhook", "extender", "extender-client")}
        own = {f"certificate.{cert_manager}/hami-authority", *(f"issuer.{cert_manager}/hami-{n}" for n in OWN_ISSUERS)}
        assert names == certificates | (set() if issuer else own)


def test_release_comes_changes_and_goes_while_shared_pods_run(chart: Chart) -> None:
    plane = chart.plane
    hami = Hami(plane)
    pods = Pods(plane.client)
    hami.start()
    try:
        plane.start_scheduler(hami.scheduler_config())
        add_node(plane.client, "n1", hami.family, devices_of(hami.family, "n1", 1))
        for number in range(3):
            pods.create(pod(f"p{number}", gpu(1, 2000)))
            pods.bound(f"p{number}")
        # Theirs is to come: pods that run need no webhook.
        plane.client.delete(f"{WEBHOOKS}/hami")
        before = everything(plane)
        chart.install()
        seen = {p["metadata"]["uid"]: shares_of(p) for p in pods.all()}
        chart.upgrade("--set", "webhook.replicas=3", "--set", "scheduler.leaveToKubeScheduler={count,memory,core}")
        assert replicas(plane, "hami-webhook") == 3
        chart.roll_back()
        assert replicas(plane, "hami-webhook") == 2
        chart.uninstall()
        assert {p["metadata"]["uid"]: shares_of(p) for p in pods.all()} == seen
        assert all(len(shares) == 1 for shares in seen.values())
        eventually("nothing left", lambda: everything(plane) == before)
    finally:
        hami.stop()
        pods.clear()
        remove_nodes(plane.client)


def test_release_of_v210_is_replaced_in_place_and_comes_back_by_rollback(chart: Chart, tmp_path: Path) -> None:
    plane = chart.plane
    old = v210.write_chart(tmp_path / "old")
    done = plane.tool("helm", "install", "hami", old, "--namespace", NAMESPACE, "--create-namespace")
    assert done.returncode == 0, done.stderr
    before = of_release(plane)
    assert "This release replaces one of HAMi v2.10" in chart.upgrade()
    now = of_release(plane)
    assert f"DaemonSet hami-device-plugin {NAMESPACE}" in before - now
    assert f"DaemonSet hami-device-plugin-nvidia {NODES}" in now - before
    assert webhook_names(plane) == ["pods.hami.io"]
    chart.roll_back()
    eventually("the old release", lambda: of_release(plane) == before)
    assert webhook_names(plane) == ["vgpu.hami.io"]


def of_release(plane: ControlPlane) -> set[str]:
    """Kind, name and namespace of what the release consists of; of workloads their containers too."""
    kinds = (
        "deployments,daemonsets,services,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,"
        "mutatingwebhookconfigurations,validatingadmissionpolicies"
    )
    found = plane.kubectl("get", kinds, "--all-namespaces", "-l", "app.kubernetes.io/instance=hami", "-o", "json")
    names = set()
    for one in json.loads(found)["items"]:
        metadata, spec = one["metadata"], one.get("spec") or {}
        name = f"{one['kind']} {metadata['name']} {metadata.get('namespace', '')}"
        names |= {
            name,
            *(f"{name} {c['name']}" for c in spec.get("template", {}).get("spec", {}).get("containers", ())),
        }
    return names


def webhook_names(plane: ControlPlane) -> list[str]:
    """Names of the webhooks of our configuration."""
    return [webhook["name"] for webhook in plane.client.get(f"{WEBHOOKS}/hami-webhook")["webhooks"]]


def replicas(plane: ControlPlane, name: str) -> int:
    return int(plane.client.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}")["spec"]["replicas"])


def test_without_webhook_pods_plain_pods_start_and_asking_ones_are_told(chart: Chart) -> None:
    plane = chart.plane
    chart.install()
    pods = Pods(plane.client)
    path = join_path("apis", "apps", "v1", "namespaces", "default", "daemonsets")
    try:
        add_node(plane.client, "n1", Hami(plane).family)

        def is_in_force() -> bool:
            try:
                pods.create(pod("trial", gpu(1, 1000)))
            except ApiError as problem:
                return "failed calling webhook" in str(problem)
            pods.delete("trial")
            return False

        eventually("a webhook that nobody serves", is_in_force)
        pods.create(pod("plain"))
        template = {"metadata": {"labels": {"app": "d"}}, "spec": pod("x")["spec"]}
        daemonset = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"app": "d"}}, "template": template},
        }
        plane.client.create(path, daemonset)
        # The webhook's own replacement is made as well: its pods exist, though there is no node for them here.
        own = Pods(plane.client, NAMESPACE)
        eventually("pods of the webhook", lambda: sum("webhook" in p["metadata"]["name"] for p in own.all()) == 2)
        eventually("the DaemonSet's pod", lambda: any(p["metadata"]["name"].startswith("d-") for p in pods.all()))
    finally:
        with suppress(NotFound):
            plane.client.delete(f"{path}/d")
        pods.clear()
        remove_nodes(plane.client)
