"""``hami certificates``: makes and renews the certificates of an installation."""

import logging
from datetime import timedelta
from pathlib import Path

import click
from fastapi import FastAPI
from prometheus_client import CollectorRegistry, Gauge

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.commands.common import fail
from hami_core_py.errors import BadInputError, HamiError
from hami_core_py.process import configure_logging, stop_event
from hami_core_py.servers.http import HttpServer, Listen, operations
from hami_core_py.services.certificates.issuing import Subject
from hami_core_py.services.certificates.keeping import Keeper, Wanted

log = logging.getLogger(__name__)

RETRY_SECONDS = (1.0, 60.0)
"""First and longest pause after a pass that failed."""


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    envvar="KUBECONFIG",
    help="Cluster to talk to; default: the cluster this process runs in.",
)
@click.option("--log-level", default="info", show_default=True, help="debug, info, warning or error.")
@click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True)
@click.option("--namespace", required=True, help="Namespace of the Secrets.")
@click.option("--authority", required=True, metavar="SECRET", help="Holds the authority and its key.")
@click.option(
    "--server", "servers", multiple=True, metavar="SECRET=NAME,…", help="A server's certificate; may be repeated."
)
@click.option(
    "--client", "clients", multiple=True, metavar="SECRET=NAME", help="A client's certificate; may be repeated."
)
@click.option(
    "--webhook", "webhooks", multiple=True, help="A mutating webhook configuration that is to trust the authority."
)
@click.option("--lifetime-days", type=click.FloatRange(0, min_open=True), default=90.0, show_default=True)
@click.option("--authority-lifetime-days", type=click.FloatRange(0, min_open=True), default=1825.0, show_default=True)
@click.option(
    "--check-seconds",
    type=click.FloatRange(0, min_open=True),
    default=300.0,
    show_default=True,
    help="Seconds between two looks at what is there.",
)
@click.option("--listen", default="0.0.0.0:9397", show_default=True, help="ADDRESS:PORT of probes and metrics.")
@click.option("--once", is_flag=True, help="Make one pass and end; exits 1 when it failed.")
def command(
    kubeconfig: Path | None,
    log_level: str,
    log_format: str,
    namespace: str,
    authority: str,
    servers: tuple[str, ...],
    clients: tuple[str, ...],
    webhooks: tuple[str, ...],
    lifetime_days: float,
    authority_lifetime_days: float,
    check_seconds: float,
    listen: str,
    once: bool,
) -> None:
    """Make the certificates of an installation, renew them before they end, and tell the API server whom to trust."""
    configure_logging(log_level, log_format)
    try:
        leaves = dict([_leaf(text, "--server") for text in servers] + [_leaf(text, "--client") for text in clients])
        address = Listen.parse(listen)
        client = Client.from_kubeconfig(kubeconfig, agent="hami-certificates")
    except (HamiError, ValueError) as problem:
        fail(str(problem))
        return
    keeper = Keeper(
        client,
        Wanted(
            namespace=namespace,
            authority=authority,
            leaves=leaves,
            webhooks=webhooks,
            lifetime=timedelta(days=lifetime_days),
            authority_lifetime=timedelta(days=authority_lifetime_days),
        ),
    )
    try:
        if once:
            keeper.keep()
        else:
            _keep_on(keeper, address, check_seconds)
    except ApiError as problem:
        fail(problem, code=1)
    finally:
        client.close()


def _keep_on(keeper: Keeper, address: Listen, check_seconds: float) -> None:
    stopped = stop_event()
    registry = CollectorRegistry()
    ends = Gauge("hami_certificate_end_timestamp_seconds", "When a certificate ends.", ("secret",), registry=registry)
    missing: list[str] = ["the first pass has not ended yet"]
    app = FastAPI(openapi_url=None)
    app.include_router(operations(lambda: missing[0] if missing else None, registry))
    try:
        server = HttpServer(app, address, name="certificates").start()
    except OSError as problem:
        fail(str(problem), code=1)
        return
    click.echo(server.url)
    first, longest = RETRY_SECONDS
    pause, failures = 0.0, 0
    while not stopped.wait(pause):
        try:
            keeper.keep()
            missing[:], pause, failures = [], check_seconds, 0
        except ApiError as problem:
            log.warning("certificates not kept; trying again", extra={"problem": str(problem)})
            missing[:], failures = [str(problem)], failures + 1
            pause = min(first * 2.0 ** min(failures - 1, 16), longest)
        for name, end in keeper.ends.items():
            ends.labels(name).set(end.timestamp())
    server.stop()


def _leaf(text: str, option: str) -> tuple[str, Subject]:
    """``SECRET=NAME,NAME`` → Secret and subject. :raises BadInputError: it is not of that form."""
    secret, _, names = text.partition("=")
    found = tuple(name.strip() for name in names.split(",") if name.strip())
    if not secret or not found:
        raise BadInputError(option, "SECRET=NAME", repr(text))
    return secret, Subject(found, is_server=option == "--server")
