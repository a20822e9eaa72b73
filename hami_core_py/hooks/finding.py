"""Finding installed plugins and importing them, each alone: one that raises or hangs does not keep the others away."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from threading import Thread
from typing import Any

from hami_core_py.errors import BackendError
from hami_core_py.hooks import specs

log = logging.getLogger(__name__)

IMPORT_SECONDS = 10.0
"""Time one plugin may take to be imported; ten times what a large one needs on a slow disk."""


@dataclass(frozen=True)
class Found:
    """One imported plugin.

    :ivar distribution: name and version of what was installed, such as ``hami-backend-acme 1.2``; for people.
    """

    name: str
    distribution: str
    plugin: object


BLOCKED, NOT_ENABLED = "blocked", "not enabled"
"""Why a plugin is left out by the operator's wish; every other reason is a defect."""


def find(
    enabled: Collection[str] | None, blocked: Collection[str], import_seconds: float = IMPORT_SECONDS
) -> tuple[list[Found], dict[str, str]]:
    """Import the installed plugins that may load.

    :param enabled: names allowed to load; ``None``: all. :param blocked: names skipped before they are imported.
    :returns: the plugins in alphabetical order, and for each that is not among them its name and why.
    :raises BackendError: two distributions claim one name, or an enabled one is not installed.
    """
    points = sorted(entry_points(group=specs.GROUP), key=lambda p: (p.name, distribution(p)))
    wanted = []
    left_out = {}
    for point in points:
        if point.name in blocked or (enabled is not None and point.name not in enabled):
            left_out[point.name] = BLOCKED if point.name in blocked else NOT_ENABLED
        else:
            wanted.append(point)
    _refuse_double_names(wanted)
    for name in sorted(set(enabled or ()) - {p.name for p in points}):
        raise BackendError(name, "", f"enabled but not installed; install hami-backend-{name} or remove the name")
    found = []
    for point in wanted:
        try:
            found.append(Found(point.name, distribution(point), _import(point, import_seconds)))
        except ImportError as problem:
            left_out[point.name] = str(problem)
            log.error("backend import failed", extra={"backend": point.name, "problem": str(problem)})
    return found, left_out


def distribution(point: EntryPoint) -> str:
    """Name and version of the distribution that an entry point came with."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _import(point: EntryPoint, seconds: float) -> Any:
    """The plugin. :raises ImportError: its import raised, tried to end the process, or takes too long."""
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def load() -> None:
        try:
            outcome.append(point.load())
        except BaseException as problem:  # noqa: BLE001 - a stranger's import may raise anything; it must stay alone
            failure.append(problem)

    # A daemon: an import that hangs cannot be ended, and must not keep the process from ending.
    thread = Thread(target=load, name=f"import-{point.name}", daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        problem = failure[0]
        raise ImportError(f"import of {point.value} failed: {type(problem).__name__}: {problem}") from problem
    if not outcome:
        raise ImportError(f"import of {point.value} hangs: not done after {seconds:g} s; block it or upgrade it")
    return outcome[0]


def _refuse_double_names(points: Iterable[EntryPoint]) -> None:
    first: dict[str, EntryPoint] = {}
    for point in points:
        if other := first.get(point.name):
            claims = f"{distribution(other)} and {distribution(point)}"
            raise BackendError(point.name, "", f"two distributions claim this name: {claims}; uninstall or block one")
        first[point.name] = point
