"""``hami device-plugin``: the node agent."""

from pathlib import Path

import click
from prometheus_client import CollectorRegistry

from hami_core_py.cluster.client import Client
from hami_core_py.commands.common import configure_logging, fail, load, process_options, stop_event
from hami_core_py.errors import HamiError
from hami_core_py.servers.agentmetrics import AgentCollector
from hami_core_py.servers.backend_errors import BackendErrors
from hami_core_py.servers.deviceplugin import cdi_names
from hami_core_py.servers.hostpids import HostPids
from hami_core_py.servers.http import HttpServer, Listen, operations
from hami_core_py.servers.pluginserver import PluginServers
from hami_core_py.servers.podresources import PodResourcesClient
from hami_core_py.services.agent.agent import Agent
from hami_core_py.services.agent.options import AgentOptions
from hami_core_py.settings import Settings

STATIC_CDI_DIR = Path("/etc/cdi")
"""Where vendors' CDI specs may lie besides the directory of generated ones."""


@click.command(name="device-plugin")
@process_options
@click.option("--node-name", envvar="NODE_NAME", required=True, help="Name of this node; default: $NODE_NAME.")
@click.option("--backend", "backends", multiple=True, help="Ask only this backend for devices; may be repeated.")
@click.option("--kubelet-dir", type=click.Path(path_type=Path), help="Holds device-plugins and pod-resources.")
@click.option(
    "--state-dir", type=click.Path(path_type=Path), help="Holds what containers mount; the same path on the host."
)
@click.option("--cdi-dir", type=click.Path(path_type=Path), help="Where the runtime looks for CDI specs.")
@click.option("--listen", default="0.0.0.0:9396", show_default=True, help="ADDRESS:PORT of probes and metrics.")
@click.option("--identity", type=click.Choice(["auto", "late", "ordered"]), help="How Allocate learns its pod.")
@click.option("--lease-namespace", help="Namespace of the agents' Leases.")
def command(
    config: Path | None,
    kubeconfig: Path | None,
    log_level: str,
    log_format: str,
    node_name: str,
    backends: tuple[str, ...],
    kubelet_dir: Path | None,
    state_dir: Path | None,
    cdi_dir: Path | None,
    listen: str,
    identity: str | None,
    lease_namespace: str | None,
) -> None:
    """Offer this node's devices to the kubelet and give containers what their pods' records say."""
    configure_logging(log_level, log_format)
    stopped = stop_event()
    fatal: list[HamiError] = []

    def give_up(problem: HamiError) -> None:
        fatal.append(problem)
        stopped.set()

    flags = {
        "agent.kubelet_dir": kubelet_dir,
        "agent.state_dir": state_dir,
        "agent.cdi_dir": cdi_dir,
        "agent.identity": identity,
        "agent.lease_namespace": lease_namespace,
    }
    try:
        address = Listen.parse(listen)
        loaded = load(config, flags)
        options = agent_options(loaded.settings, node_name, backends)
        client = Client.from_kubeconfig(kubeconfig, agent="hami-device-plugin")
        sockets = PodResourcesClient(options.kubelet_dir / "pod-resources" / "kubelet.sock")
        agent = Agent(loaded.ask, client, options, cdi_names=cdi_names, pod_resources=sockets, on_fatal=give_up)
        agent.start()
    except (HamiError, ValueError) as problem:
        fail(str(problem))
        return
    host_pids = HostPids(agent.holdings)
    host_pids.start()
    plugins = PluginServers(agent)
    plugins.start()
    http: HttpServer | None = None
    try:
        http = _serve_operations(agent, plugins, address)
        stopped.wait()
    except OSError as problem:
        fatal.append(HamiError(str(problem)))
    finally:
        plugins.stop()
        agent.stop()
        host_pids.stop()
        if http is not None:
            http.stop()
        client.close()
    if fatal:
        fail(fatal[0], code=1)


def agent_options(settings: Settings, node: str, backends: tuple[str, ...]) -> AgentOptions:
    """What the settings say to one agent; paths are made absolute, as containers are told them."""
    agent = settings.agent
    return AgentOptions(
        node=node,
        kubelet_dir=agent.kubelet_dir.absolute(),
        state_dir=agent.state_dir.absolute(),
        cdi_dir=agent.cdi_dir.absolute(),
        identity=agent.identity,
        backends=backends,
        discovery_seconds=agent.discovery_seconds,
        publish_totals=settings.nodes.publish_totals,
        trust_v210=settings.wire.trust,
        lease_namespace=agent.lease_namespace,
        lease_seconds=agent.lease_seconds,
        vendor_cdi_dirs=(STATIC_CDI_DIR,),
    )


def _serve_operations(agent: Agent, plugins: PluginServers, address: Listen) -> HttpServer:
    from fastapi import FastAPI

    registry = CollectorRegistry()
    registry.register(AgentCollector(agent))
    BackendErrors(agent.ask.errors, registry)
    app = FastAPI(openapi_url=None)
    app.include_router(operations(lambda: agent.missing() or plugins.missing(), registry))
    return HttpServer(app, address, name="device-plugin http").start()
