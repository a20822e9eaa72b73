"""What decisions may see of Kubernetes: small frozen views of pods, containers and nodes, read from the API's JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hami_core_py.models.answers import Candidate
from hami_core_py.models.devices import NO_FACTS, no_facts
from hami_core_py.models.requests import ContainerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """One container: its resources as the API spells them (quantities are text) and its literal environment.

    :ivar env: variables with a literal value; ``env_names`` has all names, those from sources included.
    """

    name: str
    kind: ContainerKind = ContainerKind.APP
    limits: Mapping[str, str] = field(default_factory=no_facts)
    requests: Mapping[str, str] = field(default_factory=no_facts)
    env: Mapping[str, str] = field(default_factory=no_facts)
    env_names: frozenset[str] = frozenset()
    privileged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod.

    :ivar containers: init containers and sidecars first, in the pod's order, then app containers.
    :ivar node: ``spec.nodeName``; empty while unbound.
    :ivar phase: ``status.phase``; :ivar terminating: whether a deletion time is set.
    """

    uid: str
    namespace: str
    name: str
    containers: tuple[ContainerView, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=no_facts)
    labels: Mapping[str, str] = field(default_factory=no_facts)
    node: str = ""
    phase: str = ""
    terminating: bool = False
    scheduler: str = ""
    runtime_class: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node: its texts and amounts as the API spells them."""

    name: str
    annotations: Mapping[str, str] = field(default_factory=no_facts)
    labels: Mapping[str, str] = field(default_factory=no_facts)
    capacity: Mapping[str, str] = field(default_factory=no_facts)
    allocatable: Mapping[str, str] = field(default_factory=no_facts)
    ready: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementView:
    """A finished choice on one node, as ``hami_score_placement`` sees it.

    :ivar chosen: per container, the seats taken. :ivar before: all candidates of the family before this pod.
    """

    family: str
    chosen: tuple[tuple[Candidate, ...], ...]
    before: tuple[Candidate, ...]
    facts: Mapping[str, str] = field(default_factory=no_facts)
    node_policy: str = "binpack"


def pod_view(pod: Mapping[str, Any]) -> PodView:
    """Read a pod object of the API (decoded JSON).

    Missing parts read as empty; wrong shapes raise ``TypeError``, ``AttributeError`` or ``KeyError``.
    """
    metadata = pod.get("metadata") or {}
    spec = pod.get("spec") or {}
    status = pod.get("status") or {}
    containers = [_container(c, _init_kind(c)) for c in spec.get("initContainers") or ()]
    containers += [_container(c, ContainerKind.APP) for c in spec.get("containers") or ()]
    return PodView(
        uid=metadata.get("uid") or "",
        namespace=metadata.get("namespace") or "default",
        name=metadata.get("name") or metadata.get("generateName") or "",
        containers=tuple(containers),
        annotations=metadata.get("annotations") or NO_FACTS,
        labels=metadata.get("labels") or NO_FACTS,
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "",
        terminating=bool(metadata.get("deletionTimestamp")),
        scheduler=spec.get("schedulerName") or "",
        runtime_class=spec.get("runtimeClassName") or "",
        priority=spec.get("priority") or 0,
    )


def node_view(node: Mapping[str, Any]) -> NodeView:
    """Read a node object of the API (decoded JSON). Missing parts read as empty."""
    metadata = node.get("metadata") or {}
    status = node.get("status") or {}
    return NodeView(
        name=metadata.get("name") or "",
        annotations=metadata.get("annotations") or NO_FACTS,
        labels=metadata.get("labels") or NO_FACTS,
        capacity=_texts(status.get("capacity")),
        allocatable=_texts(status.get("allocatable")),
        ready=_is_ready(status.get("conditions") or ()),
    )


def _init_kind(container: Mapping[str, Any]) -> ContainerKind:
    return ContainerKind.SIDECAR if container.get("restartPolicy") == "Always" else ContainerKind.INIT


def _container(container: Mapping[str, Any], kind: ContainerKind) -> ContainerView:
    resources = container.get("resources") or {}
    env = container.get("env") or ()
    return ContainerView(
        name=container.get("name") or "",
        kind=kind,
        limits=_texts(resources.get("limits")),
        requests=_texts(resources.get("requests")),
        env={e["name"]: e.get("value") or "" for e in env if "valueFrom" not in e} if env else NO_FACTS,
        env_names=frozenset(e["name"] for e in env) if env else frozenset(),
        privileged=bool((container.get("securityContext") or {}).get("privileged")),
    )


def _texts(amounts: Mapping[str, Any] | None) -> Mapping[str, str]:
    return {name: str(amount) for name, amount in amounts.items()} if amounts else NO_FACTS


def _is_ready(conditions: Sequence[Mapping[str, Any]]) -> bool:
    """A node that states no Ready condition counts as ready: saved and hand-made objects often leave it out."""
    return all(c.get("status") == "True" for c in conditions if c.get("type") == "Ready")
