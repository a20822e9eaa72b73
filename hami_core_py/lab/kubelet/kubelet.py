"""The kubelet of one node: puts its parts together and hands each pod to a worker."""

from __future__ import annotations

import logging
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from hami_core_py.cluster.watch import Watcher
from hami_core_py.lab.kubelet import pods
from hami_core_py.lab.kubelet.admission import Rejected, admit
from hami_core_py.lab.kubelet.api import Json, connect
from hami_core_py.lab.kubelet.container import Launcher
from hami_core_py.lab.kubelet.devices import DeviceManager
from hami_core_py.lab.kubelet.logs import LogServer
from hami_core_py.lab.kubelet.node import NodeReporter
from hami_core_py.lab.kubelet.options import KubeletOptions
from hami_core_py.lab.kubelet.podresources import PodResourcesServer
from hami_core_py.lab.kubelet.registration import RegistrationServer
from hami_core_py.lab.kubelet.reporter import Reporter
from hami_core_py.lab.kubelet.runtime import Runtime, log_path
from hami_core_py.lab.kubelet.worker import PodWorker, rejected_status

STOP_SECONDS = 2.0

log = logging.getLogger(__name__)


class Kubelet:
    """Registers a node, runs the pods bound to it as local processes, and serves device plugins.

    All decisions about which pod is admitted are made by one thread, one pod after another; each admitted pod then
    has a worker of its own.
    """

    def __init__(self, options: KubeletOptions) -> None:
        options.check()
        self.options = options
        self._api = connect(options.api_url, f"hami-lab-kubelet/{options.node}", options.api_timeout_seconds)
        self._pods: dict[str, Json] = {}
        self._workers: dict[str, PodWorker] = {}
        self._rejected: set[str] = set()
        self._admitting: str | None = None
        self._lock = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_synced = False
        self._runtime = Runtime(
            options.root,
            cdi_directory=options.cdi_directory,
            log_directory=options.log_directory,
            on_exit=self._container_ended,
        )
        self._devices = DeviceManager(
            options.plugin_directory,
            active_pods=lambda: [pods.uid(pod) for pod in self._active_pods()],
            on_change=lambda: self._node.changed(),
            prestart_timeout_seconds=options.prestart_timeout_seconds,
            plugin_grace_seconds=options.plugin_grace_seconds,
            seed=options.seed,
        )
        self._logs = LogServer(self._find_log, self._is_running, lambda: list(self._pods.values()))
        self._node = NodeReporter(self._api, options, resources=self._devices.resources, log_port=self._logs.port)
        self._reporter = Reporter(self._api, options.node)
        self._launcher = Launcher(
            root=options.root,
            node=options.node,
            api=self._api,
            devices=self._devices,
            runtime=self._runtime,
            env=options.env,
        )
        self._registration = RegistrationServer(options.plugin_directory, self._devices.connect)
        self._pod_resources = PodResourcesServer(
            options.pod_resources_socket, self._devices, self._active_pods, self._pod_by_name
        )
        self._watch = Watcher(
            self._api,
            "/api/v1/pods",
            {"fieldSelector": f"spec.nodeName={options.node}"},
            on_sync=self._listed,
            on_event=self._event,
            name="pod watch",
        )
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    @property
    def port(self) -> int:
        """The port of its HTTP server."""
        return self._logs.port

    def start(self) -> None:
        """Take over what an earlier kubelet left, then begin; needs no API server yet."""
        for directory in (self.options.root, self.options.plugin_directory, self.options.cdi_directory):
            directory.mkdir(parents=True, exist_ok=True)
        has_checkpoint = self._devices.load(self._runtime.adopt())
        self._registration.start()
        self._pod_resources.start()
        self._logs.start()
        self._reporter.start()
        self._thread.start()
        self._node.start(reset_extended=not has_checkpoint)
        self._watch.start()
        log.info("kubelet started", extra={"node": self.options.node, "root": str(self.options.root)})

    def wait_ready(self, timeout_seconds: float = 30.0) -> bool:
        """Whether the Node exists in the API within that time."""
        return self._node.wait_registered(timeout_seconds)

    def stop(self, *, leave_containers: bool = False) -> None:
        """Stop, and end every process it runs, unless the containers are to be found by the next kubelet."""
        self._watch.stop()
        self._devices.close()
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.stop()
        self._work.put(None)
        self._thread.join()
        for worker in workers:
            worker.join()
        self._reporter.stop()
        self._node.stop()
        self._logs.stop()
        self._registration.stop()
        self._pod_resources.stop()
        if not leave_containers:
            self._runtime.end_all(STOP_SECONDS)
        self._runtime.close()
        log.info("kubelet stopped", extra={"node": self.options.node})

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except Exception:
                log.exception("kubelet: a pod's change could not be handled")

    def _listed(self, found: Sequence[Json]) -> None:
        self._work.put(lambda: self._handle_list(found))

    def _event(self, kind: str, pod: Json) -> None:
        self._work.put(lambda: self._handle_removal(pod) if kind == "DELETED" else self._handle(pod))

    def _handle_list(self, found: Sequence[Json]) -> None:
        present = {pods.uid(pod) for pod in found}
        for gone in [pod for uid, pod in self._pods.items() if uid not in present]:
            self._handle_removal(gone)
        for pod in sorted(found, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pods.title(pod))):
            try:
                self._handle(pod)
            except Exception:
                log.exception("kubelet: pod left out", extra={"pod": pods.title(pod)})
        if not self._is_synced:
            self._is_synced = True
            self._devices.sources_ready()
            self._end_orphans()

    def _handle(self, pod: Json) -> None:
        uid = pods.uid(pod)
        with self._lock:
            is_new = uid not in self._pods
            self._pods[uid] = pod
            worker = self._workers.get(uid)
        if worker is not None:
            worker.update(pod)
        elif pods.is_deleted(pod) and (
            uid in self._rejected or pods.is_terminal(pod) or not self._runtime.containers(uid)
        ):
            self._kill_now(uid)
            self._reporter.report(pod, pod.get("status") or {"phase": "Failed"}, is_last=True)
        elif is_new and pods.is_terminal(pod):
            self._kill_now(uid)
        elif is_new:
            self._take(pod)

    def _take(self, pod: Json) -> None:
        uid = pods.uid(pod)
        self._admitting = uid
        try:
            if not pods.is_deleted(pod):
                others = [one for one in self._active_pods() if pods.uid(one) != uid]
                admit(pod, others, self._devices, self._node.allocatable())
            worker = PodWorker(
                pod, options=self.options, runtime=self._runtime, launcher=self._launcher, reporter=self._reporter
            )
            with self._lock:
                self._workers[uid] = worker
        except Rejected as error:
            self._reject(pod, error)
            return
        except Exception as error:
            log.exception("pod could not be admitted", extra={"pod": pods.title(pod)})
            self._reject(pod, Rejected("UnexpectedAdmissionError", f"the kubelet failed: {error}"))
            return
        finally:
            self._admitting = None
        log.info("pod admitted", extra={"pod": pods.title(pod), "uid": uid})
        worker.start()

    def _reject(self, pod: Json, why: Rejected) -> None:
        log.warning("pod rejected", extra={"pod": pods.title(pod), "reason": why.reason, "why": why.message})
        self._rejected.add(pods.uid(pod))
        self._reporter.report(pod, rejected_status(pod, why.reason, why.message))
        self._reporter.event(pod, "Warning", why.reason, why.message)
        self._kill_now(pods.uid(pod))

    def _handle_removal(self, pod: Json) -> None:
        uid = pods.uid(pod)
        self._reporter.forget(pod)
        self._rejected.discard(uid)
        with self._lock:
            self._pods.pop(uid, None)
            worker = self._workers.get(uid)
        if worker is None:
            self._kill_now(uid)
            self._runtime.remove(uid)
            return
        worker.removed(pod)
        threading.Thread(target=self._clean_up, args=(uid, worker), name=f"clean-up {uid}", daemon=True).start()

    def _clean_up(self, uid: str, worker: PodWorker) -> None:
        worker.join()
        with self._lock:
            self._workers.pop(uid, None)
        if not worker.is_active:
            self._runtime.remove(uid)

    def _end_orphans(self) -> None:
        """End containers whose pods went away while no kubelet ran."""
        for uid in self._runtime.pod_uids():
            if uid not in self._pods:
                self._kill_now(uid)
                self._runtime.remove(uid)

    def _kill_now(self, uid: str) -> None:
        for container in self._runtime.containers(uid):
            self._runtime.signal(uid, container, signal.SIGKILL)

    def _container_ended(self, uid: str) -> None:
        with self._lock:
            worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def _active_pods(self) -> list[Json]:
        """Pods that may hold devices: admitted and not ended, and the one that is being admitted."""
        with self._lock:
            return [
                pod
                for uid, pod in self._pods.items()
                if uid == self._admitting or (uid in self._workers and self._workers[uid].is_active)
            ] + [worker.pod for uid, worker in self._workers.items() if uid not in self._pods and worker.is_active]

    def _pod_by_name(self, namespace: str, name: str) -> Json | None:
        with self._lock:
            for pod in self._pods.values():
                if (pod["metadata"]["namespace"], pod["metadata"]["name"]) == (namespace, name):
                    return pod
        return None

    def _find_log(self, namespace: str, name: str, container: str, previous: bool) -> Path | None:
        pod = self._pod_by_name(namespace, name)
        if pod is None or all(one["name"] != container for one in pods.containers(pod)):
            return None
        latest = self._runtime.inspect(pods.uid(pod), container)
        if latest is None or (previous and latest.restart_count == 0):
            return None
        run = latest.restart_count - (1 if previous else 0)
        path = log_path(self.options.log_directory, namespace, name, pods.uid(pod), container, run)
        return path if path.exists() else None

    def _is_running(self, namespace: str, name: str, container: str) -> bool:
        pod = self._pod_by_name(namespace, name)
        found = self._runtime.inspect(pods.uid(pod), container) if pod else None
        return found is not None and found.is_running


def end_containers(root: Path, grace_seconds: float = STOP_SECONDS) -> None:
    """End what a kubelet left running: one that was told to leave its containers, or was killed."""
    runtime = Runtime(root, cdi_directory=root / "cdi", log_directory=root / "logs", on_exit=lambda _: None)
    runtime.end_all(grace_seconds)
    runtime.close()
