"""``hami scheduler``: the kube-scheduler extender."""

import gc
import ipaddress
import sys
from pathlib import Path
from typing import Literal

import click
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from hami_core_py.cluster.client import Client
from hami_core_py.commands.common import fail, load, process_options
from hami_core_py.commands.sources import default_policies
from hami_core_py.errors import HamiError
from hami_core_py.process import configure_logging, stop_event
from hami_core_py.servers.extender import Extender
from hami_core_py.servers.extender_metrics import SchedulerCollector
from hami_core_py.servers.http import HttpServer, Listen, operations
from hami_core_py.services.scheduling.assembly import Options, Scheduler
from hami_core_py.settings import Settings

SWITCH_SECONDS = 0.0005
"""How long one thread may keep the interpreter while another waits: a decision must not queue behind a burst of events for
the interpreter's default of 5 ms."""

COLLECT_AFTER = (50_000, 50, 1000)
"""When the garbage collector runs by itself: hardly ever, since nearly everything is freed by its last reference. What is
left over are the few cycles of frameworks."""


@click.command()
@process_options
@click.option("--listen", default="127.0.0.1:9443", show_default=True, help="ADDRESS:PORT; port 0 takes a free one.")
@click.option("--plain-http", is_flag=True, help="Serve without TLS; on loopback only.")
@click.option("--tls-cert", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Certificate (PEM).")
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Its key (PEM).")
@click.option(
    "--client-ca",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Authority of the clients' certificates (PEM); beyond loopback they are demanded.",
)
@click.option(
    "--metrics-listen",
    help="ADDRESS:PORT of probes and metrics alone, in plain HTTP; default: beside the extender's own routes only.",
)
@click.option("--scheduler-name", help="Source of the events we write.")
@click.option("--node-policy", type=click.Choice(["binpack", "spread"]), help="Default policy among nodes.")
@click.option("--device-policy", help="Default policy among the devices of a node, or a comma list of them.")
@click.option("--mode", type=click.Choice(["all-nodes", "single-node"]), help="What filter answers.")
def command(
    config: Path | None,
    kubeconfig: Path | None,
    log_level: str,
    log_format: str,
    listen: str,
    plain_http: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    client_ca: Path | None,
    metrics_listen: str | None,
    scheduler_name: str | None,
    node_policy: str | None,
    device_policy: str | None,
    mode: Literal["all-nodes", "single-node"] | None,
) -> None:
    """Run the kube-scheduler extender."""
    configure_logging(log_level, log_format)
    flags = {
        "placement.node_policy": node_policy,
        "placement.device_policy": device_policy,
        "placement.mode": mode,
        "webhook.scheduler_name": scheduler_name,
    }
    try:
        where = _listen(listen, plain_http, tls_cert, tls_key, client_ca)
        beside = Listen.parse(metrics_listen) if metrics_listen else None
        loaded = load(config, flags)
        settings = loaded.settings
        chosen = options(settings)
        client = Client.from_kubeconfig(
            kubeconfig, timeout_seconds=settings.scheduler.api_timeout_seconds, agent="hami-scheduler"
        )
    except (HamiError, ValueError) as problem:
        fail(str(problem))
        return
    stopped = stop_event()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECT_AFTER)
    registry = CollectorRegistry()
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)
    scheduler = Scheduler(client, loaded.ask, chosen, on_loaded=settle_memory)
    registry.register(SchedulerCollector(scheduler))
    extender = Extender(scheduler.scheduling, registry, max_body_bytes=settings.scheduler.max_body_bytes)
    app = FastAPI(openapi_url=None)
    app.include_router(extender.router())
    app.include_router(operations(scheduler.missing, registry))
    servers = [HttpServer(extender.around(app), where, name="extender")]
    if beside is not None:
        # A kubelet and Prometheus reach neither loopback nor a port that demands client certificates.
        operated = FastAPI(openapi_url=None)
        operated.include_router(operations(scheduler.missing, registry))
        servers.append(HttpServer(operated, beside, name="extender metrics"))
    try:
        for server in servers:
            server.start()
    except OSError as problem:
        fail(str(problem))
    for server in servers:
        click.echo(server.url)
    scheduler.start()
    stopped.wait()
    for server in servers:
        server.stop()
    extender.close()
    scheduler.stop()
    client.close()


def options(settings: Settings) -> Options:
    """A scheduler's options from the settings."""
    placement, reservation = settings.placement, settings.reservation
    return Options(
        name=settings.webhook.scheduler_name or "hami-scheduler",
        policies=default_policies(placement),
        mode=placement.mode,
        shortlist=placement.shortlist,
        assumed_seconds=reservation.assumed_seconds,
        volume_seconds=reservation.volume_seconds,
        trust_v210=settings.wire.trust,
        needs_allocatable=settings.nodes.liveness == "allocatable",
        reconcile_seconds=settings.scheduler.reconcile_seconds,
        evict=settings.monitor.evict,
    )


def settle_memory() -> None:
    """Keep what lives long out of the garbage collector's sight.

    A full collection over 50,000 pods takes some 40 ms in which nothing is decided; what is frozen is not looked at any more,
    and freed all the same when nobody refers to it.
    """
    gc.collect()
    gc.freeze()


def _listen(text: str, plain_http: bool, certificate: Path | None, key: Path | None, client_ca: Path | None) -> Listen:
    """Where to listen, and how. :raises ValueError: a combination that would serve strangers, or nobody."""
    if plain_http == bool(certificate or key):
        raise ValueError("expected either --plain-http, or --tls-cert and --tls-key")
    if bool(certificate) != bool(key):
        raise ValueError("expected --tls-cert and --tls-key together")
    where = Listen.parse(text, certificate=certificate, key=key, client_ca=client_ca)
    if not _is_loopback(where.host):
        if plain_http:
            raise ValueError(f"plain HTTP is served on loopback only, got {text!r}; use --tls-cert and --tls-key")
        if client_ca is None:
            raise ValueError(
                f"{text!r} is not on loopback: expected --client-ca, so that only kube-scheduler can bind pods"
            )
    return where


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
