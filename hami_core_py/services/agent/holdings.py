"""What the agent has on disk for each container: the mounted directory, and beside it what was granted and to whom.

    containers/<name>/          mounted into the container; files of the grant, and ``shared``, which anybody may write
    records/<name>.json         ours alone: pod, shares and the answer, so that a container restarts without the API server

Names are random and never used twice. A record that cannot be read is reported and left alone.
"""

import contextlib
import dataclasses
import logging
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from hami_core_py.codecs.native import parse_shares, render_shares
from hami_core_py.decisions.arbiter import HeldShare
from hami_core_py.errors import BadInputError
from hami_core_py.models.allocations import RecordedShare
from hami_core_py.models.devices import no_facts
from hami_core_py.models.requests import ContainerKind
from hami_core_py.services.agent.files import put, read

log = logging.getLogger(__name__)

SHARED = "shared"
"""Subdirectory of a container's directory that anybody may write."""


@dataclass(frozen=True, kw_only=True)
class PodRef:
    """Which pod a container belongs to."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Holding:
    """One name given out by Allocate.

    :ivar ids: the kubelet's device ids. :ivar at: seconds since the Unix epoch.
    :ivar pod: ``None`` until the container's first start.
    :ivar shares: of the whole pod, all families, so that the pod's peak is known without the API server.
    :ivar annotations: of the pod, as a backend saw them. :ivar limits: of the container's spec.
    """

    name: str
    family: str
    ids: frozenset[str]
    at: float
    pod: PodRef | None = None
    container: str = ""
    shares: tuple[HeldShare, ...] = ()
    at_ns: int = 0
    annotations: Mapping[str, str] = field(default_factory=no_facts)
    limits: Mapping[str, str] = field(default_factory=no_facts)


class Holdings:
    """All names of this node; the files are the truth, what is remembered saves reading them again."""

    def __init__(self, state_dir: Path) -> None:
        self.containers = state_dir / "containers"
        self.records = state_dir / "records"
        self._lock = threading.Lock()
        self._known: dict[str, Holding] = {}
        self._told: Callable[[str], None] = lambda _name: None

    def watch(self, told: Callable[[str], None]) -> None:
        """Be told the name of each directory that is there, and from now on of each that was made or removed."""
        self._told = told
        for holding in self.all():
            told(holding.name)

    def open(self) -> None:
        """Make the directories and read what an earlier run has left. :raises OSError: they cannot be used."""
        self.containers.mkdir(parents=True, exist_ok=True)
        self.records.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in sorted(self.records.glob("*.json")):
            try:
                holding = parse_holding(path.read_bytes(), str(path))
            except (OSError, BadInputError, KeyError, TypeError, ValueError) as problem:
                log.error("record of a container left out", extra={"path": str(path), "problem": str(problem)})
                continue
            self._known[holding.name] = holding

    def all(self) -> tuple[Holding, ...]:
        """All names, sorted."""
        with self._lock:
            return tuple(self._known[name] for name in sorted(self._known))

    def get(self, name: str) -> Holding | None:
        """One name; ``None``: it is not known."""
        with self._lock:
            return self._known.get(name)

    def directory(self, name: str) -> Path:
        """The directory that is mounted into the container."""
        if not name.isalnum():
            raise ValueError(f"expected a name of letters and digits, got {name!r}")
        return self.containers / name

    def create(self, family: str, ids: Iterable[str]) -> Holding:
        """A fresh name with its directory, for a container that is not known yet. :raises OSError: it cannot be made."""
        holding = Holding(name=secrets.token_hex(16), family=family, ids=frozenset(ids), at=time.time())
        self.prepare(holding.name)
        self.keep(holding)
        return holding

    def prepare(self, name: str) -> Path:
        """Make sure that the directory of a name exists, as after a reboot that emptied it."""
        directory = self.directory(name)
        shared = directory / SHARED
        if not shared.is_dir():
            shared.mkdir(parents=True, exist_ok=True)
            shared.chmod(0o1777)
        self._told(name)
        return directory

    def keep(self, holding: Holding) -> None:
        """Write a name's record. :raises OSError: it cannot be written."""
        with self._lock:
            put(self.records / f"{holding.name}.json", _render(holding), mode=0o600)
            self._known[holding.name] = holding

    def remove(self, name: str) -> None:
        """Remove directory and record of a name."""
        with self._lock:
            shutil.rmtree(self.directory(name), ignore_errors=True)
            with contextlib.suppress(FileNotFoundError):
                (self.records / f"{name}.json").unlink()
            self._known.pop(name, None)
        self._told(name)

    def stray_directories(self) -> tuple[str, ...]:
        """Names of directories that have no record, as after an interrupted removal."""
        found = (path.name for path in self.containers.iterdir() if path.name.isalnum())
        return tuple(sorted(name for name in found if self.get(name) is None and not self._has_record(name)))

    def _has_record(self, name: str) -> bool:
        return read(self.records / f"{name}.json") is not None


def _render(holding: Holding) -> bytes:
    shares = [
        RecordedShare(container=s.container, family=s.family, device=s.device, share=s.share) for s in holding.shares
    ]
    return orjson.dumps(
        {
            "version": 1,
            "name": holding.name,
            "family": holding.family,
            "ids": sorted(holding.ids),
            "at": holding.at,
            "pod": dataclasses.asdict(holding.pod) if holding.pod else None,
            "container": holding.container,
            "kinds": {s.container: s.kind.value for s in holding.shares},
            "shares": render_shares(shares),
            "at_ns": holding.at_ns,
            "annotations": dict(holding.annotations),
            "limits": dict(holding.limits),
        },
        option=orjson.OPT_INDENT_2,
    )


def parse_holding(text: bytes, where: str) -> Holding:
    """Read a record. :raises: what its values raise when they are not as they should be, ``BadInputError`` among others."""
    values: dict[str, Any] = orjson.loads(text)
    if values["version"] != 1:
        raise BadInputError(where, "version 1", str(values["version"]), "upgrade the agent")
    kinds = {name: ContainerKind(kind) for name, kind in values["kinds"].items()}
    shares = tuple(
        HeldShare(container=s.container, kind=kinds[s.container], family=s.family, device=s.device, share=s.share)
        for s in parse_shares(values["shares"], where)
    )
    return Holding(
        name=values["name"],
        family=values["family"],
        ids=frozenset(values["ids"]),
        at=float(values["at"]),
        pod=PodRef(**values["pod"]) if values["pod"] else None,
        container=values["container"],
        shares=shares,
        at_ns=int(values["at_ns"]),
        annotations=values["annotations"],
        limits=values.get("limits") or {},
    )
