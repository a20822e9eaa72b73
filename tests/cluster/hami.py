"""Our own processes beside a real control plane, as the chart would run them."""

import contextlib
import sys
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from hami_core_py.cluster.client import join_path
from hami_core_py.cluster.errors import AlreadyExists, ApiError, NotFound
from hami_core_py.commands.common import load
from hami_core_py.decisions.totals import resources_counted
from hami_core_py.lab.loopback import answers, free_ports, listens
from hami_core_py.lab.webhook import CONFIGURATIONS, webhook_configuration
from hami_core_py.models.families import Family
from tests.cluster.daemons import Daemon, eventually
from tests.cluster.plane import ControlPlane

SCHEDULER = "hami-scheduler"
NAMESPACE = "hami-system"
WEBHOOKS = CONFIGURATIONS
DEFAULTS: Mapping[str, Any] = {"backends": {"enabled": ["nvidia", "mock"]}}


class Hami:
    """Webhook and extender of one cluster.

    :param settings: the processes' configuration, as in their file.
    """

    def __init__(self, plane: ControlPlane, settings: Mapping[str, Any] | None = None) -> None:
        self.plane = plane
        self.directory = plane.directory / "hami"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config = self.directory / "hami.yaml"
        self.devices = self.directory / "devices.yaml"
        self.write_devices({})
        self.settings = {**DEFAULTS, "mock": {"devicesFile": str(self.devices)}, **(settings or {})}
        self.config.write_text(yaml.safe_dump(self.settings))
        self.families = load(self.config).ask.families
        self.webhook_port, self.extender_port = free_ports(2)
        self.webhook = Daemon(plane.directory / "logs", "webhook")
        self.extender = Daemon(plane.directory / "logs", "extender")

    @property
    def family(self) -> Family:
        """The family that the tests' pods ask for."""
        return self.families["NVIDIA"]

    @property
    def extender_url(self) -> str:
        """Where kube-scheduler finds the extender."""
        return f"http://127.0.0.1:{self.extender_port}"

    def write_devices(self, nodes: Mapping[str, Sequence[Mapping[str, Any]]], families: Sequence[Any] = ()) -> None:
        """Which invented devices each node has."""
        text = yaml.safe_dump({"families": list(families), "nodes": {name: list(d) for name, d in nodes.items()}})
        other = self.devices.with_suffix(".new")
        other.write_text(text)
        other.replace(self.devices)

    def scheduler_config(
        self, *, ignored: Iterable[str] | None = None, percentage: int | None = None, **extender: Any
    ) -> dict[str, Any]:
        """Fields of the KubeSchedulerConfiguration that call our extender.

        :param ignored: resources that kube-scheduler leaves to us; by default those that nodes have no total of.
        """
        names = sorted({name for family in self.families.values() for name in family.resources.names()})
        left_out = set(self.without_totals() if ignored is None else ignored)
        managed = [{"name": name, "ignoredByScheduler": name in left_out} for name in names]
        verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
        config: dict[str, Any] = {
            "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": SCHEDULER}],
            "extenders": [
                {
                    "urlPrefix": self.extender_url,
                    **verbs,
                    "weight": 141,
                    "nodeCacheCapable": True,
                    "httpTimeout": "5s",
                    "managedResources": managed,
                    **extender,
                }
            ],
        }
        return config if percentage is None else {**config, "percentageOfNodesToScore": percentage}

    def without_totals(self) -> set[str]:
        """Resources that no node has a total of."""
        families = self.families.values()
        return {name for f in families for name in set(f.resources.names()) - resources_counted(f.resources)}

    def start(self) -> None:
        """Start both and register the webhook with failurePolicy Fail."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        with contextlib.suppress(AlreadyExists):
            self.plane.client.create("/api/v1/namespaces", body)
        self.start_extender()
        self.start_webhook()
        self._register()

    def stop(self) -> None:
        """End both, and let pods be created without the webhook."""
        with contextlib.suppress(ApiError):
            self.plane.client.delete(f"{WEBHOOKS}/hami")
        for daemon in (self.webhook, self.extender):
            daemon.stop()

    def run_again(self) -> None:
        """Start what a test that failed may have left ended or stopped in its tracks."""
        for daemon, start in ((self.extender, self.start_extender), (self.webhook, self.start_webhook)):
            daemon.resume()
            if daemon.pid is None:
                start()

    def start_extender(self, *flags: str) -> None:
        """Start the extender; returns once it can decide."""
        kubeconfig = self.plane.write_kubeconfig("hami-scheduler", "hami-scheduler", "system:masters")
        url = f"127.0.0.1:{self.extender_port}"
        arguments = ("--listen", url, "--plain-http", "--kubeconfig", str(kubeconfig), "--scheduler-name", SCHEDULER)
        self.extender.start([*self._hami("scheduler"), *arguments, *flags])
        eventually("a ready extender", lambda: answers(f"http://{url}/readyz"), daemon=self.extender)

    def start_webhook(self) -> None:
        """Start the webhook; returns once it listens."""
        certificate, key = self.plane.authority.issue("webhook", "hami-webhook", hosts=("127.0.0.1",))
        url = f"127.0.0.1:{self.webhook_port}"
        arguments = ("--listen", url, "--tls-cert", str(certificate), "--tls-key", str(key))
        self.webhook.start([*self._hami("webhook"), *arguments, "--scheduler-name", SCHEDULER])
        eventually("a listening webhook", lambda: listens(self.webhook_port), daemon=self.webhook)

    def agent(self, node: str, kubelet_dir: Path, state_dir: Path, cdi_dir: Path) -> "AgentProcess":
        """A node agent that is not started yet."""
        return AgentProcess(self, node, kubelet_dir, state_dir, cdi_dir)

    def metrics(self) -> str:
        """What the extender says of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.extender_port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())

    def _hami(self, command: str) -> list[str]:
        return [sys.executable, "-m", "hami_core_py", command, "--config", str(self.config)]

    def _register(self) -> None:
        body = webhook_configuration(self.webhook_port, self.plane.authority.bundle())
        with contextlib.suppress(NotFound):  # Another one may have been ended before its time.
            self.plane.client.delete(f"{WEBHOOKS}/hami")
        self.plane.client.create(WEBHOOKS, body)
        eventually("the webhook in force", self._is_in_force)

    def _is_in_force(self) -> bool:
        """Whether a trial pod gets our scheduler; a dry run leaves nothing behind."""
        limits = {self.family.resources.count: "1"}
        spec = {"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}]}
        trial = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trial"}, "spec": spec}
        path = join_path("api", "v1", "namespaces", "default", "pods")
        try:
            made = self.plane.client.create(path, trial, {"dryRun": "All"})
        except ApiError:
            return False
        return bool(made["spec"]["schedulerName"] == SCHEDULER)


class AgentProcess:
    """``hami device-plugin`` of one node, running or not."""

    def __init__(self, hami: Hami, node: str, kubelet_dir: Path, state_dir: Path, cdi_dir: Path) -> None:
        self._hami, self.node = hami, node
        self._folders = (kubelet_dir, state_dir, cdi_dir)
        self.daemon = Daemon(hami.plane.directory / "logs", f"device-plugin-{node}")
        (self._port,) = free_ports(1)

    def start(self, driver: Mapping[str, str] = MappingProxyType({})) -> None:
        """Start it; returns at once. :param driver: variables under which it finds a driver."""
        kubelet_dir, state_dir, cdi_dir = map(str, self._folders)
        kubeconfig = self._hami.plane.write_kubeconfig("hami-agent", "hami-agent", "system:masters")
        command = [sys.executable, "-m", "hami_core_py", "device-plugin", "--config", str(self._hami.config)]
        command += ["--kubeconfig", str(kubeconfig), "--node-name", self.node, "--listen", f"127.0.0.1:{self._port}"]
        command += ["--kubelet-dir", kubelet_dir, "--state-dir", state_dir, "--cdi-dir", cdi_dir]
        command += ["--identity", "late", "--lease-namespace", NAMESPACE]
        self.daemon.start(command, {"NODE_NAME": self.node, **driver})

    def registrations(self) -> int:
        """How often it has registered with a kubelet, by its log."""
        return self.daemon.log.read_text(errors="replace").count('"registered with the kubelet"')

    def wait_registered(self, before: int) -> None:
        """Wait until it has registered more often than before: what the API server says of the node may be older.

        A pod that is bound to a node whose agent has not registered again fails for good.
        """
        eventually("a registration", lambda: self.registrations() > before, daemon=self.daemon)
        self.wait_ready()

    def is_ready(self) -> bool:
        """Whether it says so."""
        return answers(f"http://127.0.0.1:{self._port}/readyz")

    def wait_ready(self) -> None:
        """Wait until it says so."""
        eventually("a ready agent", self.is_ready, daemon=self.daemon)
