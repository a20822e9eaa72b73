"""What somebody who helps needs to see of a cluster, as files, without secrets."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from hami_core_py.codecs.native import RECORD, inventory_key
from hami_core_py.codecs.records import CORE_KEYS, NODE
from hami_core_py.decisions.doctor.facts import BackendFacts
from hami_core_py.decisions.redaction import HIDDEN, redacted, redacted_settings, redacted_text
from hami_core_py.hooks.ask import Ask
from hami_core_py.services.doctor import reading
from hami_core_py.services.doctor.cluster import KINDS, Gathered

JsonObject = Mapping[str, Any]
Explain = Callable[[JsonObject], Mapping[str, Any]]

MOST_EXPLAINED = 50
"""Pending pods that are explained one by one; their reasons repeat."""
MOST_EVENTS = 2000

ABOUT = f"""What `hami support-bundle` has collected.

Secrets, the data of ConfigMaps, values of environment variables, arguments of containers that are not HAMi's, annotations that
are neither HAMi's nor about its installation, and texts that look like keys, tokens or passwords were left out, and show as
{HIDDEN!r}. Names of nodes, pods, namespaces, images and devices were not. Read it before you send it.
"""


def bundle_files(
    gathered: Gathered, ask: Ask, backends: Sequence[BackendFacts], *, explain: Explain, more: Mapping[str, Any]
) -> dict[str, str]:
    """Files by name.

    :param explain: where a pending pod would go, and why not elsewhere. :param more: further files, as values.
    """
    keys = CORE_KEYS.union(*(backend.pod_keys | backend.node_keys for backend in backends))
    relevant = _Relevant(gathered, ask, [backend.name for backend in backends], keys)
    pods = list(relevant.pods())
    nodes = list(relevant.nodes(pods))

    def shown(found: Iterable[JsonObject]) -> list[dict[str, Any]]:
        return [redacted(one, lambda key: key in keys) for one in found]

    files: dict[str, Any] = {
        **more,
        "settings.json": redacted_settings(_yaml(gathered.device_config())),
        "schedulers.json": redacted_settings(relevant.schedulers()),
        "nodes.json": shown(nodes),
        "pods.json": shown(pods),
        "workloads.json": shown(relevant.workloads()),
        "installation.json": shown(relevant.installation()),
        "leases.json": shown(one for one in gathered.of("leases") if _name(one).startswith("hami-")),
        "events.json": shown(relevant.events(pods, nodes)),
        "pending.json": [_explained(pod, explain) for pod in relevant.pending(pods)][:MOST_EXPLAINED],
        "unseen.json": dict(gathered.unseen),
    }
    texts = {name: json.dumps(content, indent=2, ensure_ascii=False) + "\n" for name, content in sorted(files.items())}
    return {"README.txt": ABOUT, **{name: redacted_text(text) for name, text in texts.items()}}


class _Relevant:
    """Which objects of a cluster have to do with us."""

    def __init__(self, gathered: Gathered, ask: Ask, backends: Sequence[str], keys: frozenset[str]) -> None:
        self._gathered, self._keys = gathered, keys
        self._counts = frozenset(family.resources.count for family in ask.families.values())
        self._inventories = frozenset(map(inventory_key, backends))

    def pods(self) -> Iterator[JsonObject]:
        """Pods that ask for devices, hold some, or are ours."""
        for pod in self._gathered.of("pods"):
            metadata = pod.get("metadata") or {}
            annotations = metadata.get("annotations") or {}
            is_ours = metadata.get("namespace") in self._gathered.namespaces
            if is_ours or RECORD in annotations or NODE in annotations or self._asks(pod):
                yield pod

    def pending(self, pods: Iterable[JsonObject]) -> Iterator[JsonObject]:
        """Those that wait for a node."""
        for pod in pods:
            if self._asks(pod) and not (pod.get("spec") or {}).get("nodeName"):
                yield pod

    def nodes(self, pods: Iterable[JsonObject]) -> Iterator[JsonObject]:
        """Nodes with devices, and those where a relevant pod is."""
        used = {(pod.get("spec") or {}).get("nodeName") for pod in pods}
        for node in self._gathered.of("nodes"):
            annotations = (node.get("metadata") or {}).get("annotations") or {}
            capacity = (node.get("status") or {}).get("capacity") or {}
            if (
                _name(node) in used
                or self._counts & set(capacity)
                or (self._keys | self._inventories) & set(annotations)
            ):
                yield node

    def workloads(self) -> Iterator[JsonObject]:
        """Deployments and DaemonSets that run our processes."""
        for kind, name in KINDS:
            for one in self._gathered.of(name):
                if reading.workload_of(kind, one) is not None:
                    yield {"kind": kind, **one}

    def installation(self) -> Iterator[JsonObject]:
        """Our webhooks, policies about our keys, Services, and who is behind them."""
        for one in self._gathered.of("webhooks"):
            if any(True for _ in reading.webhooks_of(one)):
                yield {"kind": "MutatingWebhookConfiguration", **one}
        for kind, name in (
            ("ValidatingAdmissionPolicy", "policies"),
            ("ValidatingAdmissionPolicyBinding", "policybindings"),
        ):
            for one in self._gathered.of(name):
                if RECORD in json.dumps(one) or "hami" in _name(one):
                    yield {"kind": kind, **one}
        for kind, name in (("Service", "services"), ("EndpointSlice", "endpointslices"), ("Secret", "secrets")):
            for one in self._gathered.here(name):
                yield {**one, "kind": kind}

    def schedulers(self) -> list[dict[str, Any]]:
        """kube-scheduler's configurations in our namespaces."""
        return [
            {"where": f"{one['metadata'].get('namespace')}/{_name(one)}/{key}", "config": _yaml(text)}
            for one in self._gathered.here("configmaps")
            for key, text in sorted((one.get("data") or {}).items())
            if "extenders:" in text
        ]

    def events(self, pods: Iterable[JsonObject], nodes: Iterable[JsonObject]) -> list[JsonObject]:
        """Events about relevant pods and nodes and in our namespaces, the youngest last."""
        about = {((one.get("metadata") or {}).get("namespace"), _name(one)) for one in pods}
        names = {_name(node) for node in nodes}
        found: list[JsonObject] = []
        for event in self._gathered.of("events"):
            target = event.get("involvedObject") or {}
            namespace = target.get("namespace")
            is_node = target.get("kind") == "Node" and target.get("name") in names
            if is_node or (namespace, target.get("name")) in about or namespace in self._gathered.namespaces:
                found.append(event)
        return sorted(found, key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))[
            -MOST_EVENTS:
        ]

    def _asks(self, pod: JsonObject) -> bool:
        spec = pod.get("spec") or {}
        containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        resources = (one.get("resources") or {} for one in containers)
        return any(self._counts & {*(r.get("limits") or ()), *(r.get("requests") or ())} for r in resources)


def _explained(pod: JsonObject, explain: Explain) -> dict[str, Any]:
    metadata = pod.get("metadata") or {}
    try:
        return dict(explain(pod))
    except Exception as problem:  # noqa: BLE001 - one pod must not cost the others their explanation
        return {"pod": f"{metadata.get('namespace')}/{metadata.get('name')}", "problem": str(problem)}


def _yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as problem:
        return {"problem": " ".join(str(problem).split())}


def _name(found: JsonObject) -> str:
    return str((found.get("metadata") or {}).get("name") or "")
