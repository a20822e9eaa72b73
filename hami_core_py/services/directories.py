"""Which directory of the node agent belongs to which container, as its records say; for those who only look."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hami_core_py.errors import BadInputError
from hami_core_py.services.agent.holdings import Holding, Holdings, parse_holding

log = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""Pod UID, container and family."""


@dataclass(frozen=True, slots=True)
class Known:
    """A container's directory, and the limits of its spec."""

    directory: str
    limits: Mapping[str, str]


class Directories:
    """Reads the agent's records; a record is read again only when its file has changed.

    :param state_dir: the agent's state directory; it need not exist.
    """

    def __init__(self, state_dir: Path) -> None:
        self._holdings = Holdings(state_dir)
        self._read: dict[Path, tuple[int, Holding | None]] = {}

    def by_container(self) -> dict[Key, Known]:
        """What is known of each container; of two records for one container the later one counts."""
        read = {}
        try:
            paths = sorted(self._holdings.records.glob("*.json"))
        except OSError:
            paths = []
        for path in paths:
            try:
                changed = path.stat().st_mtime_ns
                known = self._read.get(path)
                read[path] = known if known and known[0] == changed else (changed, self._parse(path))
            except OSError:
                continue  # it has just been removed
        self._read = read
        found: dict[Key, Holding] = {}
        for _, holding in read.values():
            if holding is None or holding.pod is None:
                continue
            key = (holding.pod.uid, holding.container, holding.family)
            if key not in found or found[key].at < holding.at:
                found[key] = holding
        return {
            key: Known(str(self._holdings.directory(holding.name)), holding.limits) for key, holding in found.items()
        }

    def _parse(self, path: Path) -> Holding | None:
        try:
            return parse_holding(path.read_bytes(), str(path))
        except (BadInputError, KeyError, TypeError, ValueError) as problem:
            log.warning("record of a container left out", extra={"path": str(path), "problem": str(problem)})
            return None
