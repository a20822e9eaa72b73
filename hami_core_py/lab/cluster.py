"""The lab's cluster: an API server, our processes unmodified beside it, a small scheduler, and a kubelet per node."""

import base64
import contextlib
import json
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import ApiError, NotFound
from hami_core_py.codecs.quantities import parse_quantity
from hami_core_py.decisions.totals import resources_counted
from hami_core_py.lab.certificates import issue_certificate
from hami_core_py.lab.kubelet import end_containers
from hami_core_py.lab.kubelet.environment import DEFAULT_PATH
from hami_core_py.lab.loopback import free_ports, listens
from hami_core_py.lab.processes import START_SECONDS, LabError, LabProcess, Program, until
from hami_core_py.lab.simulator import Simulator
from hami_core_py.lab.steps import LabShape, ProcessStep
from hami_core_py.lab.webhook import CONFIGURATIONS, webhook_configuration
from hami_core_py.models.families import Family

HAMI = "hami_core_py"
SCHEDULER_NAME = "hami-scheduler"
NAMESPACE = "hami-system"
PER_NODE = ("kubelet", "device-plugin", "monitor")


class LabCluster:
    """One lab in one directory. The directory must have a short path, because it holds Unix sockets.

    :param families: of the installed backends; their resources are what the scheduler sends to the extender.
    :param tell: gets one line of progress at a time.
    """

    def __init__(
        self, directory: Path, shape: LabShape, families: Sequence[Family], tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self.directory, self.shape, self._families, self._tell = directory, shape, families, tell
        self.kubeconfig = directory / "kubeconfig"
        self.config = directory / "hami.yaml"
        self.processes: dict[str, LabProcess] = {}
        self.simulators = {
            node.name: Simulator(self.node_directory(node.name) / "sim", {"host": node.name, **_plain(node.simulator)})
            for node in shape.nodes
            if node.simulator is not None
        }
        self._simulated: dict[str, dict[str, str]] = {}
        ports = iter(free_ports(3 + 2 * len(shape.nodes)))
        self._ports = {name: next(ports) for name in ("apiserver", "webhook", "scheduler")}
        self._node_ports = {(n.name, p): next(ports) for n in shape.nodes for p in PER_NODE[1:]}
        self.url = f"http://127.0.0.1:{self._ports['apiserver']}"

    @property
    def client(self) -> Client:
        """A client of the lab's API server."""
        return Client.from_kubeconfig(self.kubeconfig, agent="hami-lab")

    def start(self) -> None:
        """Start everything and wait until pods can be scheduled. :raises LabError: something did not come up."""
        (self.directory / "logs").mkdir(parents=True, exist_ok=True)
        self._write_files()
        for name, simulator in self.simulators.items():
            self._simulated[name] = simulator.start()
            self._tell(f"simulated devices of node {name} are there")
        self._run(self._api_server())
        self._tell("API server is up")
        self._prepare_api()
        certificate = issue_certificate(self.directory)
        control = [self._webhook(certificate.certificate, certificate.key), self._scheduler(), self._kube_scheduler()]
        nodes = [program for node in self.shape.nodes for program in self._node_programs(node.name)]
        for program in (*control, *nodes):
            self._begin(program)
        for program in control:
            self.processes[program.name].wait_ready()
        self._register_webhook(certificate.authority_pem)
        self._tell("webhook, scheduler extender and scheduler are up")
        for program in nodes:
            self.processes[program.name].wait_ready()
        for node in self.shape.nodes:
            self._wait_node(node.name)
            self._tell(f"node {node.name} is ready: {self._devices_text(node.name)}")

    def stop(self) -> None:
        """End all processes, the API server last, then the containers, which outlive their kubelets."""
        others = [process for name, process in self.processes.items() if name != "apiserver"]
        for process in others:
            process.ask_to_end()
        for process in others:
            process.wait_end()
        if api_server := self.processes.get("apiserver"):
            api_server.end()
        for node in self.shape.nodes:
            end_containers(self.node_directory(node.name))

    def act(self, step: ProcessStep) -> None:
        """Do to a process what a scenario asks. :raises LabError: it did not come back."""
        name = f"{step.program}@{step.node}" if step.node else step.program
        process = self.processes[name]
        match step.action:
            case "pause":
                process.pause()
            case "resume":
                process.resume()
            case "kill":
                process.kill()
            case "start":
                process.start()
                process.wait_ready()
            case "restart":
                process.end()
                process.start()
                process.wait_ready()
                if step.program == "kubelet":
                    self._wait_offered_again(step.node)

    def scrape(self, node: str) -> str:
        """What the monitor of a node shows to Prometheus. :raises LabError: it does not answer."""
        try:
            url = f"http://127.0.0.1:{self._node_ports[node, 'monitor']}/metrics"
            with urllib.request.urlopen(url, timeout=5) as response:
                return str(response.read().decode())
        except (KeyError, OSError) as problem:
            raise LabError(f"the monitor of node {node!r} does not answer: {problem}") from problem

    def node_directory(self, node: str) -> Path:
        """Where a node's kubelet keeps its sockets, logs and containers."""
        return self.directory / "nodes" / node

    def _run(self, program: Program) -> None:
        self._begin(program)
        self.processes[program.name].wait_ready()

    def _begin(self, program: Program) -> None:
        process = self.processes[program.name] = LabProcess(program, self.directory / "logs")
        process.start()

    def _write_files(self) -> None:
        nodes = {node.name: list(node.devices) for node in self.shape.nodes}
        devices = self.directory / "devices.yaml"
        devices.write_text(
            yaml.safe_dump(_plain({"families": list(self.shape.families), "nodes": nodes}), sort_keys=False)
        )
        settings = {**self.shape.settings, "mock": {"devicesFile": str(devices)}}
        self.config.write_text(yaml.safe_dump(_plain(settings), sort_keys=False))
        context = {"cluster": "lab", "user": "lab", "namespace": "default"}
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "clusters": [{"name": "lab", "cluster": {"server": self.url}}],
            "users": [{"name": "lab", "user": {}}],
            "contexts": [{"name": "lab", "context": context}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(kubeconfig, sort_keys=False))

    def _api_server(self) -> Program:
        return Program(
            name="apiserver",
            module="hami_core_py.lab.apiserver",
            arguments=("--port", str(self._ports["apiserver"]), "--pod-logs", str(self.directory / "pod-logs")),
            ready_url=f"{self.url}/readyz",
        )

    def _webhook(self, certificate: Path, key: Path) -> Program:
        port = self._ports["webhook"]
        arguments = ("webhook", "--listen", f"127.0.0.1:{port}", "--tls-cert", str(certificate), "--tls-key", str(key))
        name = ("--scheduler-name", SCHEDULER_NAME)
        return Program(name="webhook", module=HAMI, arguments=(*arguments, *name, "--config", str(self.config)))

    def _scheduler(self) -> Program:
        url = f"http://127.0.0.1:{self._ports['scheduler']}"
        listen = ("--listen", url.removeprefix("http://"), "--plain-http", "--scheduler-name", SCHEDULER_NAME)
        return Program(
            name="scheduler",
            module=HAMI,
            arguments=("scheduler", *self._common(), *listen),
            ready_url=f"{url}/readyz",
        )

    def _kube_scheduler(self) -> Program:
        names = sorted({name for family in self._families for name in family.resources.names()})
        managed = [argument for name in names for argument in ("--managed", name)]
        counted = {name for family in self._families for name in resources_counted(family.resources)}
        ignored = [argument for name in names if name not in counted for argument in ("--ignored", name)]
        url = f"http://127.0.0.1:{self._ports['scheduler']}"
        return Program(
            name="kube-scheduler",
            module="hami_core_py.lab.kubescheduler",
            arguments=("--kubeconfig", str(self.kubeconfig), "--extender", url, *managed, *ignored),
        )

    def _node_programs(self, node: str) -> list[Program]:
        root = self.node_directory(node)
        # There before the agent looks: it takes the directory for the sign that the node's runtime has CDI.
        (root / "cdi").mkdir(parents=True, exist_ok=True)
        driver = self._simulated.get(node, {})
        urls = {p: f"http://127.0.0.1:{self._node_ports[node, p]}" for p in PER_NODE[1:]}
        agent = (
            *("device-plugin", *self._common(), "--node-name", node),
            *("--kubelet-dir", str(root), "--state-dir", str(root / "hami"), "--cdi-dir", str(root / "cdi")),
            *("--listen", urls["device-plugin"].removeprefix("http://"), "--lease-namespace", NAMESPACE),
        )
        monitor = (
            *("monitor", *self._common(), "--node-name", node, "--state-dir", str(root / "hami")),
            *("--listen", urls["monitor"].removeprefix("http://")),
        )
        kubelet = ("--node", node, "--api", self.url, "--root", str(root), "--logs", str(self.directory / "pod-logs"))
        variables = tuple(word for pair in _of_containers(driver).items() for word in ("--env", "=".join(pair)))
        return [
            Program(name=f"kubelet@{node}", module="hami_core_py.lab.kubelet", arguments=(*kubelet, *variables)),
            Program(
                name=f"device-plugin@{node}",
                module=HAMI,
                arguments=agent,
                env={"NODE_NAME": node, **driver},
                ready_url=f"{urls['device-plugin']}/readyz",
            ),
            Program(
                name=f"monitor@{node}",
                module=HAMI,
                arguments=monitor,
                env={"NODE_NAME": node, **driver},
                ready_url=f"{urls['monitor']}/readyz",
            ),
        ]

    def _common(self) -> tuple[str, ...]:
        return "--kubeconfig", str(self.kubeconfig), "--config", str(self.config)

    def _prepare_api(self) -> None:
        for name in (NAMESPACE, "kube-node-lease", "kube-system", "default"):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            try:
                self.client.get(join_path("api", "v1", "namespaces", name))
            except NotFound:
                self.client.create("/api/v1/namespaces", body)

    def _register_webhook(self, authority_pem: bytes) -> None:
        port = self._ports["webhook"]
        until(lambda: listens(port), START_SECONDS, f"webhook did not listen; see {self.processes['webhook'].log}")
        bundle = base64.b64encode(authority_pem).decode()
        self.client.create(CONFIGURATIONS, webhook_configuration(port, bundle))

    def _wait_offered_again(self, node: str) -> None:
        """A restarted kubelet shows no devices until its plugins are back; a pod bound meanwhile fails for good."""
        with contextlib.suppress(LabError):
            until(lambda: not self._is_ready(node, True), 5, "the node showed its devices all the time")
        self._wait_node(node)

    def _wait_node(self, name: str) -> None:
        offered = any(node.devices or node.simulator for node in self.shape.nodes if node.name == name)
        log = self.processes[f"device-plugin@{name}"].log
        until(lambda: self._is_ready(name, offered), START_SECONDS, f"node {name} did not become ready; see {log}")

    def _is_ready(self, name: str, offered: bool) -> bool:
        try:
            status = self.client.get(join_path("api", "v1", "nodes", name)).get("status") or {}
        except ApiError:
            return False
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
        return ready and (bool(self._counts(status)) or not offered)

    def _counts(self, status: Mapping[str, Any]) -> dict[str, int]:
        """Count resource → allocatable amount, without zeros."""
        allocatable = status.get("allocatable") or {}
        names = {family.resources.count for family in self._families} & set(allocatable)
        amounts = {name: int(parse_quantity(str(allocatable[name]))) for name in sorted(names)}
        return {name: amount for name, amount in amounts.items() if amount}

    def _devices_text(self, name: str) -> str:
        status = self.client.get(join_path("api", "v1", "nodes", name)).get("status") or {}
        return ", ".join(f"{amount} × {name}" for name, amount in self._counts(status).items()) or "no devices"


def _of_containers(driver: Mapping[str, str]) -> dict[str, str]:
    """Variables that containers on simulated devices get, as if their image had the driver."""
    if not driver:
        return {}
    folders = driver.get("LD_LIBRARY_PATH", "")
    return {
        **driver,
        "HAMI_SIM_CONTAINER": "$(NAMESPACE)/$(POD)/$(CONTAINER)",
        "PATH": f"{folders}:{DEFAULT_PATH}",
    }


def _plain(value: Any) -> Any:
    """Marked YAML values as ordinary ones, so that they can be dumped."""
    return json.loads(json.dumps(value))
