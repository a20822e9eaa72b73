"""One pod's life on the node: its containers in order, their restarts, its end."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable

from hami_core_py.lab.kubelet import pods, status
from hami_core_py.lab.kubelet.api import Json
from hami_core_py.lab.kubelet.container import Launcher, LaunchError
from hami_core_py.lab.kubelet.options import KubeletOptions
from hami_core_py.lab.kubelet.reporter import Reporter
from hami_core_py.lab.kubelet.runtime import Runtime
from hami_core_py.lab.kubelet.tracking import Tracked

log = logging.getLogger(__name__)


class PodWorker:
    """Brings one admitted pod to what its spec says, in a thread of its own."""

    def __init__(
        self, pod: Json, *, options: KubeletOptions, runtime: Runtime, launcher: Launcher, reporter: Reporter
    ) -> None:
        self.pod = pod
        self._options, self._runtime, self._launcher, self._reporter = options, runtime, launcher, reporter
        self._tracked = [Tracked(one, is_init=True) for one in pods.init_containers(pod)]
        self._tracked += [Tracked(one, is_init=False) for one in pods.app_containers(pod)]
        self._started_at = pod.get("status", {}).get("startTime") or status.timestamp(time.time())
        self._conditions: list[Json] = list(pod.get("status", {}).get("conditions") or ())
        self._woken = threading.Event()
        self._is_removed = self._is_stopping = self._is_finished = False
        self._failure: tuple[str, str] | None = None
        self.is_active = True
        """Whether the pod may still hold devices."""
        self._thread = threading.Thread(target=self._run, name=f"pod {pods.title(pod)}", daemon=True)

    def start(self) -> None:
        """Begin; containers that run already are taken over."""
        self._thread.start()

    def update(self, pod: Json) -> None:
        """The pod's object has changed."""
        self.pod = pod
        self._woken.set()

    def removed(self, pod: Json) -> None:
        """The pod's object is gone: end its containers and forget it."""
        self.pod = pod
        self._is_removed = True
        self._woken.set()

    def wake(self) -> None:
        """Look again: a container has ended."""
        self._woken.set()

    def stop(self) -> None:
        """Leave the pod as it is."""
        self._is_stopping = True
        self._woken.set()

    def join(self) -> None:
        """Wait until the worker has nothing more to do."""
        self._thread.join()

    def _run(self) -> None:
        while not (self._is_stopping or self._is_finished):
            self._woken.clear()
            try:
                wait_seconds = self._step()
            except Exception:
                log.exception("pod worker failed, trying again", extra={"pod": pods.title(self.pod)})
                time.sleep(self._options.retry_seconds)
                continue
            if not (self._is_stopping or self._is_finished or self._is_leaving()):
                self._woken.wait(wait_seconds)

    def _step(self) -> float | None:
        """Do what can be done now; answers the seconds until more can be, None for "when woken"."""
        if self._is_leaving():
            self._end()
            return None
        return self._sync() if self.is_active else None

    def _is_leaving(self) -> bool:
        return self._is_removed or pods.is_deleted(self.pod)

    def _sync(self) -> float | None:
        self._refresh()
        if self._is_overdue():
            self._failure = ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
            self._finish()
            return None
        has_failed_init = any(one.is_init and one.is_done and not one.has_succeeded for one in self._tracked)
        if has_failed_init or all(one.is_done for one in self._tracked if not one.is_init):
            self._finish()
            return None
        for one in self._startable():
            if self._is_stopping or self._is_leaving():
                return None
            self._start(one)
        self._report()
        now = time.monotonic()
        waits = [one.next_try - now for one in self._startable() if one.next_try > now]
        deadline = self._deadline()
        if deadline is not None:
            waits.append(deadline - time.time())
        return max(0.01, min(waits)) if waits else None

    def _startable(self) -> list[Tracked]:
        """Containers whose turn it is: init containers one after another, then all others."""
        turn: list[Tracked] = []
        for one in self._tracked:
            if not one.is_init:
                break
            if one.is_sidecar:
                turn += [one] if one.is_due and not one.is_running else []
                if one.instance is None:
                    return turn
            elif not one.has_succeeded:
                return turn + ([one] if one.is_due and not one.is_running else [])
        return turn + [one for one in self._tracked if not one.is_init and one.is_due and not one.is_running]

    def _start(self, one: Tracked) -> None:
        if time.monotonic() < one.next_try:
            return
        count = one.instance.restart_count + 1 if one.instance else 0
        try:
            self._launcher.launch(self.pod, one.spec, count)
        except LaunchError as error:
            one.attempts_failed += 1
            is_first = one.attempts_failed == 1
            one.next_try = time.monotonic() + (
                min(self._options.first_retry_seconds, self._options.retry_seconds)
                if is_first
                else self._options.retry_seconds
            )
            if (one.waiting_reason, one.waiting_message) != (error.reason, error.message):
                self._reporter.event(self.pod, "Warning", "Failed", f"Error: {error.message}", one.name)
            one.waiting_reason, one.waiting_message = error.reason, error.message
            return
        one.previous = one.instance
        one.instance = self._runtime.inspect(pods.uid(self.pod), one.name)
        one.waiting_reason = one.waiting_message = ""
        one.attempts_failed = 0
        self._reporter.event(self.pod, "Normal", "Started", f"Container started: {one.name}", one.name)
        if one.has_ended:
            self._woken.set()

    def _refresh(self) -> None:
        """Learn which containers have ended, and whether and when they run again."""
        for one in self._tracked:
            known = one.instance
            one.instance = self._runtime.inspect(pods.uid(self.pod), one.name) or known
            if one.instance is None or one.instance.is_running or one.instance.id in one.ends[-1:]:
                if one.is_running:
                    one.is_due = True
                continue
            delay = one.delay_after_end(self._options.backoff_seconds, self._options.longest_backoff_seconds)
            one.is_due = pods.restarts(self.pod, one.spec, one.instance.exit_code, is_init=one.is_init)
            if one.is_due and delay > 0:
                one.next_try = time.monotonic() + delay
                one.waiting_reason = "CrashLoopBackOff"
                one.waiting_message = (
                    f"back-off {delay:g}s restarting failed container={one.name} "
                    f"pod={self.pod['metadata']['name']}_{self.pod['metadata']['namespace']}({pods.uid(self.pod)})"
                )
                self._reporter.event(self.pod, "Warning", "BackOff", one.waiting_message, one.name)

    def _deadline(self) -> float | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        return None if seconds is None else status.seconds(self._started_at) + float(seconds)

    def _is_overdue(self) -> bool:
        deadline = self._deadline()
        return deadline is not None and time.time() >= deadline

    def _finish(self) -> None:
        """The pod has run its course: end what still runs (sidecars) and say how it went."""
        self._kill(lambda: pods.grace_seconds(self.pod))
        if not self._is_stopping:
            self.is_active = False
            self._report()

    def _end(self) -> None:
        """The pod was deleted: end its containers, report, and let the API server drop it."""
        self._refresh_instances()
        if any(one.is_running for one in self._tracked):
            self._reporter.event(self.pod, "Normal", "Killing", "Stopping the pod's containers")
        self._kill(lambda: pods.grace_seconds(self.pod))
        if self._is_stopping:
            return
        self.is_active = False
        self._is_finished = True
        if not self._is_removed:
            self._report(is_final=True, is_last=True)

    def _kill(self, grace_seconds: Callable[[], float]) -> None:
        """End all containers: first the ordinary ones together, then the sidecars, the last one first."""
        begun = time.monotonic()
        self._refresh_instances()
        stages: list[list[Tracked]] = [[one for one in self._tracked if not one.is_sidecar]]
        stages += [[one] for one in reversed(self._tracked) if one.is_sidecar]
        for stage in stages:
            for one in stage:
                if one.is_running:
                    self._runtime.signal(pods.uid(self.pod), one.name, signal.SIGTERM)
            while any(one.is_running for one in stage):
                self._woken.clear()  # _run looks at the flags again, so nothing said meanwhile is lost
                self._refresh_instances()
                left = begun + grace_seconds() - time.monotonic()
                if self._is_stopping or not any(one.is_running for one in stage):
                    break
                if left <= 0:
                    for one in stage:
                        self._runtime.signal(pods.uid(self.pod), one.name, signal.SIGKILL)
                self._woken.wait(left if left > 0 else 1.0)

    def _refresh_instances(self) -> None:
        for one in self._tracked:
            one.instance = self._runtime.inspect(pods.uid(self.pod), one.name) or one.instance

    def _report(self, *, is_final: bool = False, is_last: bool = False) -> None:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        told = status.pod_status(
            self._tracked,
            phase="Failed" if self._failure else status.phase(self._tracked, policy, is_final=is_final),
            started_at=self._started_at,
            before=self._conditions,
            present=self.pod.get("status", {}).get("conditions") or (),
            now=status.timestamp(time.time()),
        )
        if self._failure:
            told["reason"], told["message"] = self._failure
        self._conditions = told["conditions"]
        self._reporter.report(self.pod, told, is_last=is_last)


def rejected_status(pod: Json, reason: str, message: str) -> Json:
    """The status of a pod that the node does not admit."""
    now = status.timestamp(time.time())
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": pod.get("status", {}).get("startTime") or now,
    }
