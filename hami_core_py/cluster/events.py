"""Kubernetes events: sentences on pods and nodes for ``kubectl describe``, written in the background.

Writing never delays who says it: when the queue is full the event is dropped and counted. The same sentence about the
same object within ten minutes raises a count instead of making a new object.
"""

import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from hami_core_py.cluster.background import Worker
from hami_core_py.cluster.client import Client, JsonObject, join_path
from hami_core_py.cluster.errors import ApiError, Forbidden, NotFound

log = logging.getLogger(__name__)

EventType = Literal["Normal", "Warning"]
EVENTS = "/api/v1/events"
"""All events of the cluster."""
KEPT = "are written by node agents of HAMi alone"
"""Words with which our admission policy refuses an event."""
LONGEST_MESSAGE = 1024
"""Characters of a message that the API accepts."""
SAME_WITHIN = timedelta(minutes=10)
_REMEMBERED = 4096


@dataclass(frozen=True)
class About:
    """The object an event is about."""

    kind: Literal["Pod", "Node"]
    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True)
class _Said:
    about: About
    type: EventType
    reason: str
    message: str


@dataclass
class _Written:
    path: str
    count: int
    first: datetime
    last: datetime


class Events:
    """Writes events of one component on a thread of its own.

    :param component: shown as the source, such as ``hami-scheduler``. :param host: node that the source runs on, when it
        speaks for one.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        host: str = "",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        queue_length: int = 1000,
    ) -> None:
        self.dropped = 0
        self._client, self._component, self._clock = client, component, clock
        self._source = {"component": component, **({"host": host} if host else {})}
        self._written: OrderedDict[_Said, _Written] = OrderedDict()
        self._instance = f"{component}-{os.uname().nodename}"
        self._serial = 0
        self._worker = Worker(self._say, "events", most=queue_length)

    def say(self, about: About, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        """Queue one event; returns at once. :param reason: one word in CamelCase."""
        if not self._worker.take(_Said(about, type, reason, _cut(message))):
            self.dropped += 1

    def stop(self, timeout_seconds: float = 2.0) -> None:
        """Write what is queued, within the time, and end the thread."""
        self._worker.stop(timeout_seconds)

    def _say(self, said: _Said) -> None:
        try:
            self._write(said)
        except ApiError as problem:
            self.dropped += 1
            log.warning("event not written", extra={"reason": said.reason, "problem": str(problem)})

    def _write(self, said: _Said) -> None:
        now = self._clock()
        before = self._written.get(said)
        if before and now - before.last < SAME_WITHIN:
            before.count, before.last = before.count + 1, now
            try:
                self._client.patch(before.path, {"count": before.count, "lastTimestamp": _stamp(now)})
                return
            except NotFound:
                pass  # the API server forgets events after an hour: say it anew
        self._serial += 1
        # Events of objects without a namespace live in the default one.
        namespace = said.about.namespace or "default"
        collection = join_path("api", "v1", "namespaces", namespace, "events")
        name = f"{said.about.name[:200]}.{int(now.timestamp() * 1e6):x}{self._serial & 0xFFF:03x}"
        self._client.create(collection, self._body(said, namespace, name, now))
        self._written[said] = _Written(f"{collection}/{name}", 1, now, now)
        self._written.move_to_end(said)
        while len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)

    def _body(self, said: _Said, namespace: str, name: str, now: datetime) -> JsonObject:
        about = {"apiVersion": "v1", "kind": said.about.kind, "name": said.about.name, "uid": said.about.uid}
        if said.about.namespace:
            about["namespace"] = said.about.namespace
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": about,
            "type": said.type,
            "reason": said.reason,
            "message": said.message,
            "count": 1,
            "firstTimestamp": _stamp(now),
            "lastTimestamp": _stamp(now),
            "source": self._source,
            "reportingComponent": self._component,
            "reportingInstance": self._instance[:128],
        }


def is_kept_from_others(client: Client, component: str, reason: str) -> bool:
    """Whether the API server refuses us an event of a component that we are not, as our admission policy has it do.

    Nothing is stored. :raises ApiError: it cannot be found out.
    """
    now = _stamp(datetime.now(UTC))
    trial = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "hami-trial", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "hami-trial", "namespace": "default"},
        "type": "Warning",
        "reason": reason,
        "message": "a trial of the admission policy, which is never stored",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": component,
    }
    try:
        client.create(join_path("api", "v1", "namespaces", "default", "events"), trial, {"dryRun": "All"})
    except Forbidden as problem:
        return KEPT in problem.message
    return False


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 1] + "…"
