"""``hami monitor``: metrics of one node."""

from pathlib import Path

import click
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from hami_core_py.cluster.client import Client
from hami_core_py.commands.common import configure_logging, fail, load, process_options, stop_event
from hami_core_py.errors import HamiError
from hami_core_py.servers.backend_errors import BackendErrors
from hami_core_py.servers.exporter import SampleCollector
from hami_core_py.servers.http import HttpServer, Listen, operations
from hami_core_py.services.monitoring import Monitor


@click.command()
@process_options
@click.option("--node-name", envvar="NODE_NAME", required=True, help="Name of this node; default: $NODE_NAME.")
@click.option("--listen", default="0.0.0.0:9394", show_default=True, help="ADDRESS:PORT of probes and metrics.")
@click.option(
    "--state-dir", type=click.Path(path_type=Path), help="The node agent's; it tells whose directory is whose."
)
@click.option(
    "--legacy-metrics/--no-legacy-metrics", default=None, help="Show the names from before HAMi 2.9 as well, or not."
)
@click.option("--interval", type=click.FloatRange(0, min_open=True), help="Seconds between two measurements.")
def command(
    config: Path | None,
    kubeconfig: Path | None,
    log_level: str,
    log_format: str,
    node_name: str,
    listen: str,
    state_dir: Path | None,
    legacy_metrics: bool | None,
    interval: float | None,
) -> None:
    """Measure this node's devices and who holds them, for Prometheus to scrape."""
    configure_logging(log_level, log_format)
    stopped = stop_event()
    try:
        address = Listen.parse(listen)
        flags = {"monitor.interval_seconds": interval, "monitor.legacy_metrics": legacy_metrics}
        loaded = load(config, {**flags, "agent.state_dir": state_dir})
        client = Client.from_kubeconfig(kubeconfig, agent="hami-monitor")
    except (HamiError, ValueError) as problem:
        fail(str(problem))
        return
    monitor = Monitor(
        client,
        loaded.ask,
        node_name,
        interval_seconds=loaded.settings.monitor.interval_seconds,
        trust_v210=loaded.settings.wire.trust,
        older_names=loaded.settings.monitor.legacy_metrics,
        state_dir=loaded.settings.agent.state_dir.absolute(),
    )
    server = HttpServer(_app(monitor), address, name="monitor")
    try:
        server.start()
    except OSError as problem:
        fail(str(problem), code=1)
    click.echo(server.url)
    monitor.start()
    stopped.wait()
    server.stop()
    monitor.stop()
    client.close()


def _app(monitor: Monitor) -> FastAPI:
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector):
        collector(registry=registry)
    BackendErrors(monitor.ask.errors, registry)
    registry.register(SampleCollector(monitor.samples))
    app = FastAPI(openapi_url=None)
    app.include_router(operations(monitor.missing, registry))
    return app
