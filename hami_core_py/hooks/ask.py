"""The typed façade over the plugins: one method per hook, and the place where one backend's failure is contained.

A failure raises ``BackendError`` (or the ``BadInputError`` the hook may raise) to the caller, who answers as its process
must: refuse the family's requests, deny admission, fail the allocation, or leave out the samples. It is counted here and
logged once per cause.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

from hami_core_py.errors import BackendError, BadInputError
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


class Ask:
    """Questions to the plugins of one process."""

    def __init__(self, backends: Backends) -> None:
        self.backends = backends
        self.families: Mapping[str, Family] = backends.families
        self.resources: Mapping[str, Family] = {r: f for f in self.families.values() for r in f.resources.names()}
        self.errors: Counter[str] = Counter()
        self._lock = Lock()
        self._logged: set[tuple[str, str, str]] = set()
        self._owners = {f.name: b for b in backends.loaded for f in b.families}
        self._policies = [b for b in backends.loaded if not b.families]
        manager = backends.manager
        everyone = [b.plugin for b in backends.loaded]
        # One caller per backend and hook, made once: a raising implementation must not end its neighbours' call.
        self._callers: dict[tuple[str, str], Any] = {}
        for backend in backends.loaded:
            others = [p for p in everyone if p is not backend.plugin]
            for hook in backend.hooks:
                self._callers[backend.info.name, hook] = manager.subset_hook_caller(hook, others)
        self._table = {
            hook: manager.subset_hook_caller(hook, everyone) for hook in ("hami_read_request", "hami_read_inventory")
        }

    def owner(self, family: str) -> LoadedBackend:
        """The backend that owns a family. :raises KeyError: nobody does."""
        return self._owners[family]

    def settings(self, family: str) -> Any:
        """Settings of the backend that owns a family; ``None`` when it has none."""
        return self._owners[family].settings

    def implements(self, hook: str, family: str) -> bool:
        """Whether the family's owner answers a hook, or a policy does where policies are asked."""
        return hook in self._owners[family].hooks

    def admit_container(self, backend: LoadedBackend, container: ContainerView, pod: PodView) -> Admission:
        """One backend's changes to a container that names a resource of its; an empty admission when it has none."""
        answers = self._call(backend, "hami_admit_container", container=container, pod=pod, settings=backend.settings)
        return answers[0] if answers else Admission()

    def read_request(self, container: ContainerView, pod: PodView, family: Family) -> tuple[DeviceRequest, ...]:
        """What a container asks of a family; empty when nothing. :raises RequestError: see the hook."""
        arguments = {"container": container, "pod": pod, "family": family}
        return tuple(self._own("hami_read_request", family.name, arguments) or ())

    def read_inventory(self, node: NodeView, family: Family) -> Inventory:
        """A family's devices on a node; empty when none. :raises InventoryError: see the hook."""
        return self._own("hami_read_inventory", family.name, {"node": node, "family": family}) or Inventory()

    def filter_rules(self, request: DeviceRequest, pod: PodView) -> tuple[Rule, ...]:
        """Rules of the family's owner, then of the policies by name."""
        backends = [self._owners[request.family], *self._policies]
        answers = (self._call(b, "hami_filter_rules", request=request, pod=pod) for b in backends)
        return tuple(rule for backend in answers for rules in backend for rule in rules)

    def select_devices(
        self, request: DeviceRequest, candidates: Sequence[Candidate]
    ) -> tuple[int, ...] | Refusal | None:
        """The owner's choice among seats; ``None``: the core's own selection decides."""
        owner = self._owners[request.family]
        answers = self._call(owner, "hami_select_devices", request=request, candidates=candidates)
        if not answers:
            return None
        answer = answers[0]
        if isinstance(answer, Refusal):
            return answer
        chosen = tuple(answer)
        valid = len(chosen) == len(set(chosen)) == request.count and all(0 <= i < len(candidates) for i in chosen)
        if not valid:
            raise self._broken(
                owner, "hami_select_devices", f"expected {request.count} distinct positions, got {chosen}"
            )
        return chosen

    def score_placement(self, view: PlacementView) -> float | None:
        """The owner's score; ``None``: it has no opinion. :raises BackendError: it raised or left 0–1."""
        owner = self._owners[view.family]
        answers = self._call(owner, "hami_score_placement", view=view)
        if not answers:
            return None
        score = float(answers[0])
        if not 0.0 <= score <= 1.0:
            raise self._broken(owner, "hami_score_placement", f"expected 0–1, got {score}")
        return score

    def write_record(self, placed: PlacedPod) -> dict[str, str]:
        """The annotations that the vendor's own software expects for one family of a pod."""
        owner = self._owners[placed.family]
        answers = self._call(owner, "hami_write_record", placed=placed)
        written = {key: text for answer in answers for key, text in answer.items()}
        strangers = sorted(set(written) - set(owner.info.annotations))
        if strangers:
            raise self._broken(owner, "hami_write_record", f"key {strangers[0]!r} is not in BackendInfo.annotations")
        return written

    def read_record(self, pod: PodView, family: Family, shares: Sequence[Share]) -> tuple[Share, ...]:
        """The shares of a v2.10 record, completed by the owner."""
        owner = self._owners[family.name]
        answers = self._call(owner, "hami_read_record", pod=pod, family=family, shares=shares)
        return tuple(answers[0]) if answers else tuple(shares)

    def discover_devices(self, backend: LoadedBackend) -> tuple[Device, ...]:
        """One backend's devices of this node. May block."""
        answers = self._call(backend, "hami_discover_devices", settings=backend.settings)
        return tuple(device for answer in answers for device in answer)

    def check_health(self, backend: LoadedBackend, devices: Sequence[Device]) -> tuple[HealthChange, ...]:
        """One backend's health changes. May wait up to 5 s."""
        answers = self._call(backend, "hami_check_health", devices=devices, settings=backend.settings)
        return tuple(change for answer in answers for change in answer)

    def reconcile_node(self, backend: LoadedBackend, active: Sequence[Allocation]) -> None:
        """Let one backend make the hardware agree with the live allocations. May block."""
        self._call(backend, "hami_reconcile_node", active=active, settings=backend.settings)

    def allocate(self, allocation: Allocation) -> Grant:
        """The owner's grant. May block. :raises BackendError: it raised or answered nothing."""
        owner = self._owners[allocation.family]
        answers = self._call(owner, "hami_allocate", allocation=allocation, settings=owner.settings)
        if not answers:
            raise self._broken(owner, "hami_allocate", "answered nothing; a container would start without its devices")
        grant: Grant = answers[0]
        return grant

    def collect_metrics(self, backend: LoadedBackend, allocations: Sequence[Allocation]) -> tuple[Sample, ...]:
        """One backend's samples. May block."""
        answers = self._call(backend, "hami_collect_metrics", allocations=allocations, settings=backend.settings)
        return tuple(sample for answer in answers for sample in answer)

    def _own(self, hook: str, family: str, arguments: dict[str, Any]) -> Any:
        owner = self._owners[family]
        arguments["settings"] = owner.settings
        answers = self._call(owner, hook, **arguments)
        if answers:
            return answers[0]
        return next(iter(self._guarded(owner, hook, self._table[hook], arguments)), None)

    def _call(self, backend: LoadedBackend, hook: str, **arguments: Any) -> list[Any]:
        caller = self._callers.get((backend.info.name, hook))
        return [] if caller is None else self._guarded(backend, hook, caller, arguments)

    def _guarded(
        self, backend: LoadedBackend, hook: str, caller: Callable[..., list[Any]], arguments: dict[str, Any]
    ) -> list[Any]:
        try:
            return caller(**arguments)
        except BadInputError:
            raise
        except Exception as problem:
            raise self._broken(backend, hook, f"{type(problem).__name__}: {problem}") from problem

    def _broken(self, backend: LoadedBackend, hook: str, problem: str) -> BackendError:
        """Count a failure, and log it the first time this cause is seen."""
        cause = (backend.info.name, hook, problem)
        with self._lock:
            self.errors[backend.info.name] += 1
            is_new = cause not in self._logged
            if is_new and len(self._logged) < 1000:
                self._logged.add(cause)
        if is_new:
            log.error("backend failed", extra={"backend": backend.info.name, "hook": hook, "problem": problem})
        return BackendError(backend.info.name, hook, problem)
