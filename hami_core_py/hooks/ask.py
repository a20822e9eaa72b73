"""The typed façade over the plugins: one method per hook, and the place where one backend's failure is contained.

A failure raises ``BackendError`` (or the ``BadInputError`` the hook may raise) to the caller, who answers as its process
must: refuse the family's requests, deny admission, fail the allocation, or leave out the samples. It is counted here and
logged once per cause.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from threading import Lock
from traceback import walk_tb
from typing import Any, TypeVar

from hami_core_py.errors import BackendError, BadInputError
from hami_core_py.hooks.callers import code_of_hooks, make_callers
from hami_core_py.hooks.manager import Backends, LoadedBackend
from hami_core_py.models.allocations import Allocation, Grant, HealthChange, PlacedPod
from hami_core_py.models.answers import Candidate, Refusal
from hami_core_py.models.backends import Admission, Rule
from hami_core_py.models.devices import Device, Inventory, Share
from hami_core_py.models.families import Family
from hami_core_py.models.requests import DeviceRequest
from hami_core_py.models.samples import Sample
from hami_core_py.models.views import ContainerView, NodeView, PlacementView, PodView

log = logging.getLogger(__name__)

T = TypeVar("T")

MOST_LOGGED_CAUSES = 1000
"""Beyond so many different causes failures are counted only."""


class Ask:
    """Questions to the plugins of one process.

    :ivar missing: backends that should be here and did not load: name → why.
    """

    def __init__(self, backends: Backends) -> None:
        self.backends = backends
        self.missing: Mapping[str, str] = backends.broken
        self.families: Mapping[str, Family] = backends.families
        self.resources: Mapping[str, Family] = {r: f for f in self.families.values() for r in f.resources.names()}
        self.errors: Counter[str] = Counter()
        self._lock = Lock()
        self._logged: set[tuple[str, str, str]] = set()
        self._owners = {f.name: b for b in backends.loaded for f in b.families}
        self._policies = [b for b in backends.loaded if not b.families]
        self._callers = make_callers(backends)
        self._code = code_of_hooks(backends)

    def owner(self, family: str) -> LoadedBackend:
        """The backend that owns a family. :raises KeyError: nobody does."""
        return self._owners[family]

    def settings(self, family: str) -> Any:
        """Settings of the backend that owns a family; ``None`` when it has none."""
        return self._owners[family].settings

    def implements(self, hook: str, family: str) -> bool:
        """Whether the family's owner answers a hook, or a policy wraps it; the core's table does not count."""
        return (self._owners[family].info.name, hook) in self._callers.answered

    def admit_container(self, backend: LoadedBackend, container: ContainerView, pod: PodView) -> Admission:
        """One backend's changes to a container that names a resource of its; an empty admission when it has none."""
        hook = "hami_admit_container"
        answers = self._list(backend, hook, container=container, pod=pod, settings=backend.settings)
        return self._expect(backend, hook, answers[0], Admission) if answers else Admission()

    def read_request(self, container: ContainerView, pod: PodView, family: Family) -> tuple[DeviceRequest, ...]:
        """What a container asks of a family; empty when nothing. :raises RequestError: see the hook."""
        owner, hook = self._owners[family.name], "hami_read_request"
        answer = self._first(owner, hook, container=container, pod=pod, family=family, settings=owner.settings)
        requests = tuple(self._expect(owner, hook, request, DeviceRequest) for request in answer or ())
        for request in requests:
            if request.family != family.name or request.count < 1:
                raise self._broken(owner, hook, f"expected requests of family {family.name!r}, got {request}")
        return requests

    def read_inventory(self, node: NodeView, family: Family) -> Inventory:
        """A family's devices on a node; empty when none. :raises InventoryError: see the hook."""
        owner, hook = self._owners[family.name], "hami_read_inventory"
        answer = self._first(owner, hook, node=node, family=family, settings=owner.settings)
        return Inventory() if answer is None else self._expect(owner, hook, answer, Inventory)

    def filter_rules(self, request: DeviceRequest, pod: PodView) -> tuple[Rule, ...]:
        """Rules of the family's owner, then of the policies by name."""
        backends = [self._owners[request.family], *self._policies]
        answers = (self._list(b, "hami_filter_rules", request=request, pod=pod) for b in backends)
        return tuple(rule for backend in answers for rules in backend for rule in rules)

    def select_devices(
        self, request: DeviceRequest, candidates: Sequence[Candidate]
    ) -> tuple[int, ...] | Refusal | None:
        """The owner's choice among seats; ``None``: the core's own selection decides."""
        owner, hook = self._owners[request.family], "hami_select_devices"
        answer = self._first(owner, hook, request=request, candidates=candidates)
        if answer is None or isinstance(answer, Refusal):
            return answer
        chosen = tuple(answer)
        valid = len(chosen) == len(set(chosen)) == request.count and all(0 <= i < len(candidates) for i in chosen)
        if not valid:
            raise self._broken(owner, hook, f"expected {request.count} distinct positions, got {chosen}")
        return chosen

    def score_placement(self, view: PlacementView) -> float | None:
        """The owner's score; ``None``: it has no opinion. :raises BackendError: it raised or left 0–1."""
        owner, hook = self._owners[view.family], "hami_score_placement"
        answers = self._list(owner, hook, view=view)
        if not answers:
            return None
        score = float(answers[0])
        if not 0.0 <= score <= 1.0:
            raise self._broken(owner, hook, f"expected 0–1, got {score}")
        return score

    def write_record(self, placed: PlacedPod) -> dict[str, str]:
        """The annotations that the vendor's own software expects for one family of a pod."""
        owner = self._owners[placed.family]
        answers = self._list(owner, "hami_write_record", placed=placed)
        written = {key: text for answer in answers for key, text in answer.items()}
        strangers = sorted(set(written) - set(owner.info.annotations))
        if strangers:
            raise self._broken(owner, "hami_write_record", f"key {strangers[0]!r} is not in BackendInfo.annotations")
        return written

    def read_record(self, pod: PodView, family: Family, shares: Sequence[Share]) -> tuple[Share, ...]:
        """The shares of a v2.10 record, completed by the owner."""
        owner = self._owners[family.name]
        answer = self._first(owner, "hami_read_record", pod=pod, family=family, shares=shares)
        return tuple(shares if answer is None else answer)

    def discover_devices(self, backend: LoadedBackend) -> tuple[Device, ...]:
        """One backend's devices of this node. May block."""
        hook = "hami_discover_devices"
        answers = self._list(backend, hook, settings=backend.settings)
        return tuple(self._expect(backend, hook, device, Device) for answer in answers for device in answer)

    def check_health(self, backend: LoadedBackend, devices: Sequence[Device]) -> tuple[HealthChange, ...]:
        """One backend's health changes. May wait up to 5 s."""
        answers = self._list(backend, "hami_check_health", devices=devices, settings=backend.settings)
        return tuple(change for answer in answers for change in answer)

    def reconcile_node(self, backend: LoadedBackend, active: Sequence[Allocation]) -> None:
        """Let one backend make the hardware agree with the live allocations. May block."""
        self._list(backend, "hami_reconcile_node", active=active, settings=backend.settings)

    def allocate(self, allocation: Allocation) -> Grant:
        """The owner's grant. May block. :raises BackendError: it raised or answered nothing."""
        owner, hook = self._owners[allocation.family], "hami_allocate"
        answer = self._first(owner, hook, allocation=allocation, settings=owner.settings)
        if answer is None:
            raise self._broken(owner, hook, "answered nothing; a container would start without its devices")
        return self._expect(owner, hook, answer, Grant)

    def collect_metrics(self, backend: LoadedBackend, allocations: Sequence[Allocation]) -> tuple[Sample, ...]:
        """One backend's samples. May block."""
        answers = self._list(backend, "hami_collect_metrics", allocations=allocations, settings=backend.settings)
        return tuple(sample for answer in answers for sample in answer)

    def _first(self, backend: LoadedBackend, hook: str, **arguments: Any) -> Any:
        """The answer of an owner hook; ``None`` when nobody has one."""
        return self._put(backend, hook, None, arguments)

    def _list(self, backend: LoadedBackend, hook: str, **arguments: Any) -> list[Any]:
        """The answers of a list hook."""
        answers: list[Any] = self._put(backend, hook, [], arguments)
        return answers

    def _put(self, backend: LoadedBackend, hook: str, nobody: Any, arguments: dict[str, Any]) -> Any:
        caller = self._callers.of.get((backend.info.name, hook))
        if caller is None:
            return nobody
        try:
            return caller(**arguments)
        except BadInputError:
            raise
        except Exception as problem:
            raise self._broken(
                self._culprit(problem, backend), hook, f"{type(problem).__name__}: {problem}"
            ) from problem

    def _expect(self, backend: LoadedBackend, hook: str, answer: Any, kind: type[T]) -> T:
        if isinstance(answer, kind):
            return answer
        raise self._broken(backend, hook, f"expected {kind.__name__}, got {type(answer).__name__}")

    def _culprit(self, problem: BaseException, asked: LoadedBackend) -> LoadedBackend:
        """The plugin whose implementation raised: a policy around the asked backend may be the one."""
        frames = [frame.f_code for frame, _ in walk_tb(problem.__traceback__)]
        raised = next((self._code[code] for code in reversed(frames) if code in self._code), [asked])
        return asked if asked in raised else raised[0]

    def _broken(self, backend: LoadedBackend, hook: str, problem: str) -> BackendError:
        """Count a failure, and log it the first time this cause is seen."""
        cause = (backend.info.name, hook, problem)
        with self._lock:
            self.errors[backend.info.name] += 1
            is_new = cause not in self._logged
            if is_new and len(self._logged) < MOST_LOGGED_CAUSES:
                self._logged.add(cause)
        if is_new:
            log.error("backend failed", extra={"backend": backend.info.name, "hook": hook, "problem": problem})
        return BackendError(backend.info.name, hook, problem)
