"""Asking a cluster for everything that its checks look at.

What may not be read, or is not served there, is left out and said; a cluster that cannot be asked at all is an error.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import Forbidden, NotFound
from hami_core_py.decisions.doctor.facts import BackendFacts, Certificate, ClusterFacts, Webhook
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.requests import Policies
from hami_core_py.services.doctor import reading
from hami_core_py.services.doctor.certificates import (
    certificate_fact,
    certificate_of_secret,
    decoded,
    first_trusted,
    serves,
)
from hami_core_py.services.snapshot import Snapshot

JsonObject = dict[str, Any]
T = TypeVar("T")

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
KINDS = (("Deployment", "deployments"), ("DaemonSet", "daemonsets"))
DEVICE_CONFIG = "device-config.yaml"
"""Key of the ConfigMap with the processes' settings."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Objects of a cluster by kind, and why others are missing.

    :ivar unseen: kind → the API server's sentence. :ivar namespaces: where we run.
    """

    version: str
    namespaces: frozenset[str]
    objects: Mapping[str, Sequence[JsonObject]]
    unseen: Mapping[str, str] = field(default_factory=dict)

    def of(self, kind: str) -> Sequence[JsonObject]:
        """All objects of a kind; empty where they could not be read."""
        return self.objects.get(kind, ())

    def here(self, kind: str) -> Sequence[JsonObject]:
        """Objects of a kind in our namespaces."""
        return [one for one in self.of(kind) if one["metadata"].get("namespace") in self.namespaces]

    def device_config(self) -> str:
        """The processes' settings; empty: no ConfigMap of ours holds them."""
        texts = ((one.get("data") or {}).get(DEVICE_CONFIG) for one in self.here("configmaps"))
        return next((text for text in texts if text), "")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the cluster's configuration says, as far as checks need it. :ivar problem: why it is refused."""

    backends: tuple[BackendFacts, ...]
    policies: Policies
    scheduler_names: frozenset[str]
    publishes_totals: bool = True
    trust_v210: bool = True
    problem: str = ""


def gather(client: Client, namespaces: Iterable[str] = (), *, events: bool = False) -> Gathered:
    """Read a cluster.

    :param namespaces: where we run, besides those where our webhooks and processes are found.
    :param events: whether to read all events as well; no check needs them.

    :raises ApiError: it cannot be asked.
    """
    version = str(client.get("/version").get("gitVersion") or "")
    objects: dict[str, Sequence[JsonObject]] = {}
    unseen: dict[str, str] = {}

    def read(kind: str, paths: Iterable[str]) -> None:
        try:
            objects[kind] = [one for path in paths for one in client.list(path)[0]]
        except (Forbidden, NotFound) as problem:
            unseen[kind] = problem.message

    read("webhooks", [f"{REGISTRATION}/mutatingwebhookconfigurations"])
    read("policies", [f"{REGISTRATION}/validatingadmissionpolicies"])
    read("policybindings", [f"{REGISTRATION}/validatingadmissionpolicybindings"])
    read("deployments", ["/apis/apps/v1/deployments"])
    read("daemonsets", ["/apis/apps/v1/daemonsets"])
    read("nodes", ["/api/v1/nodes"])
    read("pods", ["/api/v1/pods"])
    read("namespaces", ["/api/v1/namespaces"])
    read("leases", ["/apis/coordination.k8s.io/v1/leases"])
    if events:
        read("events", ["/api/v1/events"])
    where = frozenset(namespaces) | _namespaces(objects)
    for kind, prefix in (
        ("services", ("api", "v1")),
        ("endpointslices", ("apis", "discovery.k8s.io", "v1")),
        ("configmaps", ("api", "v1")),
        ("secrets", ("api", "v1")),
    ):
        read(kind, [join_path(*prefix, "namespaces", namespace, kind) for namespace in sorted(where)])
    return Gathered(version=version, namespaces=where, objects=objects, unseen=unseen)


