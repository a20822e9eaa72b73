"""kube-scheduler and extender over mutual TLS, as the chart sets them up: its arguments, configuration, rights, certificates."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_core_py.lab.loopback import answers, free_ports
from tests.cluster.calls import is_heard
from tests.cluster.daemons import Daemon, eventually
from tests.cluster.fakenodes import add_node, devices_of, remove_nodes
from tests.cluster.hami import SCHEDULER, Hami
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods, gpu, pod, shares_of
from tests.cluster.release_chart import NAMESPACE, Chart

FOLDERS = {"/etc/hami/extender/": "hami-extender-tls", "/etc/hami/extender-client/": "hami-extender-client-tls"}
"""Where the pods of the chart mount which Secret."""
# The tests write the inventories of nodes that have no agent.
NODES_ARE_OURS = ("--set", "admissionPolicy.trustedUsers={admin}")
ADDRESS, OPERATED, KEPT = "127.0.0.1:9444", "0.0.0.0:9395", "0.0.0.0:9397"


class Site:
    """The chart, with its processes run here in place of their pods.

    :ivar url: of the extender.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.chart = plane, Chart(plane)
        self.folder = plane.directory / "mutual-tls"
        self.folder.mkdir(exist_ok=True)
        extender, operated, kept = (f"127.0.0.1:{port}" for port in free_ports(3))
        self.url, self.probes = f"https://{extender}", f"http://{operated}/readyz"
        self._here = {ADDRESS: extender, OPERATED: operated, KEPT: kept}
        self.certificates, self.extender = (
            Daemon(plane.directory / "logs", n) for n in ("certificates", "mtls-extender")
        )

    def start(self) -> None:
        """Install the chart, have certificates made, and start the extender and a kube-scheduler that calls it."""
        self.chart.install("--set", "webhook.enabled=false,scheduler.extender.transport=mtls", *NODES_ARE_OURS)
        self._run(self.certificates, "hami-certificates", "certificates", "hami-certificates")
        for folder, secret in FOLDERS.items():
            files = eventually(f"Secret {secret} filled", lambda secret=secret: self._files(secret))  # type: ignore[misc]
            here = self.folder / Path(folder).name
            here.mkdir(exist_ok=True)
            self._here[folder] = f"{here}/"
            for name, text in files.items():
                (here / name).write_text(text)
        config = self.folder / "device-config.yaml"
        config.write_text(self.chart.texts_of("configmaps", "hami-device-config")["device-config.yaml"])
        self._here["/etc/hami/device-config.yaml"] = str(config)
        self._run(self.extender, "hami-scheduler", "extender", "hami-scheduler")
        eventually("a ready extender", lambda: answers(self.probes), daemon=self.extender)

    def stop(self) -> None:
        """End the processes; the release goes with its cluster."""
        self.extender.stop()
        self.certificates.stop()

    def call(self, **without: bool) -> None:
        """Have kube-scheduler call the extender by the chart's configuration. :param without: keys of tlsConfig."""
        text = self._local(self.chart.texts_of("configmaps", "hami-scheduler")["config.yaml"])
        config = yaml.safe_load(text)
        (extender,) = config["extenders"]
        extender["tlsConfig"] = {key: value for key, value in extender["tlsConfig"].items() if not without.get(key)}
        self.plane.start_scheduler({"extenders": [extender], "profiles": config["profiles"]})

    def answers_to(self, certificate: Path | None = None, key: Path | None = None) -> bool:
        """Whether the extender hears a client with this certificate, or without any."""
        return is_heard(f"{self.url}/bind", self.folder / "extender" / "ca.crt", certificate, key)

    def _files(self, secret: str) -> dict[str, str]:
        files = self.chart.texts_of("secrets", secret)
        return files if {"tls.crt", "tls.key", "ca.crt"} <= files.keys() else {}

    def _run(self, daemon: Daemon, deployment: str, container: str, account: str) -> None:
        program, *arguments = self.chart.arguments_of(deployment, container)
        assert program == "hami"
        kubeconfig = self.chart.kubeconfig_of(NAMESPACE, account)
        command = [sys.executable, "-m", "hami_core_py", *map(self._local, arguments), "--kubeconfig", str(kubeconfig)]
        daemon.start(command)

    def _local(self, text: str) -> str:
        for there, here in self._here.items():
            text = text.replace(there, here)
        return text


@pytest.fixture(scope="module")
def site(fake_plane: ControlPlane) -> Iterator[Site]:
    """The chart with mutual TLS."""
    found = Site(fake_plane)
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture
def pods(site: Site) -> Iterator[Pods]:
    """Pods of a test, and one node for them; all go when it ends."""
    family = Hami(site.plane).family
    add_node(site.plane.client, "n1", family, devices_of(family, "n1", 1))
    found = Pods(site.plane.client)
    yield found
    found.clear()
    remove_nodes(site.plane.client)


def asking(name: str) -> dict[str, Any]:
    return pod(name, gpu(1, 4000), schedulerName=SCHEDULER)


def test_kube_scheduler_has_a_pod_bound_and_recorded(site: Site, pods: Pods) -> None:
    site.call()
    pods.create(asking("p"))
    assert pods.bound("p") == "n1"
    assert [share["memory"] for share in shares_of(pods.get("p"))] == [4000]


def test_kube_scheduler_without_a_client_certificate_is_refused(site: Site, pods: Pods) -> None:
    site.call(certFile=True, keyFile=True)
    pods.create(asking("p"))
    # The connection ends before there is an answer.
    pods.refused("p", f'Post "{site.url}/filter": ')
    assert "nodeName" not in pods.get("p")["spec"]


def test_nobody_else_is_heard(site: Site) -> None:
    own = [site.folder / "extender-client" / name for name in ("tls.crt", "tls.key")]
    # The cluster's own authority is not the extender's.
    stranger = site.plane.authority.issue("stranger", "kube-scheduler", "system:masters")
    assert site.answers_to(*own)
    assert not site.answers_to(*stranger)
    assert not site.answers_to()
