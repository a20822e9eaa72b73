"""From the shares of a container to what it receives: the backend's grant, checked and written where the runtime looks."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hami_core_py.codecs.cdi import CdiError, CdiSpec, cdi_kind, class_word, parse_spec, render_spec, vendor_edits
from hami_core_py.errors import BackendError, BadInputError
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import LoadedBackend
from hami_core_py.models.allocations import Allocation, Grant, Pair
from hami_core_py.services.agent.files import put
from hami_core_py.services.agent.holdings import SHARED, Holding, Holdings
from hami_core_py.services.agent.hostfiles import HostFiles
from hami_core_py.services.agent.refused import Cause, RefusedError
from hami_core_py.services.agent.table import DeviceTable
from hami_core_py.services.agent.timed import TimedCalls

log = logging.getLogger(__name__)

RECONCILE = "hami_reconcile_node"
_SPEC_SUFFIXES = {".json": False, ".yaml": True, ".yml": True}


class Granter:
    """Asks backends for grants and writes them.

    :param cdi_dir: where our specs go. :param vendor_dirs: where the specs of vendors are, later ones beat earlier ones.
    :param timeout_seconds: for one backend call; the kubelet waits 30 s.
    :param has_ended: whether the pod of a UID has ended for good, as far as is known.
    """

    def __init__(
        self,
        ask: Ask,
        table: DeviceTable,
        holdings: Holdings,
        host_files: HostFiles,
        *,
        cdi_dir: Path,
        vendor_dirs: Sequence[Path] = (),
        timeout_seconds: float = 20.0,
        has_ended: Callable[[str], bool] = lambda _uid: False,
    ) -> None:
        self._ask, self._table, self._holdings, self._host_files = ask, table, holdings, host_files
        self._has_ended, self._timeout = has_ended, timeout_seconds
        # Where hardware is cut, what nobody holds is destroyed: that and a new allocation must not overlap.
        self._cutting = {b.info.name: threading.Lock() for b in ask.backends.loaded if RECONCILE in b.hooks}
        self._cdi_dir, self._vendor_dirs = cdi_dir, (*vendor_dirs, cdi_dir)
        self._calls = TimedCalls(timeout_seconds)
        self._specs: dict[Path, tuple[int, CdiSpec | None]] = {}

    def grant(self, holding: Holding, pairs: Sequence[Pair]) -> Grant:
        """Ask the family's owner what a container receives.

        :raises RefusedError: the backend failed, or granted what is not there.
        """
        allocation = self.allocation(holding, pairs)
        owner = self._ask.owner(holding.family)
        try:
            with self._alone(owner):
                self._reconcile(owner, allocation)
                grant = self._calls.run(owner.info.name, "hami_allocate", lambda: self._ask.allocate(allocation))
        except (BackendError, BadInputError) as problem:
            where = f"pod {allocation.namespace}/{allocation.pod}, container {allocation.container!r}"
            raise RefusedError(Cause.BACKEND, f"{where}: {problem}") from problem
        self._check(grant, holding)
        return grant

    def reconcile(self, backend: LoadedBackend) -> None:
        """Let a backend make its hardware agree with all live allocations. :raises BackendError: it failed."""
        with self._alone(backend):
            self._reconcile(backend, None)

    def allocation(self, holding: Holding, pairs: Sequence[Pair]) -> Allocation:
        """One container's live share set, as backends see it."""
        pod = holding.pod
        assert pod is not None
        host = self._host_files.directory(self._ask.owner(holding.family))
        return Allocation(
            family=holding.family,
            pod_uid=pod.uid,
            namespace=pod.namespace,
            pod=pod.name,
            container=holding.container,
            pairs=tuple(pairs),
            directory=str(self._holdings.directory(holding.name)),
            host_directory=str(host) if host else "",
            annotations=holding.annotations,
            limits=holding.limits,
        )

    def active(self) -> list[Allocation]:
        """The allocations of all containers that hold devices here, by name; unknown devices are left out."""
        devices = self._table.snapshot.by_id
        found = []
        for holding in self._holdings.all():
            if holding.pod is None or holding.family not in self._ask.families or self._has_ended(holding.pod.uid):
                continue
            own = [s for s in holding.shares if s.container == holding.container and s.family == holding.family]
            pairs = [(devices[s.device], s.share) for s in own if s.device in devices]
            found.append(self.allocation(holding, pairs))
        return found

    def write(self, holding: Holding, grant: Grant) -> bool:
        """Write a grant's files and the CDI spec of its name; the spec last, since it is what opens the container.

        :returns: whether the spec was written; ``False``: it was right already.
        :raises RefusedError: a vendor's CDI name is in no spec, or a file cannot be written.
        """
        where = f"container {holding.container!r}"
        try:
            self.write_files(holding, grant)
            version, edits = vendor_edits(grant.cdi_devices, self._read_specs() if grant.cdi_devices else ())
            text = render_spec(cdi_kind(holding.family), holding.name, grant, vendor=edits, vendor_version=version)
            self._cdi_dir.mkdir(parents=True, exist_ok=True)
            return put(self.spec_path(holding.family, holding.name), text.encode())
        except CdiError as problem:
            raise RefusedError(Cause.BACKEND, f"{where}: {problem}") from problem
        except OSError as problem:
            raise RefusedError(Cause.UNAVAILABLE, f"{where}: the node cannot write its grant: {problem}") from problem

    def write_files(self, holding: Holding, grant: Grant) -> None:
        """Write the grant's files into the container's directory. :raises OSError: one cannot be written."""
        directory = self._holdings.prepare(holding.name)
        for name, content in sorted(grant.files.items()):
            put(directory / name, content.encode())

    def spec_path(self, family: str, name: str) -> Path:
        """The CDI spec file of a name."""
        return self._cdi_dir / f"hami-{class_word(family)}-{name}.json"

    def remove_spec(self, family: str, name: str) -> None:
        """Remove the CDI spec of a name, if there is one."""
        self.spec_path(family, name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _alone(self, backend: LoadedBackend) -> Iterator[None]:
        """One call at a time to a backend that cuts hardware. :raises BackendError: the one before takes too long."""
        lock = self._cutting.get(backend.info.name)
        if lock is None:
            yield
            return
        if not lock.acquire(timeout=self._timeout):
            raise BackendError(
                backend.info.name, RECONCILE, f"an earlier call has not ended within {self._timeout:g} s"
            )
        try:
            yield
        finally:
            lock.release()

    def _reconcile(self, backend: LoadedBackend, coming: Allocation | None) -> None:
        if RECONCILE not in backend.hooks:
            return
        own = {family.name for family in backend.families}
        active = [one for one in self.active() if one.family in own]
        if coming is not None:
            active = [one for one in active if one.directory != coming.directory] + [coming]
        self._calls.run(backend.info.name, RECONCILE, lambda: self._ask.reconcile_node(backend, active))

    def _check(self, grant: Grant, holding: Holding) -> None:
        """Refuse a grant that names files which are not there: a runtime would make a directory of a missing source."""
        problem = ""
        for name in grant.files:
            if not name or "/" in name or name in (".", "..", SHARED):
                problem = f"file name {name!r} is not a plain one"
        inside = self._holdings.directory(holding.name)
        made_by_us = {inside, inside / SHARED, *(inside / name for name in grant.files)}
        for mount in grant.mounts:
            source = Path(mount.host_path)
            # Other paths may be visible to the runtime alone; those below the state directory are the same for both.
            is_ours = source.is_relative_to(self._holdings.containers.parent)
            if is_ours and source not in made_by_us and not source.exists():
                problem = f"mount source {source} does not exist"
        if problem:
            owner = self._ask.owner(holding.family).info.name
            raise RefusedError(Cause.BACKEND, f"container {holding.container!r}: backend {owner!r}: {problem}")

    def _read_specs(self) -> list[tuple[str, CdiSpec]]:
        """All specs of vendors, read again only when their file has changed; a broken one is reported and left out."""
        found = []
        for directory in self._vendor_dirs:
            paths = sorted(directory.iterdir()) if directory.is_dir() else []
            for path in paths:
                if path.suffix not in _SPEC_SUFFIXES or path.name.startswith((".", "hami-")):
                    continue
                spec = self._read_spec(path)
                if spec is not None:
                    found.append((str(path), spec))
        return found

    def _read_spec(self, path: Path) -> CdiSpec | None:
        try:
            changed = path.stat().st_mtime_ns
            known = self._specs.get(path)
            if known is not None and known[0] == changed:
                return known[1]
            spec = parse_spec(path.read_bytes(), str(path), is_yaml=_SPEC_SUFFIXES[path.suffix])
        except OSError:
            return None
        except CdiError as problem:
            log.warning("CDI spec left out", extra={"path": str(path), "problem": str(problem)})
            spec = None
        self._specs[path] = (changed, spec)
        return spec
