"""A control plane: etcd, API server, controller manager and scheduler."""

import json
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from hami_core_py.cluster.client import Client
from hami_core_py.lab.loopback import free_ports
from tests.cluster.certificates import Authority, write_key
from tests.cluster.daemons import Argument, Daemon, eventually, unused
from tests.cluster.releases import Release

SERVERS = ("etcd", "etcd-peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
QUERIES_PER_SECOND = 1000
API_SERVICE = "10.96.0.1"
"""Address of the Service ``kubernetes``: the first of the range below."""


class ControlPlane:
    """One cluster without nodes, in one directory.

    :param scheduler: more fields of the KubeSchedulerConfiguration: extenders, profiles, percentageOfNodesToScore.
    :param fake_nodes: nobody watches heartbeats or taints new nodes, as nodes without a kubelet need.
    """

    def __init__(
        self,
        directory: Path,
        *,
        release: Release | None = None,
        scheduler: Mapping[str, Any] | None = None,
        fake_nodes: bool = False,
    ) -> None:
        self.directory = directory = unused(directory)
        self.release = release or Release.chosen()
        self.scheduler = dict(scheduler or {})
        self.fake_nodes = fake_nodes
        self.kubeconfig = directory / "admin.kubeconfig"
        self.daemons = {name: Daemon(directory / "logs", name) for name in SERVERS if name != "etcd-peer"}
        self.authority = Authority(directory / "pki")
        self._ports = dict(zip(SERVERS, free_ports(len(SERVERS)), strict=True))
        self._client: Client | None = None

    def __enter__(self) -> "ControlPlane":
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self._ports['kube-apiserver']}"

    @property
    def client(self) -> Client:
        """A client with all rights."""
        if self._client is None:
            self._client = Client.from_kubeconfig(self.kubeconfig, timeout_seconds=30, agent="cluster-tests")
        return self._client

    def start(self) -> None:
        """Start everything; returns once pods can be created and scheduled."""
        issue = self.authority.issue
        names = ("127.0.0.1", "localhost", "kubernetes.default.svc", API_SERVICE)
        issue("apiserver", "kube-apiserver", hosts=names)
        issue("apiserver-kubelet", "kube-apiserver", "system:masters")
        key = self.authority.directory / "service-account.key"
        write_key(key, rsa.generate_private_key(public_exponent=65537, key_size=2048))
        self.write_kubeconfig("admin", "admin", "system:masters")
        self._run("etcd", *self._etcd_flags())
        self._run("kube-apiserver", *self._api_server_flags())
        api_server = self.daemons["kube-apiserver"]
        eventually("a ready API server", lambda: self.client.text("/readyz") == "ok", daemon=api_server)
        self._run("kube-controller-manager", *self._controller_flags())
        self.start_scheduler()
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        eventually("the service account", lambda: self.client.get(account))

    def stop(self) -> None:
        """End the processes, the API server's clients before it, etcd last."""
        if self._client is not None:
            self._client.close()
        for daemon in reversed(self.daemons.values()):
            # An API server drains its watches for a minute when asked politely.
            daemon.stop(by=signal.SIGKILL if daemon.name == "kube-apiserver" else signal.SIGTERM)

    def start_scheduler(self, scheduler: Mapping[str, Any] | None = None) -> None:
        """Start the scheduler, again when it runs.

        :param scheduler: other fields of its configuration from now on; without ``clientConnection`` it asks as fast as it can.
        """
        self.daemons["kube-scheduler"].stop()
        if scheduler is not None:
            self.scheduler = dict(scheduler)
        unhindered = {"qps": QUERIES_PER_SECOND, "burst": 2 * QUERIES_PER_SECOND}
        connection = {
            **self.scheduler.get("clientConnection", unhindered),
            "kubeconfig": str(self.write_kubeconfig("kube-scheduler", "system:kube-scheduler")),
        }
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            **self.scheduler,
            "clientConnection": connection,
        }
        path = self.directory / "scheduler.json"
        path.write_text(json.dumps(config, indent=1))
        self._run("kube-scheduler", *self._serving("kube-scheduler"), f"--config={path}")
        daemon = self.daemons["kube-scheduler"]
        eventually("a scheduler", lambda: _is_healthy(self._ports["kube-scheduler"]), daemon=daemon)

    def restart_api_server(self) -> None:
        """End the API server and start it again with the same address."""
        self.daemons["kube-apiserver"].kill()
        self._run("kube-apiserver", *self._api_server_flags())
        eventually("a ready API server", lambda: self.client.text("/readyz") == "ok")

    def write_kubeconfig(self, name: str, user: str, group: str = "") -> Path:
        """A kubeconfig whose certificate says user and group; the same file each time."""
        certificate, key = self.authority.issue(name, user, group)
        return self._write_kubeconfig(name, {"client-certificate": str(certificate), "client-key": str(key)})

    def write_token_kubeconfig(self, name: str, token: str) -> Path:
        """A kubeconfig with a bearer's token."""
        return self._write_kubeconfig(name, {"token": token})

    def _write_kubeconfig(self, name: str, credentials: Mapping[str, str]) -> Path:
        cluster = {"server": self.url, "certificate-authority": str(self.authority.certificate)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "local",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": name, "user": dict(credentials)}],
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": name}}],
        }
        path = self.directory / f"{name}.kubeconfig"
        path.write_text(json.dumps(config, indent=1))
        return path

    def tool(self, name: str, *arguments: Argument, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run kubectl or helm with all rights; never raises for its exit status."""
        command = [str(self.release.program(name)), "--kubeconfig", str(self.kubeconfig), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, input=stdin, check=False)

    def kubectl(self, *arguments: Argument, stdin: str | None = None) -> str:
        """What kubectl prints. :raises AssertionError: it failed."""
        done = self.tool("kubectl", *arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout

    def _run(self, name: str, *flags: str) -> None:
        self.daemons[name].start([self.release.program(name), *flags])

    def _serving(self, name: str) -> Sequence[str]:
        return (
            f"--secure-port={self._ports[name]}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.directory / name}",
        )

    def _etcd_flags(self) -> Sequence[str]:
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "etcd-peer"))
        return (
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # This cluster need not outlive a power cut.
            "--log-level=warn",
        )

    def _api_server_flags(self) -> Sequence[str]:
        pki = self.authority.directory
        return (
            *self._serving("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # Endpoints may not be loopback addresses.
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            f"--kubelet-client-certificate={pki / 'apiserver-kubelet.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-kubelet.key'}",
            "--kubelet-preferred-address-types=InternalIP,Hostname",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            *(("--disable-admission-plugins=TaintNodesByCondition",) if self.fake_nodes else ()),
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'service-account.key'}",
            f"--service-account-signing-key-file={pki / 'service-account.key'}",
            "--allow-privileged=true",
            "--enable-aggregator-routing=true",  # No kube-proxy: it calls the pods behind a Service themselves.
            "--max-requests-inflight=2000",
            "--max-mutating-requests-inflight=1000",
        )

    def _controller_flags(self) -> Sequence[str]:
        kubeconfig = self.write_kubeconfig("kube-controller-manager", "system:kube-controller-manager")
        return (
            *self._serving("kube-controller-manager"),
            f"--kubeconfig={kubeconfig}",
            f"--service-account-private-key-file={self.authority.directory / 'service-account.key'}",
            f"--root-ca-file={self.authority.certificate}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--controllers=*" + (",-node-lifecycle-controller" if self.fake_nodes else ""),
            f"--kube-api-qps={QUERIES_PER_SECOND}",
            f"--kube-api-burst={2 * QUERIES_PER_SECOND}",
        )


def _is_healthy(port: int) -> bool:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", context=context, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        time.sleep(0.05)
        return False
