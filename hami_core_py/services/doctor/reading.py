"""Kubernetes objects (decoded JSON) → the facts that checks look at."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import yaml

from hami_core_py.codecs.native import RECORD, inventory_key, parse_inventory
from hami_core_py.codecs.records import NODE, read_record
from hami_core_py.codecs.times import parse_time
from hami_core_py.decisions.doctor.facts import (
    Extender,
    Lease,
    Node,
    NodeInventory,
    Pod,
    Policy,
    SchedulerConfig,
    Service,
    Waiting,
    Webhook,
    Workload,
)
from hami_core_py.errors import BadInputError, InventoryError, RecordError
from hami_core_py.models.families import Family
from hami_core_py.models.views import PodView, node_view, pod_view

JsonObject = Mapping[str, Any]

OUR_WEBHOOKS = "hami.io"
"""How the names of our webhooks end."""
PROGRAMS = ("hami", "python", "python3")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def webhooks_of(configuration: JsonObject) -> Iterator[tuple[Webhook, JsonObject]]:
    """Our entries of a MutatingWebhookConfiguration, each with its ``clientConfig``."""
    for entry in configuration.get("webhooks") or ():
        if not str(entry.get("name", "")).endswith(OUR_WEBHOOKS):
            continue
        client = entry.get("clientConfig") or {}
        service = client.get("service")
        webhook = Webhook(
            name=f"{_name(configuration)}/{entry['name']}",
            failure_policy=entry.get("failurePolicy") or "Fail",
            timeout_seconds=entry.get("timeoutSeconds") or 10,
            reinvocation=entry.get("reinvocationPolicy") or "Never",
            conditions=tuple(one.get("expression") or "" for one in entry.get("matchConditions") or ()),
            namespace_selector=entry.get("namespaceSelector") or {},
            resources=frozenset(name for rule in entry.get("rules") or () for name in rule.get("resources") or ()),
            service=(service["namespace"], service["name"], service.get("port") or 443) if service else None,
        )
        yield webhook, client


def service_of(service: JsonObject, slices: Sequence[JsonObject]) -> Service:
    """A Service and the ready endpoints of its slices."""
    metadata = service.get("metadata") or {}
    own = (
        one
        for one in slices
        if one["metadata"].get("namespace") == metadata.get("namespace")
        and (one["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == metadata.get("name")
    )
    endpoints = [endpoint for one in own for endpoint in one.get("endpoints") or ()]
    return Service(
        namespace=metadata.get("namespace") or "",
        name=metadata.get("name") or "",
        ports=frozenset(port["port"] for port in (service.get("spec") or {}).get("ports") or ()),
        # An endpoint that does not say is ready, by the API's word.
        ready=sum((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints),
    )


def configs_of(config_map: JsonObject, resources: frozenset[str]) -> Iterator[SchedulerConfig]:
    """kube-scheduler's configurations in a ConfigMap that call our extender."""
    metadata = config_map.get("metadata") or {}
    for key, text in sorted((config_map.get("data") or {}).items()):
        if "extenders:" in text:
            yield from config_of(
                text, f"ConfigMap {metadata.get('namespace')}/{metadata.get('name')}, {key}", resources
            )


def config_of(text: str, where: str, resources: frozenset[str]) -> Iterator[SchedulerConfig]:
    """A kube-scheduler's configuration, or its part about extenders; nothing when it calls no extender for our resources."""
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    if not isinstance(values, Mapping):
        return
    ours = [one for one in map(_extender, values.get("extenders") or ()) if _is_ours(one, resources)]
    if ours:
        yield SchedulerConfig(
            where=where,
            extenders=tuple(ours),
            profiles=frozenset(p.get("schedulerName") or "default-scheduler" for p in values.get("profiles") or ()),
            percentage=values.get("percentageOfNodesToScore"),
        )


def seconds_of(duration: object) -> float:
    """Seconds of a Go duration such as ``1m30s``, or of a bare number of nanoseconds. :raises ValueError: it is neither."""
    if isinstance(duration, int | float):
        return duration / 1e9
    text = str(duration)
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"expected a duration such as 5s, got {text!r}")
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


def policy_of(policy: JsonObject, bindings: Sequence[JsonObject]) -> Policy:
    """A ValidatingAdmissionPolicy; its bindings say whether it is in force."""
    spec = policy.get("spec") or {}
    rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
    own = (one.get("spec") or {} for one in bindings if (one.get("spec") or {}).get("policyName") == _name(policy))
    return Policy(
        name=_name(policy),
        resources=frozenset(name for rule in rules for name in rule.get("resources") or ()),
        text=orjson.dumps(spec).decode(),
        enforced=any("Deny" in (one.get("validationActions") or ()) for one in own),
    )


