"""Telling the API server: pod statuses, the last word on deleted pods, and events."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.lab.kubelet import pods
from hami_core_py.lab.kubelet.api import Json
from hami_core_py.lab.kubelet.status import timestamp

RETRY_SECONDS = 0.5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Report:
    pod: Json
    status: Json
    is_last: bool


class Reporter:
    """Sends the latest status of each pod from a thread of its own, so that an API server away holds nobody up."""

    def __init__(self, api: Client, node: str) -> None:
        self._api, self._node = api, node
        self._reports: dict[str, _Report] = {}
        self._events: deque[Json] = deque(maxlen=1000)
        self._sent: dict[str, Json] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_stopping = False
        self._event_count = 0
        self._thread = threading.Thread(target=self._run, name="status reporter", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, after one attempt to send what is left."""
        self._is_stopping = True
        self._wake.set()
        self._thread.join()

    def report(self, pod: Json, status: Json, *, is_last: bool = False) -> None:
        """Send this status soon; with ``is_last`` remove the pod from the API after that."""
        with self._lock:
            self._reports[pods.uid(pod)] = _Report(pod, status, is_last)
        self._wake.set()

    def forget(self, pod: Json) -> None:
        """The pod is gone from the API: nothing more to say about it."""
        with self._lock:
            self._reports.pop(pods.uid(pod), None)
            self._sent.pop(pods.uid(pod), None)

    def event(self, pod: Json, kind: str, reason: str, message: str, container: str = "") -> None:
        """Record an event on a pod; lost if the API server is away."""
        metadata = pod["metadata"]
        now = time.time()
        with self._lock:
            self._event_count += 1
            name = f"{metadata['name']}.{int(now * 1e6):x}{self._event_count:x}"
        involved: Json = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        involved["namespace"] = metadata["namespace"]
        if container:
            involved["fieldPath"] = f"spec.containers{{{container}}}"
        body: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": involved,
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": "kubelet", "host": self._node},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node,
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
        }
        self._events.append(body)
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            is_stopping = self._is_stopping
            with self._lock:
                reports = dict(self._reports)
            is_done = True
            for uid, report in reports.items():
                is_done &= self._try(uid, report)
                if is_stopping and not is_done:
                    return
            if is_done:
                self._send_events()
            if is_stopping:
                return
            self._wake.wait(None if is_done else RETRY_SECONDS)
            if not is_done and not self._is_stopping:
                time.sleep(0.05)  # reports arriving meanwhile must not turn an outage into a busy loop

    def _try(self, uid: str, report: _Report) -> bool:
        try:
            return self._send(uid, report)
        except Exception:
            log.exception("status could not be told", extra={"pod": pods.title(report.pod)})
            return False

    def _send(self, uid: str, report: _Report) -> bool:
        """Whether there is nothing left to send for this report."""
        try:
            if self._sent.get(uid) != report.status:
                body = {"metadata": {"uid": uid}, "status": report.status}
                self._api.patch(f"{pods.path(report.pod)}/status", body, kind="strategic")
                self._sent[uid] = report.status
            if report.is_last:
                options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
                self._api.delete(pods.path(report.pod), options | {"preconditions": {"uid": uid}})
        except ApiError as error:
            if error.status == 0 or error.status == 429 or error.status >= 500:
                return False
            if error.status not in {404, 409}:
                log.error("status refused", extra={"pod": pods.title(report.pod), "error": str(error)})
                if report.is_last:  # without its status a deleted pod would stay for ever
                    return False
        with self._lock:
            if self._reports.get(uid) is report:
                del self._reports[uid]
        return True

    def _send_events(self) -> None:
        while self._events:
            body = self._events.popleft()
            try:
                self._api.create(f"/api/v1/namespaces/{body['metadata']['namespace']}/events", body)
            except ApiError as error:
                log.debug("event lost", extra={"reason": body["reason"], "error": str(error)})
                if error.status == 0:
                    return
