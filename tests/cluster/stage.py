"""A real cluster that a scenario asks for: its nodes, its cards, and hands on its processes."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hami_core_py.lab.play import Player
from hami_core_py.lab.simulator import Simulator
from hami_core_py.lab.steps import LabShape, ProcessStep
from tests.cluster.daemons import Daemon, eventually
from tests.cluster.hami import AgentProcess, Hami
from tests.cluster.node import Node
from tests.cluster.plane import ControlPlane
from tests.cluster.simulated import MonitorProcess, write_runtime


class Stage:
    """Control plane, our processes, and the nodes of one scenario, each with its agent."""

    def __init__(self, plane: ControlPlane, shape: LabShape, directory: Path) -> None:
        self.plane, self._shape, self._directory = plane, shape, directory
        self.hami = Hami(plane, json.loads(json.dumps(shape.settings)))
        self.nodes: dict[str, Node] = {}
        self.agents: dict[str, AgentProcess] = {}
        self.simulators: dict[str, Simulator] = {}
        self.monitors: dict[str, MonitorProcess] = {}
        self.drivers: dict[str, Mapping[str, str]] = {}

    @contextlib.contextmanager
    def set_up(self) -> Iterator["Stage"]:
        """Everything runs and all devices are offered; all of it ends afterwards."""
        with contextlib.ExitStack() as ending:
            ending.callback(self.hami.stop)
            self.hami.write_devices(
                _plain({n.name: n.devices for n in self._shape.nodes}), _plain(self._shape.families)
            )
            self.hami.start()
            self.plane.start_scheduler(self.hami.scheduler_config())
            for number, shape in enumerate(self._shape.nodes, 1):
                node = Node(self.plane, self._directory / shape.name, shape.name, number)
                if shape.simulator is not None:
                    self._simulate(node, _plain(shape.simulator))
                self.nodes[shape.name] = ending.enter_context(node)
                agent = self.hami.agent(shape.name, node.kubelet_dir, node.state_dir, node.cdi_dir)
                self.agents[shape.name] = agent
                ending.callback(agent.daemon.stop)
                agent.start(self.drivers.get(shape.name, {}))
            for name in self.nodes:
                self.agents[name].wait_ready()
                eventually(f"devices of {name} offered", lambda name=name: self._offers(name))  # type: ignore[misc]
            for name in self.simulators:
                monitor = self.monitors[name] = MonitorProcess(self.hami, name, self.nodes[name].state_dir)
                ending.callback(monitor.daemon.stop)
                monitor.start(self.drivers[name])
            yield self

    def player(self) -> Player:
        """Plays scenarios here."""
        return Player(
            client=self.plane.client,
            act=self.act,
            env_of=self.env_of,
            simulator_of=self.simulators.get,
            scrape=lambda node: self.monitors[node].scrape(),
        )

    def act(self, step: ProcessStep) -> None:
        """Do to a process what a scenario asks."""
        daemon = self._daemon(step)
        match step.action:
            case "pause":
                daemon.pause()
            case "resume":
                daemon.resume()
            case "kill":
                daemon.kill()
            case "start":
                self._start(step)
            case "restart":
                before = self.agents[step.node].registrations() if step.program == "kubelet" else 0
                daemon.stop()
                self._start(step)
                if step.program == "kubelet":
                    self.agents[step.node].wait_registered(before)
        if step.action in ("start", "restart") and step.node:
            eventually(f"devices of {step.node} offered", lambda: self._offers(step.node))

    def env_of(self, pod: Mapping[str, Any], container: str) -> Mapping[str, str]:
        """Environment of a container as its process received it: the runtime's own account of what it started."""
        node = self.nodes[pod["spec"]["nodeName"]]
        statuses = pod["status"].get("containerStatuses") or ()
        running = next((s["containerID"] for s in statuses if s["name"] == container and s.get("containerID")), "")
        if not running:
            return {}
        inspected = json.loads(node.containerd.crictl("inspect", running.rpartition("/")[2]))
        lines = inspected["info"]["runtimeSpec"]["process"]["env"]
        return dict(line.split("=", 1) for line in lines)

    def _simulate(self, node: Node, settings: dict[str, Any]) -> None:
        """Put simulated devices in place, and their driver into the containers that may see them."""
        node.directory.mkdir(parents=True, exist_ok=True)
        simulator = self.simulators[node.name] = Simulator(
            node.directory / "sim" / "state", {"host": node.name, **settings}
        )
        self.drivers[node.name] = driver = simulator.start()
        node.containerd.runtime = str(write_runtime(node.directory, driver))

    def _daemon(self, step: ProcessStep) -> Daemon:
        match step.program:
            case "kubelet":
                return self.nodes[step.node].kubelet
            case "device-plugin":
                return self.agents[step.node].daemon
            case "scheduler":
                return self.hami.extender
            case "webhook":
                return self.hami.webhook
            case "kube-scheduler":
                return self.plane.daemons["kube-scheduler"]
        raise AssertionError(f"no {step.program} is here")

    def _start(self, step: ProcessStep) -> None:
        match step.program:
            case "kubelet":
                self.nodes[step.node].start_kubelet()
            case "device-plugin":
                self.agents[step.node].start(self.drivers.get(step.node, {}))
                self.agents[step.node].wait_ready()
            case "scheduler":
                self.hami.start_extender()
            case "webhook":
                self.hami.start_webhook()
            case "kube-scheduler":
                self.plane.start_scheduler()

    def _offers(self, node: str) -> bool:
        counts = {family.resources.count for family in self.hami.families.values()}
        return any(self.nodes[node].allocatable(count) != 0 for count in counts)


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
