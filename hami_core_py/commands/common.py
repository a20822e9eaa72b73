"""What the sub-commands share: options, logging, loading settings and backends, waiting for the end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from hami_core_py.errors import HamiError, SettingsError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.process import configure_logging, stop_event
from hami_core_py.services.tables import CoreDefaults
from hami_core_py.settings import Settings, load_settings

F = TypeVar("F", bound=Callable[..., Any])

EXIT_YES, EXIT_NO, EXIT_BAD_INPUT = 0, 1, 2
"""Exit codes of commands that answer a question."""


__all__ = [
    "EXIT_BAD_INPUT",
    "EXIT_NO",
    "EXIT_YES",
    "Loaded",
    "configure_logging",
    "fail",
    "load",
    "process_options",
    "stop_event",
]


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
    try:
        backends = load_backends(
            sections=sections,
            enabled=settings.backends.enabled,
            blocked=settings.backends.blocked,
            defaults=CoreDefaults(),
        )
    except SettingsError as problem:
        if config is None:
            raise
        # Backends know their section, not the file it came from.
        where = f"{config}: {problem.where}"
        raise SettingsError(where, problem.expected, problem.got, problem.hint) from problem
    return Loaded(settings, Ask(backends))


def basic_options(command: F) -> F:
    """Options of every long-running process: ``--config``, ``--log-level``, ``--log-format``."""
    options = (
        click.option(
            "--config",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="Device configuration (YAML).",
        ),
        click.option("--log-level", default="info", show_default=True, help="debug, info, warning or error."),
        click.option("--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True),
    )
    for option in reversed(options):
        command = option(command)
    return command


def process_options(command: F) -> F:
    """The basic options, and ``--kubeconfig`` of processes that talk to a cluster."""
    kubeconfig = click.option(
        "--kubeconfig",
        type=click.Path(path_type=Path),
        envvar="KUBECONFIG",
        help="Cluster to talk to; default: the cluster this process runs in.",
    )
    return basic_options(kubeconfig(command))


def fail(problem: HamiError | str, code: int = EXIT_BAD_INPUT) -> None:
    """Print one sentence to standard error and end with a code."""
    click.echo(f"error: {problem}", err=True)
    raise SystemExit(code)
