"""Containers' logs, read from the files their kubelets write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from hami_core_py.lab.apiserver.status import Object, StatusError, bad_request

LogFile = Callable[[Object, str, bool], Path | None]
"""The log of a pod's container, or of its previous run when the last argument is true; None when there is none."""

_POLL_S = 0.2


def logs_below(directory: Path) -> LogFile:
    """Logs laid out as kubelets do: `<directory>/<namespace>_<pod>_<uid>/<container>/<restarts>.log`, plain text."""

    def find(pod: Object, container: str, previous: bool) -> Path | None:
        metadata = pod["metadata"]
        folder = directory / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}" / container
        runs = sorted((int(path.stem), path) for path in folder.glob("*.log") if path.stem.isdigit())
        place = -2 if previous else -1
        return runs[place][1] if len(runs) >= -place else None

    return find


def container_of(pod: Object, asked: str) -> str:
    """The container whose log is meant. :raises StatusError: 400 when there is no such one, or several."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    lists = ("containers", "initContainers", "ephemeralContainers")
    names = [one["name"] for kind in lists for one in spec.get(kind) or ()]
    if not asked and len(names) > 1:
        raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
    if asked and asked not in names:
        raise bad_request(f"container {asked} is not valid for pod {name}")
    return asked or names[0]


def log_path(find: LogFile | None, pod: Object, container: str, *, previous: bool) -> Path:
    """:raises StatusError: 400 when the container has not run (or not before)."""
    path = find(pod, container, previous) if find else None
    if path is not None:
        return path
    name = pod["metadata"]["name"]
    if previous:
        raise bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    raise bad_request(f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating')


async def read_log(
    path: Path, *, tail_lines: int | None, limit_bytes: int | None, is_over: Callable[[], bool] | None
) -> AsyncIterator[bytes]:
    """The log's text; with `is_over` also what is added, until that answers true and nothing more has come.

    :raises StatusError: 500 when the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            text = file.read()
            if tail_lines is not None:
                text = b"".join(text.splitlines(keepends=True)[-tail_lines:]) if tail_lines else b""
            if limit_bytes is not None:
                text = text[:limit_bytes]
            yield text
            while is_over is not None:
                over = is_over()  # asked before reading, so that the last words are not missed
                if more := file.read():
                    yield more
                elif over:
                    return
                else:
                    await asyncio.sleep(_POLL_S)
    except OSError as error:
        raise StatusError(500, "InternalError", f"log of a container: {path.name}: {error}") from error
