"""Tables: the server decides which columns `kubectl get` shows; everything not listed here has a name and an age."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hami_core_py.lab.apiserver.durations import human_duration
from hami_core_py.lab.apiserver.meta import seconds_of
from hami_core_py.lab.apiserver.pod_table import pod_ready, pod_restarts, pod_status
from hami_core_py.lab.apiserver.resources import Resource
from hami_core_py.lab.apiserver.status import Object

Cell = Callable[[Object, float], Any]
_TABLE = {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}
_NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cell: Cell
    type: str = "string"
    wide: bool = False  # shown with -o wide only

    def definition(self) -> Object:
        form = "name" if self.name == "Name" else ""
        return {
            "name": self.name,
            "type": self.type,
            "format": form,
            "description": self.name,
            "priority": 1 if self.wide else 0,
        }


def table(
    resource: Resource,
    objects: Iterable[Object],
    now: float,
    *,
    include: str = "Metadata",
    metadata: Object | None = None,
) -> Object:
    """A `Table` of `objects`.

    :param include: what a row carries besides its cells: None, Metadata or Object.
    :param metadata: the list's own, for resourceVersion and paging.
    """
    columns = _COLUMNS.get(resource.qualified, _GENERIC)
    rows = [
        {"cells": [column.cell(one, now) for column in columns], "object": _included(one, include)} for one in objects
    ]
    definitions = [column.definition() for column in columns]
    return {**_TABLE, "metadata": metadata or {}, "columnDefinitions": definitions, "rows": rows}


def partial(obj: Object) -> Object:
    """An object's metadata alone."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def _included(obj: Object, include: str) -> Object | None:
    if include == "None":
        return None
    return obj if include == "Object" else partial(obj)


def _at(path: str, default: Any = _NONE) -> Cell:
    parts = path.split(".")

    def cell(obj: Object, _: float) -> Any:
        value: Any = obj
        for part in parts:
            value = value.get(part) if isinstance(value, dict) else None
        return default if value in (None, "") else value

    return cell


def _since(*paths: str, default: str = "<unknown>") -> Cell:
    """The time since the first of these fields that is set."""
    cells = [_at(path, None) for path in paths]

    def cell(obj: Object, now: float) -> str:
        for one in cells:
            if (text := one(obj, now)) is not None:
                return human_duration(now - seconds_of(str(text)))
        return default

    return cell


def _count(path: str) -> Cell:
    at = _at(path, ())
    return lambda obj, now: len(at(obj, now))


def _node_status(node: Object, _: float) -> str:
    ready = next((one for one in _conditions(node) if one.get("type") == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return status + (",SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else "")


def _node_roles(node: Object, _: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = node["metadata"].get("labels") or {}
    return ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or _NONE


def _node_address(kind: str) -> Cell:
    def cell(node: Object, _: float) -> str:
        addresses = node.get("status", {}).get("addresses") or ()
        return next((str(one["address"]) for one in addresses if one.get("type") == kind), _NONE)

    return cell


def _event_object(event: Object, _: float) -> str:
    about = event.get("involvedObject") or event.get("regarding") or {}
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(event: Object, _: float) -> str:
    source = event.get("source") or {}
    told = [source.get("component") or event.get("reportingComponent"), source.get("host")]
    return ", ".join(one for one in told if one) or "-"


def _workload_ready(obj: Object, _: float) -> str:
    return f"{obj.get('status', {}).get('readyReplicas', 0)}/{obj.get('spec', {}).get('replicas', 1)}"


def _service_ports(service: Object, _: float) -> str:
    ports = service.get("spec", {}).get("ports") or ()
    return ",".join(f"{one.get('port')}/{one.get('protocol', 'TCP')}" for one in ports) or _NONE


def _quota(*, limits: bool) -> Cell:
    def cell(quota: Object, _: float) -> str:
        hard = quota.get("spec", {}).get("hard") or {}
        used = quota.get("status", {}).get("used") or {}
        return ", ".join(
            f"{name}: {used.get(name, '0')}/{hard[name]}"
            for name in sorted(hard)
            if name.startswith("limits.") is limits
        )

    return cell


def _conditions(obj: Object) -> list[Object]:
    return obj.get("status", {}).get("conditions") or []


_NAME = Column("Name", _at("metadata.name"))
_AGE = Column("Age", _since("metadata.creationTimestamp"))
_GENERIC = (_NAME, _AGE)
_LAST_SEEN = _since("series.lastObservedTime", "lastTimestamp", "eventTime", "metadata.creationTimestamp")
_FIRST_SEEN = _since("firstTimestamp", "eventTime", "metadata.creationTimestamp")
_WEBHOOKS = (_NAME, Column("Webhooks", _count("webhooks"), "integer"), _AGE)
_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        _NAME,
        Column("Ready", pod_ready),
        Column("Status", pod_status),
        Column("Restarts", pod_restarts),
        _AGE,
        Column("IP", _at("status.podIP"), wide=True),
        Column("Node", _at("spec.nodeName"), wide=True),
        Column("Nominated Node", _at("status.nominatedNodeName"), wide=True),
        Column("Readiness Gates", lambda _pod, _now: _NONE, wide=True),
    ),
    "nodes": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at("status.nodeInfo.kubeletVersion", "")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", _at("status.nodeInfo.osImage", "<unknown>"), wide=True),
        Column("Kernel-Version", _at("status.nodeInfo.kernelVersion", "<unknown>"), wide=True),
        Column("Container-Runtime", _at("status.nodeInfo.containerRuntimeVersion", "<unknown>"), wide=True),
    ),
    "events": (
        Column("Last Seen", _LAST_SEEN),
        Column("Type", _at("type", "")),
        Column("Reason", _at("reason", "")),
        Column("Object", _event_object),
        Column("Subobject", _at("involvedObject.fieldPath", ""), wide=True),
        Column("Source", _event_source, wide=True),
        Column("Message", lambda event, now: str(_at("message", "")(event, now)).strip()),
        Column("First Seen", _FIRST_SEEN, wide=True),
        Column("Count", _at("count", 1), "integer", wide=True),
        Column("Name", _at("metadata.name"), wide=True),
    ),
    "leases.coordination.k8s.io": (_NAME, Column("Holder", _at("spec.holderIdentity", "")), _AGE),
    "namespaces": (_NAME, Column("Status", _at("status.phase", "")), _AGE),
    "configmaps": (_NAME, Column("Data", _count("data"), "integer"), _AGE),
    "secrets": (_NAME, Column("Type", _at("type", "Opaque")), Column("Data", _count("data"), "integer"), _AGE),
    "services": (
        _NAME,
        Column("Type", _at("spec.type", "ClusterIP")),
        Column("Cluster-IP", _at("spec.clusterIP")),
        Column("Port(s)", _service_ports),
        _AGE,
    ),
    "resourcequotas": (_NAME, Column("Request", _quota(limits=False)), Column("Limit", _quota(limits=True)), _AGE),
    "deployments.apps": (_NAME, Column("Ready", _workload_ready), _AGE),
    "replicasets.apps": (_NAME, Column("Ready", _workload_ready), _AGE),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "priorityclasses.scheduling.k8s.io": (
        _NAME,
        Column("Value", _at("value", 0), "integer"),
        Column("Global-Default", _at("globalDefault", False), "boolean"),
        _AGE,
    ),
    "runtimeclasses.node.k8s.io": (_NAME, Column("Handler", _at("handler", "")), _AGE),
}
_COLUMNS["events.events.k8s.io"] = _COLUMNS["events"]
