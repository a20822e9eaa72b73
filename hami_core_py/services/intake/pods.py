"""From pod events to the ledger: what each bound pod's record says it holds.

Annotations of a pod that is not bound are no record: it may never run, and its author may have written them.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Protocol

from hami_core_py.codecs.native import RECORD
from hami_core_py.codecs.records import NODE, read_record
from hami_core_py.errors import BackendError, RecordError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.allocations import Dialect, PodRecord, RecordedShare
from hami_core_py.models.devices import DeviceId
from hami_core_py.models.views import PodView, pod_view
from hami_core_py.services.holding import Holding
from hami_core_py.services.ledger import Ledger

log = logging.getLogger(__name__)

ENDED = ("Succeeded", "Failed")
"""Phases of a pod whose containers will not run again; it holds nothing."""

Texts = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNews:
    """What one pod event says that matters here.

    :ivar view: the pod, when it is bound and carries a record; else ``None``.
    :ivar condition: tells one ``PodScheduled=False`` from the next; empty when the condition is not there or not false.
    :ivar nominated: node that kube-scheduler named for it.
    """

    uid: str
    namespace: str
    name: str
    node: str
    ended: bool
    view: PodView | None
    condition: str = ""
    nominated: str = ""


class PodListener(Protocol):
    """Who wants to hear of pods that are not bound yet, or no longer there."""

    def pod_bound(self, uid: str, node: str) -> None:
        """The pod is on a node; what it holds is in the ledger."""

    def pod_gone(self, uid: str) -> None:
        """The pod was deleted, or has ended."""

    def pod_waits(self, uid: str, condition: str, nominated: str) -> None:
        """The pod is not bound."""

    def list_begins(self) -> None:
        """All pods are about to be listed."""

    def list_ends(self, uids: Collection[str]) -> None:
        """These are all pods of that list."""


def read_pod_news(pod: Mapping[str, Any]) -> PodNews:
    """What matters of a pod object of the API (decoded JSON)."""
    metadata = pod.get("metadata") or {}
    status = pod.get("status") or {}
    node = (pod.get("spec") or {}).get("nodeName") or ""
    annotations = metadata.get("annotations") or {}
    ended = status.get("phase") in ENDED
    has_record = bool(node) and not ended and (RECORD in annotations or NODE in annotations)
    return PodNews(
        uid=metadata.get("uid") or "",
        namespace=metadata.get("namespace") or "default",
        name=metadata.get("name") or "",
        node=node,
        ended=ended,
        view=pod_view(pod) if has_record else None,
        condition="" if node else scheduled_condition(status.get("conditions") or ()),
        nominated="" if node else status.get("nominatedNodeName") or "",
    )


def scheduled_condition(conditions: Sequence[Mapping[str, Any]]) -> str:
    """Text that changes with each ``PodScheduled=False`` that says something new; empty when it is not false."""
    for condition in conditions:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            fields = ("lastTransitionTime", "reason", "message")
            return "\0".join(str(condition.get(field) or "") for field in fields)
    return ""


class PodIntake:
    """Keeps the ledger current. Not safe for threads: one watcher feeds it.

    A record that cannot be read blocks its devices until the pod is gone; it never stops other pods.
    """

    def __init__(
        self, ledger: Ledger, ask: Ask, *, trust_v210: bool = True, listener: PodListener | None = None
    ) -> None:
        self._ledger, self._ask, self._trust_v210 = ledger, ask, trust_v210
        self._listener = listener
        self._texts: dict[str, tuple[str, Texts]] = {}
        keys = {RECORD, NODE}
        for family in ask.families.values():
            if family.v210 is not None:
                keys.add(family.v210.allocated)
        owned = {key for backend in ask.backends.loaded for key in backend.info.annotations}
        self._keys = tuple(sorted(keys | owned))

    def list_begins(self) -> None:
        """All pods are about to be listed; what happens from now on may be newer than the list."""
        if self._listener is not None:
            self._listener.list_begins()

    def sync(self, news: Iterable[PodNews]) -> None:
        """These are all pods there were when the list was made."""
        found = {pod.uid: pod for pod in news if pod.uid}
        for uid in sorted(set(self._texts) - set(found)):
            self._forget(uid)
        for pod in found.values():
            self.update(pod)
        if self._listener is not None:
            self._listener.list_ends(found.keys())

    def update(self, pod: PodNews) -> None:
        """A pod appeared or changed."""
        if pod.ended:
            self.remove(pod.uid)
        elif not pod.node:
            # A pod never leaves its node; it was never bound, so it holds nothing yet.
            if self._listener is not None:
                self._listener.pod_waits(pod.uid, pod.condition, pod.nominated)
        else:
            if pod.view is not None:
                self._read(pod.view)
            else:
                self._forget(pod.uid)
            if self._listener is not None:
                self._listener.pod_bound(pod.uid, pod.node)

    def remove(self, uid: str) -> None:
        """A pod is gone or has ended; hearing it twice does no harm."""
        self._forget(uid)
        if self._listener is not None:
            self._listener.pod_gone(uid)

    def holdings(self, news: Iterable[PodNews]) -> dict[str, Holding]:
        """What these pods hold by a fresh reading; unreadable records, which block, are left out."""
        found = {}
        for pod in news:
            if pod.view is None:
                continue
            try:
                holding = self._holding(pod.view)
            except RecordError:
                continue
            if holding is not None:
                found[pod.uid] = holding
        return found

    def _forget(self, uid: str) -> None:
        if self._texts.pop(uid, None) is not None:
            self._ledger.remove(uid)

    def _read(self, pod: PodView) -> None:
        texts = (pod.node, tuple((k, pod.annotations[k]) for k in self._keys if k in pod.annotations))
        if self._texts.get(pod.uid) == texts:
            return
        try:
            holding = self._holding(pod)
        except RecordError as problem:
            where = f"{pod.namespace}/{pod.name}"
            log.error("record not readable; its devices are blocked", extra={"pod": where, "problem": str(problem)})
            devices = tuple(DeviceId(device) for device in sorted(problem.devices))
            self._ledger.block(pod.uid, pod.node, devices, str(problem))
        else:
            if holding is None:
                self._forget(pod.uid)
                return
            self._ledger.apply(pod.uid, holding)
        self._texts[pod.uid] = texts

    def _holding(self, pod: PodView) -> Holding | None:
        record = read_record(pod, self._ask.families, trust_v210=self._trust_v210)
        if record is None:
            return None
        if record.dialect is Dialect.V210:
            record = self._completed(pod, record)
        return _held(pod, record)

    def _completed(self, pod: PodView, record: PodRecord) -> PodRecord:
        """A v2.10 record with what only the backend can add: profile, start, labels."""
        shares: list[RecordedShare] = []
        for name, group in groupby(record.shares, key=lambda s: s.family):
            recorded = list(group)
            family = self._ask.families[name]
            if self._ask.implements("hami_read_record", name):
                recorded = self._complete(pod, recorded, family.name)
            shares += recorded
        return replace(record, shares=tuple(shares))

    def _complete(self, pod: PodView, recorded: list[RecordedShare], family: str) -> list[RecordedShare]:
        devices = frozenset(str(r.device) for r in recorded)
        where = f"pod {pod.namespace}/{pod.name}: {family}"
        try:
            answers = self._ask.read_record(pod, self._ask.families[family], [r.share for r in recorded])
        except BackendError as problem:
            raise RecordError(where, "a record", str(problem), node=pod.node, devices=devices) from problem
        if len(answers) != len(recorded):
            got = f"{len(answers)} from the backend"
            raise RecordError(where, f"{len(recorded)} shares", got, node=pod.node, devices=devices)
        return [replace(r, share=share) for r, share in zip(recorded, answers, strict=True)]


def _held(pod: PodView, record: PodRecord) -> Holding:
    return Holding(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        node=pod.node,
        shares=record.shares,
        containers=tuple((container.name, container.kind) for container in pod.containers),
        priority=pod.priority,
    )
