"""The Node object and its Lease: what the kubelet says about itself."""

from __future__ import annotations

import contextlib
import datetime
import logging
import os
import platform
import threading
import time
from collections.abc import Callable
from decimal import Decimal

from hami_core_py.cluster.client import Client
from hami_core_py.cluster.errors import ApiError
from hami_core_py.codecs.quantities import parse_quantity
from hami_core_py.errors import RequestError
from hami_core_py.lab.kubelet.api import Json
from hami_core_py.lab.kubelet.devices import Resources
from hami_core_py.lab.kubelet.options import KubeletOptions
from hami_core_py.lab.kubelet.status import ADDRESS, timestamp

VERSION = "v1.37.2-lab"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS = 40
DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
RETRY_SECONDS = 0.5
REPORT_SECONDS = 300.0
"""How often an unchanged status is written anyway, as by a real kubelet."""

log = logging.getLogger(__name__)


class NodeReporter:
    """Registers the node and keeps its status and Lease fresh from a thread of its own."""

    def __init__(
        self, api: Client, options: KubeletOptions, *, resources: Callable[[], Resources], log_port: int
    ) -> None:
        self._api, self._options, self._log_port = api, options, log_port
        self._resources = resources
        self._path = f"/api/v1/nodes/{options.node}"
        self._capacity = DEFAULT_CAPACITY | dict(options.capacity)
        self._ready_since = timestamp(time.time())
        self._node: Json = {}
        self._told: Resources | None = None
        self._told_at = 0.0
        self._is_registered = threading.Event()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node status", daemon=True)

    def start(self, *, reset_extended: bool) -> None:
        """Begin; ``reset_extended`` zeroes extended resources that an existing Node has: its checkpoint is gone."""
        self._reset_extended = reset_extended
        self._thread.start()

    def stop(self) -> None:
        """Stop reporting; the Node stays."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def changed(self) -> None:
        """Report the node's resources, after ``status_seconds``."""
        self._wake.set()

    def wait_registered(self, timeout_seconds: float) -> bool:
        """Whether the Node exists in the API, waiting for it that long."""
        return self._is_registered.wait(timeout_seconds)

    def allocatable(self) -> dict[str, Decimal]:
        """What the node offers to pods, as the API server last answered."""
        told = self._node.get("status", {}).get("allocatable") or self._capacity
        found: dict[str, Decimal] = {}
        for name, value in told.items():
            with contextlib.suppress(RequestError):  # what somebody else wrote there stops no pod
                found[name] = parse_quantity(str(value))
        return found

    def _run(self) -> None:
        is_registered = False
        renewed = 0.0
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                if not is_registered:
                    self._register()
                    is_registered = True
                self._tell_status()
                self._is_registered.set()
                if time.monotonic() - renewed >= self._options.heartbeat_seconds * 0.9 or renewed == 0.0:
                    self._renew_lease()
                    renewed = time.monotonic()
                wait_seconds = self._options.heartbeat_seconds
            except ApiError as error:
                log.warning("node status not told", extra={"node": self._options.node, "error": str(error)})
                wait_seconds = RETRY_SECONDS
            if self._wake.wait(wait_seconds):
                self._stopping.wait(self._options.status_seconds)

    def _tell_status(self) -> None:
        """Write the status when it changed, or seldom: the Lease is the heartbeat, and each write wakes watchers."""
        self._node = self._api.get(self._path)
        devices = self._resources()
        is_due = time.monotonic() - self._told_at >= REPORT_SECONDS
        if devices != self._told or is_due:
            self._node = self._api.patch(f"{self._path}/status", {"status": self._status(devices)}, kind="strategic")
            self._told, self._told_at = devices, time.monotonic()

    def _register(self) -> None:
        name = self._options.node
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": _architecture(),
            "beta.kubernetes.io/os": "linux",
            "beta.kubernetes.io/arch": _architecture(),
        } | dict(self._options.labels)
        body: Json = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}}
        try:
            self._node = self._api.create("/api/v1/nodes", body | {"status": self._status(self._resources())})
        except ApiError as error:
            if error.status != 409:
                raise
            self._api.patch(self._path, {"metadata": {"labels": labels}}, kind="strategic")
            if self._reset_extended:
                self._zero_extended()
        log.info("node registered", extra={"node": name})

    def _zero_extended(self) -> None:
        told = self._api.get(self._path).get("status", {})
        zero = {name: "0" for side in ("capacity", "allocatable") for name in told.get(side) or {} if "/" in name}
        if zero:
            self._api.patch(
                f"{self._path}/status", {"status": {"capacity": zero, "allocatable": zero}}, kind="strategic"
            )

    def _status(self, devices: Resources) -> Json:
        """The parts that are this kubelet's; totals that others put beside them are left alone."""
        now = timestamp(time.time())

        def condition(kind: str, status: str, reason: str, message: str) -> Json:
            times = {"lastHeartbeatTime": now, "lastTransitionTime": self._ready_since}
            return {"type": kind, "status": status, "reason": reason, "message": message} | times

        return {
            "capacity": self._capacity | {name: str(count) for name, count in devices.capacity.items()},
            "allocatable": self._capacity | {name: str(count) for name, count in devices.allocatable.items()},
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "addresses": [
                {"type": "InternalIP", "address": ADDRESS},
                {"type": "Hostname", "address": self._options.node},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._log_port}},
            "nodeInfo": {
                "machineID": self._options.node,
                "systemUUID": self._options.node,
                "bootID": self._options.node,
                "kernelVersion": platform.release(),
                "osImage": "HAMi lab",
                "containerRuntimeVersion": "lab://1",
                "kubeletVersion": VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": _architecture(),
            },
        }

    def _renew_lease(self) -> None:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._options.node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
        try:
            self._api.patch(f"{LEASES}/{self._options.node}", {"spec": spec}, kind="strategic")
        except ApiError as error:
            if error.status != 404:
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._options.node}
            owner["uid"] = self._node.get("metadata", {}).get("uid", "")
            metadata = {"name": self._options.node, "namespace": "kube-node-lease", "ownerReferences": [owner]}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            self._api.create(LEASES, lease)


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
