"""``hami webhook``: the admission webhook as a process."""

import logging
from pathlib import Path

import click
from prometheus_client import CollectorRegistry

from hami_core_py.commands.common import basic_options, fail, load
from hami_core_py.commands.sources import admission_rules
from hami_core_py.errors import HamiError
from hami_core_py.process import configure_logging, stop_event
from hami_core_py.servers.http import HttpServer, Listen
from hami_core_py.servers.webhook import create_app
from hami_core_py.services.admission import AdmissionService

log = logging.getLogger(__name__)

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command()
@click.option("--listen", default=":9443", show_default=True, help="ADDRESS:PORT; port 0 takes a free one.")
@click.option("--tls-cert", type=FILE, help="Certificate (PEM); renewed files are taken up while running.")
@click.option("--tls-key", type=FILE, help="Its private key (PEM).")
@click.option("--plain-http", is_flag=True, help="Serve without TLS, for tests behind a proxy or on loopback.")
@click.option(
    "--scheduler-name", default=None, help="Written into pods that ask for a device; empty: they keep theirs."
)
@click.option(
    "--force-overwrite-default-scheduler/--no-force-overwrite-default-scheduler",
    default=None,
    help="Whether pods of `default-scheduler` become ours.",
)
@basic_options
def command(
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    plain_http: bool,
    scheduler_name: str | None,
    force_overwrite_default_scheduler: bool | None,
    config: Path | None,
    log_level: str,
    log_format: str,
) -> None:
    """Admit pods that ask for devices: default, check, and write the scheduler's name; refuse what could never work."""
    configure_logging(log_level, log_format)
    stopped = stop_event()
    if plain_http == bool(tls_cert and tls_key) or (plain_http and (tls_cert or tls_key)):
        fail("give both --tls-cert and --tls-key, or --plain-http alone")
    flags = {
        "webhook.scheduler_name": scheduler_name,
        "webhook.force_overwrite_default_scheduler": force_overwrite_default_scheduler,
    }
    try:
        address = Listen.parse(listen, certificate=tls_cert, key=tls_key)
        loaded = load(config, flags)
        max_body_bytes = loaded.settings.webhook.max_body_bytes
        service = AdmissionService(loaded.ask, admission_rules(loaded.settings), max_body_bytes=max_body_bytes)
        server = HttpServer(create_app(service, CollectorRegistry()), address, name="webhook").start()
    except (HamiError, ValueError, OSError) as problem:
        fail(str(problem))
        return
    stopped.wait()
    server.stop()
    log.info("stopped")