def workload_of(kind: str, found: JsonObject) -> Workload | None:
    """A Deployment or DaemonSet; ``None``: no process of ours runs in it."""
    metadata, spec, status = found.get("metadata") or {}, found.get("spec") or {}, found.get("status") or {}
    containers = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    words = [[*(one.get("command") or ()), *(one.get("args") or ())] for one in containers]
    roles = frozenset(one for line in words if (one := _role(line)))
    if not roles:
        return None
    is_daemon = kind == "DaemonSet"
    replicas = spec.get("replicas")
    return Workload(
        kind=kind,
        namespace=metadata.get("namespace") or "default",
        name=metadata.get("name") or "",
        roles=roles,
        backends=frozenset(name for line in words for name in _options(line, "--backend")),
        images={one.get("name") or "": one.get("image") or "" for one in containers},
        wanted=(status.get("desiredNumberScheduled") or 0) if is_daemon else 1 if replicas is None else replicas,
        ready=status.get("numberReady" if is_daemon else "readyReplicas") or 0,
    )


def node_of(node: JsonObject, backends: Sequence[str]) -> Node:
    """A node with the inventories of these backends."""
    view = node_view(node)
    info = (node.get("status") or {}).get("nodeInfo") or {}
    inventories = []
    for backend in backends:
        key = inventory_key(backend)
        text = view.annotations.get(key)
        if text is None:
            continue
        try:
            read = parse_inventory(text, key)
        except InventoryError as problem:
            inventories.append(NodeInventory(backend=backend, problem=str(problem)))
        else:
            inventories.append(NodeInventory(backend=backend, identity=read.identity, devices=read.devices))
    return Node(
        view=view,
        inventories=tuple(inventories),
        kubelet=info.get("kubeletVersion") or "",
        runtime=info.get("containerRuntimeVersion") or "",
    )


def lease_of(lease: JsonObject) -> Lease | None:
    """An agent's Lease; ``None``: it is no such one, or does not say when it was renewed."""
    spec = lease.get("spec") or {}
    if not _name(lease).startswith("hami-agent-") or not spec.get("renewTime"):
        return None
    try:
        renewed_ns = parse_time(spec["renewTime"], _name(lease))
    except BadInputError:
        return None
    return Lease(name=_name(lease), renewed_ns=renewed_ns, seconds=spec.get("leaseDurationSeconds") or 0)


def pod_of(pod: JsonObject, families: Mapping[str, Family], *, trust_v210: bool) -> Pod | None:
    """A pod; ``None``: it has nothing to do with devices."""
    view, status = pod_view(pod), pod.get("status") or {}
    asked = frozenset(name for name, family in families.items() if _asks(view, family))
    has_record = RECORD in view.annotations or NODE in view.annotations
    if not asked and not has_record:
        return None
    problem = ""
    if has_record and view.node:
        try:
            has_record = read_record(view, families, trust_v210=trust_v210) is not None
        except RecordError as found:
            problem = str(found)
    return Pod(
        view=view,
        families=asked,
        has_record=has_record,
        record_problem=problem,
        waiting=tuple(_waiting(status)),
        failed=(status.get("reason") or "") if view.phase == "Failed" else "",
        since_ns=_time(status.get("startTime")),
    )


def _name(found: JsonObject) -> str:
    return str((found.get("metadata") or {}).get("name") or "")


def _extender(values: JsonObject) -> Extender:
    managed = {one["name"]: bool(one.get("ignoredByScheduler")) for one in values.get("managedResources") or ()}
    return Extender(
        verbs=frozenset(v for v in ("filter", "prioritize", "preempt", "bind") if values.get(f"{v}Verb")),
        ignorable=bool(values.get("ignorable")),
        timeout_seconds=seconds_of(values["httpTimeout"]) if values.get("httpTimeout") else 5.0,
        names_only=bool(values.get("nodeCacheCapable")),
        managed=managed,
    )


def _is_ours(extender: Extender, resources: frozenset[str]) -> bool:
    """An extender that manages nothing is asked about every pod, and binds for us."""
    return bool(extender.managed.keys() & resources) or (not extender.managed and "bind" in extender.verbs)


def _role(words: Sequence[str]) -> str:
    """``scheduler`` of ``hami scheduler --listen …`` and of ``python -m hami_core_py scheduler``."""
    program = words[0].rpartition("/")[2] if words else ""
    if program not in PROGRAMS:
        return ""
    rest = [word for word in words[1:] if not word.startswith("-")]
    if program != "hami":
        if "hami_core_py" not in rest:
            return ""
        rest = rest[rest.index("hami_core_py") + 1 :]
    return rest[0] if rest else ""


def _options(words: Sequence[str], name: str) -> Iterator[str]:
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith(f"{name}="):
            yield word.partition("=")[2]
        elif word == name and following:
            yield following


def _asks(pod: PodView, family: Family) -> bool:
    count = family.resources.count
    return any(str(c.limits.get(count) or c.requests.get(count) or "0") != "0" for c in pod.containers)


def _waiting(status: JsonObject) -> Iterator[Waiting]:
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (one.get("state") or {}).get("waiting")
        if waiting:
            yield Waiting(
                container=one.get("name") or "",
                reason=waiting.get("reason") or "",
                message=waiting.get("message") or "",
            )


def _time(text: str | None) -> int:
    try:
        return parse_time(text, "time") if text else 0
    except BadInputError:
        return 0
