"""What the sub-commands share: options, logging, loading settings and backends, waiting for the end."""

import logging
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from pythonjsonlogger.json import JsonFormatter

from hami_core_py.errors import HamiError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.services.tables import CoreDefaults
from hami_core_py.settings import Settings, load_settings

F = TypeVar("F", bound=Callable[..., Any])

EXIT_YES, EXIT_NO, EXIT_BAD_INPUT = 0, 1, 2
"""Exit codes of commands that answer a question."""


@dataclass(frozen=True)
class Loaded:
    """Settings and plugins of one process."""

    settings: Settings
    ask: Ask


def load(config: Path | None, flags: Mapping[str, Any] | None = None) -> Loaded:
    """Settings from file, environment and flags, and the backends they enable.

    :raises SettingsError: a value is wrong. :raises BackendError: two backends claim the same thing.
    """
    settings, sections = load_settings(config, flags)
    backends = load_backends(
        sections=sections,
        enabled=settings.backends.enabled,
        blocked=settings.backends.blocked,
        defaults=CoreDefaults(),
    )
    return Loaded(settings, Ask(backends))


def process_options(command: F) -> F:
    """Options of every long-running process: ``--config``, ``--kubeconfig``, ``--log-level``, ``--log-format``."""
    options = (
        click.option(
            "--config",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="Device configuration (YAML).",
        ),
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            envvar="KUBECONFIG",
            help="Cluster to talk to; default: the cluster this process runs in.",
        ),
        click.option("--log-level", default="info", show_default=True, help="debug, info, warning or error."),
        click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True),
    )
    for option in reversed(options):
        command = option(command)
    return command


def configure_logging(level: str = "info", form: str = "json") -> None:
    """Log to standard error, one JSON object a line with UTC time, or plain text for people."""
    handler = logging.StreamHandler(sys.stderr)
    if form == "json":
        names = {"asctime": "time", "levelname": "level", "name": "logger"}
        handler.setFormatter(
            JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s", rename_fields=names, timestamp=False)
        )
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def stop_event() -> threading.Event:
    """An event that SIGTERM and SIGINT set; call it from the main thread."""
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    return stopped


def fail(problem: HamiError | str, code: int = EXIT_BAD_INPUT) -> None:
    """Print one sentence to standard error and end with a code."""
    click.echo(f"error: {problem}", err=True)
    raise SystemExit(code)
