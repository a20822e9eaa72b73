"""*Ordered* identity: the pod that holds the node lock is the one whose containers the kubelet starts now.

For nodes without CDI and beside v2.10 node plugins. The lock is given back in every outcome, so that no other pod waits for it.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError, NotFound
from hami_core_py.cluster.events import About, Events
from hami_core_py.cluster.locks import NodeLocks
from hami_core_py.cluster.pods import get_pod, patch_annotations
from hami_core_py.codecs.locks import Lock
from hami_core_py.codecs.records import PHASE, SUCCESS, read_record
from hami_core_py.decisions.claims import Claim
from hami_core_py.decisions.kubelet_ids import preferred_ids
from hami_core_py.errors import BadInputError, HamiError, RecordError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import PodRecord
from hami_core_py.models.families import SHARED_LOCK, Family, NodeLock
from hami_core_py.models.views import PodView, pod_view
from hami_core_py.services.agent.answers import Answer
from hami_core_py.services.agent.granting import Granter
from hami_core_py.services.agent.holdings import Holding, Holdings
from hami_core_py.services.agent.meter import Meter
from hami_core_py.services.agent.refused import Cause, RefusedError
from hami_core_py.services.agent.verifying import Verifier
from hami_core_py.services.agent.worklist import WorkList, device_ids, is_finished, work_list

log = logging.getLogger(__name__)

T = TypeVar("T")

FAILED = "failed"
TRIES = 4
"""Attempts of one API call."""


class OrderedIdentity:
    """Serves the kubelet's calls for all families of this node, one Allocate at a time.

    :param trust_v210: whether unsigned v2.10 records count.
    :param pause: waits between tries of an API call, in seconds.
    """

    prestart = False
    """Whether the kubelet must call PreStartContainer."""

    def __init__(
        self,
        ask: Ask,
        node: str,
        client: Client,
        holdings: Holdings,
        verifier: Verifier,
        granter: Granter,
        meter: Meter,
        *,
        trust_v210: bool = True,
        events: Events | None = None,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ask, self._node, self._client, self._holdings = ask, node, client, holdings
        self._verifier, self._granter, self._meter = verifier, granter, meter
        self._trust, self._events, self._pause = trust_v210, events, pause
        self._locks = NodeLocks(client, events=events, pause=pause)
        self._serving = threading.Lock()

    def allocate(self, family: str, requests: Sequence[frozenset[str]], is_alive: Callable[[], bool]) -> list[Answer]:
        """What the next containers of the pod that holds the node lock receive, by its record and not by the ids.

        :param is_alive: whether the kubelet still waits for the answer.
        :raises RefusedError: nobody holds the lock, or the pod that does was not served: its phase is ``failed`` and its
            lock is gone.
        """
        kind = self._ask.families[family]
        with self._serving:
            held = self._holder(kind)
            try:
                return self._serve(kind, held, requests, is_alive)
            except Exception as problem:
                if not isinstance(problem, HamiError | OSError):
                    log.exception("pod not served")
                refusal = problem if isinstance(problem, RefusedError) else RefusedError(_cause(problem), str(problem))
                self._meter.allocated(family, refusal.cause.value)
                self._fail(kind, held, refusal)
                raise refusal from problem

    def prefer(self, family: str, available: Sequence[str], must_include: Sequence[str], size: int) -> tuple[str, ...]:
        """Ids on the devices of the next container of the lock's pod that waits for so many; empty when it is not known."""
        kind = self._ask.families[family]
        try:
            held = self._locks.holder(self._node, _lock(kind))
            if held is None or not held.has_owner:
                return ()
            todo = work_list(pod_view(get_pod(self._client, held.namespace, held.pod)), kind)
        except HamiError:
            return ()
        wanted = next((devices for devices in todo.containers if len(devices) == size), None)
        return preferred_ids(available, must_include, size, device_ids(wanted)) if wanted else ()

    def prepare(self, family: str, ids: frozenset[str]) -> None:
        """Nothing is left to do when a container starts."""

    def _holder(self, family: Family) -> Lock:
        """Who holds the node. :raises RefusedError: nobody who can be named; no pod is touched."""
        key = _lock(family).key
        try:
            held = self._again(lambda: self._locks.holder(self._node, _lock(family)))
        except (ApiError, BadInputError) as problem:
            raise RefusedError(_cause(problem), f"whose container starts cannot be told: {problem}") from problem
        if held is None or not held.has_owner:
            raise RefusedError(
                Cause.UNVERIFIED,
                f"whose container starts cannot be told: node {self._node} has no lock {key} that names a pod; "
                "let the scheduler that HAMi extends bind the pod",
            )
        return held

    def _serve(
        self, family: Family, held: Lock, requests: Sequence[frozenset[str]], is_alive: Callable[[], bool]
    ) -> list[Answer]:
        view = pod_view(self._again(lambda: get_pod(self._client, held.namespace, held.pod)))
        record = read_record(view, self._ask.families, trust_v210=self._trust)
        todo = work_list(view, family)
        answers = []
        for ids in requests:
            answer, todo = self._serve_one(family, view, record, todo, ids)
            answers.append(answer)
        if not is_alive():
            raise RefusedError(Cause.UNAVAILABLE, f"pod {view.namespace}/{view.name}: the kubelet stopped waiting")
        text = todo.render()
        self._patch(view, {todo.key: text})
        left = pod_view(self._again(lambda: get_pod(self._client, held.namespace, held.pod)))
        if is_finished(left, self._ask.families):
            self._patch(view, {PHASE: SUCCESS})
            self._again(lambda: self._locks.release(self._node, held.namespace, held.pod, _lock(family)))
        for _ in answers:
            self._meter.allocated(family.name, "granted")
        return answers

    def _serve_one(
        self, family: Family, view: PodView, record: PodRecord | None, todo: WorkList, ids: frozenset[str]
    ) -> tuple[Answer, WorkList]:
        place = todo.next
        where = f"pod {view.namespace}/{view.name}"
        container = _next_container(family.name, record, todo)
        if place is None or container is None:
            raise RefusedError(Cause.UNVERIFIED, f"{where}: {todo.key} names no container that still waits for devices")
        devices = todo.containers[place]
        if len(devices) != len(ids):
            raise RefusedError(
                Cause.UNVERIFIED,
                f"{where}, container {container!r}: the kubelet gave {len(ids)} ids of {family.resources.count}, "
                f"the record names {len(devices)} devices; delete the pod so that it is scheduled again",
            )
        holding = self._held(view, container, family.name) or Holding(
            name=secrets.token_hex(16), family=family.name, ids=ids, at=time.time()
        )
        claim = Claim(uid=view.uid, container=container, family=family.name, count=len(ids))
        verified = self._verifier.check(claim, holding, view, record)
        if sorted(device_ids(devices)) != sorted(device.id for device, _ in verified.pairs):
            raise RefusedError(
                Cause.UNVERIFIED, f"{where}, container {container!r}: {todo.key} and the record name different devices"
            )
        self._verifier.arbitrate(verified, in_allocate=True)
        self._holdings.prepare(holding.name)
        grant = self._granter.grant(verified.holding, verified.pairs)
        self._granter.write_files(verified.holding, grant)
        self._holdings.keep(verified.holding)
        answer = Answer(
            env=grant.env, mounts=grant.mounts, device_paths=grant.device_paths, cdi_devices=grant.cdi_devices
        )
        return answer, todo.take(place)

    def _held(self, view: PodView, container: str, family: str) -> Holding | None:
        """What the container was given before, when the kubelet asks once more for it."""
        for holding in self._holdings.all():
            pod = holding.pod
            if pod is not None and (pod.uid, holding.container, holding.family) == (view.uid, container, family):
                return holding
        return None

    def _fail(self, family: Family, held: Lock, refusal: RefusedError) -> None:
        """Say that the pod was not served, and give its lock back; neither keeps the other from being tried."""
        where = f"{held.namespace}/{held.pod}"
        log.warning("pod not served", extra={"pod": where, "cause": refusal.cause.value, "problem": str(refusal)})
        uid = ""
        try:
            pod = self._again(lambda: patch_annotations(self._client, held.namespace, held.pod, {PHASE: FAILED}))
            uid = (pod.get("metadata") or {}).get("uid") or ""
        except ApiError as problem:
            log.error("phase not written", extra={"pod": where, "problem": str(problem)})
        try:
            self._again(lambda: self._locks.release(self._node, held.namespace, held.pod, _lock(family)))
        except ApiError as problem:
            log.error("node lock not released", extra={"pod": where, "problem": str(problem)})
        if self._events is not None:
            about = About("Pod", held.pod, held.namespace, uid)
            self._events.say(about, "Warning", "DevicesRefused", str(refusal))

    def _patch(self, view: PodView, annotations: dict[str, str | None]) -> None:
        self._again(lambda: patch_annotations(self._client, view.namespace, view.name, annotations, uid=view.uid))

    def _again(self, call: Callable[[], T]) -> T:
        """An API call, tried again when the server was at fault."""
        for number in range(TRIES):
            try:
                return call()
            except ApiError as problem:
                if number == TRIES - 1 or not (
                    problem.status == 0 or problem.status in (409, 429) or problem.status >= 500
                ):
                    raise
                self._pause(problem.retry_after_seconds or 0.1 * 2**number)
        raise AssertionError("unreachable")


def _next_container(family: str, record: PodRecord | None, todo: WorkList) -> str | None:
    """The container that the kubelet starts now: work is taken from the front, so what is left tells how far it got.

    Positions are not compared with those of the pod's containers: some writers leave out containers without devices.
    """
    shares = record.shares if record is not None else ()
    names = list(dict.fromkeys(s.container for s in shares if s.family == family and s.share.slots))
    left = sum(1 for devices in todo.containers if devices)
    return names[-left] if 0 < left <= len(names) else None


def _lock(family: Family) -> NodeLock:
    return family.lock or SHARED_LOCK


def _cause(problem: Exception) -> Cause:
    if isinstance(problem, NotFound | RecordError | BadInputError):
        return Cause.UNVERIFIED
    return Cause.UNAVAILABLE
