"""Notices what a container takes out of the directory that it shares with us: its limiter keeps the books there."""

import logging
import os
import stat
import threading
from itertools import islice
from pathlib import Path

from hami_core_py.cluster.events import About, Events
from hami_core_py.services.agent.holdings import SHARED, Holding, Holdings

log = logging.getLogger(__name__)

REASON = "SharedFileRemoved"
MOST_FILES, MOST_LOOKED_AT = 16, 64
"""Of one container, which may put there as many as it likes."""


class SharedFiles:
    """Remembers the first plain files of each container, by inode; call ``look`` now and then."""

    def __init__(self, holdings: Holdings, events: Events) -> None:
        self._holdings, self._events = holdings, events
        self._seen: dict[str, dict[str, int]] = {}
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def look(self) -> None:
        """Tell about files that are gone, or are other ones than before; once for each container."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        holdings = {holding.name: holding for holding in self._holdings.all()}
        self._told &= holdings.keys()
        self._seen = {name: self._seen.get(name, {}) for name in holdings}
        for name, seen in self._seen.items():
            directory = self._holdings.directory(name) / SHARED
            gone = sorted(file for file, inode in seen.items() if _inode(directory / file) != inode)
            for file in gone:
                del seen[file]
            if gone and name not in self._told:
                self._tell(holdings[name], gone)
            if len(seen) < MOST_FILES:
                seen |= dict(islice(_plain_files(directory).items(), MOST_FILES))

    def _tell(self, holding: Holding, gone: list[str]) -> None:
        self._told.add(holding.name)
        pod = holding.pod
        log.warning("shared file removed", extra={"container": holding.container, "files": gone})
        if pod is not None:
            message = (
                f"container {holding.container!r} has removed or replaced {', '.join(gone)} of its limits' books; "
                "what it used before is not counted any more: delete the pod"
            )
            self._events.say(About("Pod", pod.name, pod.namespace, pod.uid), "Warning", REASON, message)


def _plain_files(directory: Path) -> dict[str, int]:
    try:
        with os.scandir(directory) as entries:
            return {e.name: e.inode() for e in islice(entries, MOST_LOOKED_AT) if e.is_file(follow_symlinks=False)}
    except OSError:
        return {}


def _inode(path: Path) -> int | None:
    """Of a plain file; ``None``: it is none, or gone."""
    try:
        told = path.lstat()
    except OSError:
        return None
    return told.st_ino if stat.S_ISREG(told.st_mode) else None
