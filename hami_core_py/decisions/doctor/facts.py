"""What the checks of a cluster look at: read from Kubernetes objects once, plain from then on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hami_core_py.codecs.native import Identity
from hami_core_py.models.devices import Device, Usage, no_facts
from hami_core_py.models.families import Family
from hami_core_py.models.views import NodeView, PodView

Role = str
"""Which of our processes a workload runs: ``scheduler``, ``webhook``, ``device-plugin`` or ``monitor``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One entry of a MutatingWebhookConfiguration that calls us.

    :ivar name: configuration and entry. :ivar conditions: CEL expressions; all must hold for a pod to reach the webhook.
    :ivar resources: what it is called for, sub-resources included, as the rules spell them.
    :ivar service: namespace, name and port; ``None``: it is called by a URL.
    """

    name: str
    failure_policy: str = "Fail"
    timeout_seconds: int = 10
    reinvocation: str = "Never"
    conditions: tuple[str, ...] = ()
    namespace_selector: Mapping[str, Any] = field(default_factory=no_facts)
    resources: frozenset[str] = frozenset()
    service: tuple[str, str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A serving certificate of a webhook. :ivar trusted: whether the webhook's caBundle vouches for it."""

    where: str
    webhook: str
    expires_ns: int
    trusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A Service and how many ready pods stand behind it."""

    namespace: str
    name: str
    ports: frozenset[int] = frozenset()
    ready: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extender:
    """An entry ``extenders`` of a kube-scheduler's configuration.

    :ivar verbs: those that are set, of ``filter``, ``prioritize``, ``preempt`` and ``bind``.
    :ivar timeout_seconds: kube-scheduler's own default is 5 s. :ivar managed: resource → ``ignoredByScheduler``.
    """

    verbs: frozenset[str] = frozenset()
    ignorable: bool = False
    timeout_seconds: float = 5.0
    names_only: bool = False
    managed: Mapping[str, bool] = field(default_factory=no_facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """A kube-scheduler's configuration that calls our extender.

    :ivar profiles: scheduler names it serves; empty where the text is only the part about extenders.
    :ivar percentage: ``percentageOfNodesToScore``; ``None`` or 0: kube-scheduler's own choice.
    """

    where: str
    extenders: tuple[Extender, ...] = ()
    profiles: frozenset[str] = frozenset()
    percentage: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A ValidatingAdmissionPolicy. :ivar enforced: whether a binding makes it refuse. :ivar text: all of it."""

    name: str
    resources: frozenset[str]
    text: str
    enforced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Deployment or DaemonSet that runs processes of ours.

    :ivar backends: names that its agents are told to ask; empty: all.
    :ivar wanted: pods there should be; of a DaemonSet the number of nodes that it selects.
    """

    kind: str
    namespace: str
    name: str
    roles: frozenset[Role] = frozenset()
    backends: frozenset[str] = frozenset()
    images: Mapping[str, str] = field(default_factory=no_facts)
    wanted: int = 1
    ready: int = 1

    @property
    def subject(self) -> str:
        """For findings."""
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInventory:
    """What a node's annotation says of one backend's devices. :ivar problem: why it cannot be read; empty: it can."""

    backend: str
    identity: Identity = "late"
    devices: tuple[Device, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. :ivar runtime: as the kubelet spells it, such as ``containerd://2.0.0``."""

    view: NodeView
    inventories: tuple[NodeInventory, ...] = ()
    kubelet: str = ""
    runtime: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """When an agent last said that it lives, and for how long that is good."""

    name: str
    renewed_ns: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A container that does not run, and why."""

    container: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that asks for devices of ours, or holds some.

    :ivar record_problem: why its record cannot be read. :ivar failed: ``status.reason``.
    :ivar since_ns: when it came to its node; 0: unknown.
    """

    view: PodView
    families: frozenset[str] = frozenset()
    has_record: bool = False
    record_problem: str = ""
    waiting: tuple[Waiting, ...] = ()
    failed: str = ""
    since_ns: int = 0

    @property
    def subject(self) -> str:
        """For findings."""
        return f"pod {self.view.namespace}/{self.view.name}"

    @property
    def is_live(self) -> bool:
        """Whether its containers run or may run."""
        return self.view.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFacts:
    """What the cluster's configuration enables.

    :ivar has_agent: whether our node agent can serve it. :ivar every_pod: whether a setting of it concerns pods without devices.
    :ivar pod_keys: annotations of pods that only the control plane may write; ``node_keys``: of nodes, only agents.
    """

    name: str
    has_agent: bool = True
    every_pod: bool = False
    pod_keys: frozenset[str] = frozenset()
    node_keys: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ClusterFacts:
    """Everything the checks of a cluster may see.

    :ivar now_ns: nanoseconds since the Unix epoch. :ivar version: of the API server, such as ``v1.34.2``.
    :ivar namespaces: name → labels, of those where we run. :ivar settings_problem: why the cluster's own device
        configuration is refused. :ivar scheduler_names: names that the webhook writes into pods.
    :ivar looked: what could be read; a check says nothing of what could not.
    :ivar usages: node, device, and what the records of live pods add up to on it.
    :ivar unread: objects whose shape is not known, each with why.
    """

    now_ns: int
    version: str = ""
    families: Mapping[str, Family] = field(default_factory=no_facts)
    backends: tuple[BackendFacts, ...] = ()
    webhooks: tuple[Webhook, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    services: tuple[Service, ...] = ()
    configs: tuple[SchedulerConfig, ...] = ()
    policies: tuple[Policy, ...] = ()
    workloads: tuple[Workload, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=no_facts)
    nodes: tuple[Node, ...] = ()
    leases: tuple[Lease, ...] = ()
    pods: tuple[Pod, ...] = ()
    usages: tuple[tuple[str, Device, Usage], ...] = ()
    scheduler_names: frozenset[str] = frozenset()
    settings_problem: str = ""
    publishes_totals: bool = True
    looked: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()

    @property
    def resources(self) -> tuple[str, ...]:
        """All resources of the enabled backends, sorted."""
        return tuple(sorted({name for family in self.families.values() for name in family.resources.names()}))

    @property
    def counts(self) -> tuple[str, ...]:
        """Count resources of the enabled backends, sorted."""
        return tuple(sorted({family.resources.count for family in self.families.values()}))