def facts_of(
    gathered: Gathered,
    ask: Ask,
    settings: Settings,
    *,
    scheduler_configs: Iterable[tuple[str, str]] = (),
    now_ns: Callable[[], int] = time.time_ns,
) -> ClusterFacts:
    """Facts for the checks. :param scheduler_configs: name and text of further kube-scheduler configurations."""
    families = ask.families
    resources = frozenset(name for family in families.values() for name in family.resources.names())
    unread: list[str] = []

    def each(read: Callable[[JsonObject], Iterable[T | None]], found: Iterable[JsonObject]) -> Iterator[T]:
        """What can be read of these objects; one that has another shape than we know never stops the others."""
        for one in found:
            try:
                yield from (fact for fact in list(read(one)) if fact is not None)
            except (AttributeError, KeyError, TypeError, ValueError) as problem:
                metadata = one.get("metadata") or {}
                unread.append(f"{metadata.get('namespace') or ''}/{metadata.get('name')}: {problem!r}")

    entries = list(each(reading.webhooks_of, gathered.of("webhooks")))
    configs = list(each(lambda one: reading.configs_of(one, resources), gathered.here("configmaps")))
    for where, text in scheduler_configs:
        given = {"metadata": {"name": where}}
        configs += each(lambda _, text=text, where=where: reading.config_of(text, where, resources), [given])  # type: ignore[misc]
    workloads = [
        workload
        for kind, name in KINDS
        for workload in each(lambda one, kind=kind: [reading.workload_of(kind, one)], gathered.of(name))  # type: ignore[misc]
    ]
    names = [backend.name for backend in settings.backends]
    trust = settings.trust_v210
    snapshot = Snapshot(
        gathered.of("nodes"),
        gathered.of("pods"),
        ask,
        policies=settings.policies,
        trust_v210=settings.trust_v210,
        needs_allocatable=False,
    )
    slices, bindings = gathered.of("endpointslices"), gathered.of("policybindings")
    return ClusterFacts(
        now_ns=now_ns(),
        version=gathered.version,
        families=families,
        backends=settings.backends,
        webhooks=tuple(webhook for webhook, _ in entries),
        certificates=tuple(_certificates(entries, gathered.here("secrets"))),
        services=tuple(each(lambda one: [reading.service_of(one, slices)], gathered.of("services"))),
        configs=tuple(configs),
        policies=tuple(each(lambda one: [reading.policy_of(one, bindings)], gathered.of("policies"))),
        workloads=tuple(workloads),
        namespaces={
            one["metadata"]["name"]: one["metadata"].get("labels") or {}
            for one in gathered.of("namespaces")
            if one["metadata"]["name"] in gathered.namespaces
        },
        nodes=tuple(each(lambda one: [reading.node_of(one, names)], gathered.of("nodes"))),
        leases=tuple(each(lambda one: [reading.lease_of(one)], gathered.of("leases"))),
        pods=tuple(each(lambda one: [reading.pod_of(one, families, trust_v210=trust)], gathered.of("pods"))),
        usages=snapshot.devices(),
        scheduler_names=settings.scheduler_names,
        settings_problem=settings.problem,
        publishes_totals=settings.publishes_totals,
        looked=_looked(gathered),
        unread=tuple(unread),
    )


def _looked(gathered: Gathered) -> frozenset[str]:
    looked = set(gathered.objects)
    if not {"services", "endpointslices"} <= looked:
        looked.discard("services")
    if not {"policies", "policybindings"} <= looked:
        looked.discard("policies")
    if {"deployments", "daemonsets"} <= looked:
        looked.add("workloads")
    if "configmaps" in looked:
        looked.add("configs")
    return frozenset(looked)


def _namespaces(objects: Mapping[str, Sequence[JsonObject]]) -> frozenset[str]:
    """Where our webhooks' Services and our processes are."""
    entries = (entry for one in objects.get("webhooks", ()) for entry, _ in reading.webhooks_of(one))
    found = {entry.service[0] for entry in entries if entry.service}
    for kind, name in KINDS:
        found |= {w.namespace for one in objects.get(name, ()) if (w := reading.workload_of(kind, one))}
    return frozenset(found)


def _certificates(
    entries: Sequence[tuple[Webhook, Mapping[str, Any]]], secrets: Sequence[JsonObject]
) -> Iterable[Certificate]:
    """Serving certificates by the Secrets that hold them; of these only the public half is looked at."""
    for webhook, client in entries:
        if webhook.service is None:
            continue
        namespace, name, _ = webhook.service
        host = f"{name}.{namespace}.svc"
        bundle = decoded(client.get("caBundle"))
        found = [
            fact
            for secret in secrets
            if secret["metadata"].get("namespace") == namespace
            and serves(chain := certificate_of_secret(secret), host)
            and (
                fact := certificate_fact(
                    f"Secret {namespace}/{secret['metadata']['name']}", webhook.name, chain, bundle
                )
            )
        ]
        if chosen := first_trusted(found):
            yield chosen
