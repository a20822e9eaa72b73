"""Facts of an installation without any mistake; each test makes one."""

from typing import Any

from hami_core_py.decisions.doctor.facts import (
    BackendFacts,
    Certificate,
    ClusterFacts,
    Extender,
    Lease,
    Node,
    NodeInventory,
    Pod,
    Policy,
    SchedulerConfig,
    Service,
    Webhook,
    Workload,
)
from hami_core_py.decisions.doctor.hostfacts import BackendOnHost, Directory, HostFacts, KeptRecord, Runtime
from hami_core_py.models.families import AnnotatedDevices, Handshake
from hami_core_py.testing import builders

SECOND_NS = 1_000_000_000
DAY_NS = 86_400 * SECOND_NS
NOW_NS = 1_800_000_000 * SECOND_NS

FAMILY = builders.family(
    inventory=AnnotatedDevices(key="hami.io/node-acme-register", form="json"),
    liveness=Handshake(key="hami.io/node-handshake-acme"),
)
RESOURCES = FAMILY.resources.names()
TOTALS = {builders.COUNT: "10", builders.MEMORY: "16384", builders.PERCENT: "100", builders.CORE: "100"}
GUARDED = frozenset({"pods", "pods/status", "pods/binding", "bindings"})
POD_KEYS = ("hami.io/device-allocated", "hami.io/device-allocated-proof", "hami.io/bind-node")


def webhook(**fields: Any) -> Webhook:
    exclusion = {"key": "kubernetes.io/metadata.name", "operator": "NotIn"}
    defaults: dict[str, Any] = {
        "name": "hami/pods.hami.io",
        "timeout_seconds": 5,
        "reinvocation": "IfNeeded",
        "conditions": (f"concerns('{builders.COUNT}')",),
        "namespace_selector": {
            "matchExpressions": [{**exclusion, "values": ["kube-system", "hami-system", "hami-nodes"]}]
        },
        "resources": frozenset({"pods", "pods/ephemeralcontainers"}),
        "service": ("hami-system", "hami-webhook", 443),
    }
    return Webhook(**{**defaults, **fields})


def extender(**fields: Any) -> Extender:
    defaults: dict[str, Any] = {
        "verbs": frozenset({"filter", "prioritize", "preempt", "bind"}),
        "names_only": True,
        "managed": {name: name != builders.COUNT for name in RESOURCES},
    }
    return Extender(**{**defaults, **fields})


def config(**fields: Any) -> SchedulerConfig:
    defaults: dict[str, Any] = {
        "where": "ConfigMap hami-system/hami-scheduler, config.yaml",
        "extenders": (extender(),),
        "profiles": frozenset({"hami-scheduler"}),
    }
    return SchedulerConfig(**{**defaults, **fields})


def node(name: str = "n1", *, identity: str = "late", healthy: bool = True, **fields: Any) -> Node:
    from hami_core_py.models.devices import Health

    state = Health.HEALTHY if healthy else Health.UNHEALTHY
    inventory = NodeInventory(
        backend="acme",
        identity=identity,  # type: ignore[arg-type]
        devices=(builders.device(f"{name}-0", health=state),),
    )
    view = fields.pop("view", None) or builders.node(name, capacity=TOTALS)
    defaults: dict[str, Any] = {
        "view": view,
        "inventories": (inventory,),
        "kubelet": "v1.34.2",
        "runtime": "containerd://2.1.0",
    }
    return Node(**{**defaults, **fields})


def pod(**fields: Any) -> Pod:
    view = fields.pop("view", {})
    shown = builders.pod(
        builders.container(limits={builders.COUNT: 1}),
        **{"node": "n1", "phase": "Running", "scheduler": "hami-scheduler", **view},
    )
    return Pod(**{"view": shown, "families": frozenset({"Acme"}), "has_record": True, "since_ns": NOW_NS, **fields})


def workload(kind: str, name: str, namespace: str, *roles: str, **fields: Any) -> Workload:
    return Workload(kind=kind, name=name, namespace=namespace, roles=frozenset(roles), **fields)


def policies(**fields: Any) -> tuple[Policy, ...]:
    records = (
        " ".join(f"'{key}'" for key in POD_KEYS)
        + " k.endsWith('-devices-allocated') k.endsWith('-devices-to-allocate')"
    )
    return (
        Policy(**{"name": "records", "resources": GUARDED, "text": records, "enforced": True, **fields}),
        Policy(name="nodes", resources=frozenset({"nodes"}), text="'hami.io/node-acme-inventory'", enforced=True),
    )


def cluster(**fields: Any) -> ClusterFacts:
    """A healthy cluster. :param fields: what is otherwise."""
    backend = BackendFacts(
        name="acme",
        pod_keys=frozenset({"hami.io/acme-devices-allocated"}),
        node_keys=frozenset({"hami.io/node-acme-inventory"}),
    )
    certificate = Certificate(
        where="Secret hami-system/hami-webhook-tls",
        webhook="hami/pods.hami.io",
        expires_ns=NOW_NS + 60 * DAY_NS,
        trusted=True,
    )
    scheduler = workload(
        "Deployment",
        "hami-scheduler",
        "hami-system",
        "scheduler",
        images={"kube-scheduler": "kube-scheduler:v1.34.1"},
    )
    defaults: dict[str, Any] = {
        "now_ns": NOW_NS,
        "version": "v1.34.2",
        "families": {FAMILY.name: FAMILY},
        "backends": (backend,),
        "webhooks": (webhook(),),
        "certificates": (certificate,),
        "services": (Service(namespace="hami-system", name="hami-webhook", ports=frozenset({443}), ready=2),),
        "configs": (config(),),
        "policies": policies(),
        "workloads": (
            scheduler,
            workload("Deployment", "hami-webhook", "hami-system", "webhook", wanted=2, ready=2),
            workload(
                "DaemonSet", "hami-device-plugin-acme", "hami-nodes", "device-plugin", backends=frozenset({"acme"})
            ),
        ),
        "namespaces": {
            "hami-system": {"pod-security.kubernetes.io/enforce": "restricted"},
            "hami-nodes": {"pod-security.kubernetes.io/enforce": "privileged"},
        },
        "nodes": (node(),),
        "leases": (Lease(name="hami-agent-acme-n1", renewed_ns=NOW_NS - 30 * SECOND_NS, seconds=180),),
        "pods": (pod(),),
        "usages": (("n1", builders.device("n1-0"), builders.usage(slots=1, memory_mib=1024, core_units=10)),),
        "scheduler_names": frozenset({"hami-scheduler"}),
        "looked": frozenset({"webhooks", "services", "policies", "configs", "workloads", "leases"}),
    }
    return ClusterFacts(**{**defaults, **fields})


def directory(path: str, **fields: Any) -> Directory:
    return Directory(**{"path": path, "file_system": "ext4", "root": path, "free_bytes": 2**33, **fields})


def host(**fields: Any) -> HostFacts:
    """A healthy node, as seen from there."""
    defaults: dict[str, Any] = {
        "plugin_dir": directory("/var/lib/kubelet/device-plugins"),
        "state_dir": directory("/var/lib/hami"),
        "cdi_dir": directory("/var/run/cdi", file_system="tmpfs"),
        "sockets": (("/var/lib/kubelet/device-plugins/hami-acme.sock", "answers"),),
        "wanted_sockets": ("/var/lib/kubelet/device-plugins/hami-acme.sock",),
        "runtime": Runtime(path="/etc/containerd/config.toml", version=3, spec_dirs=("/etc/cdi", "/run/cdi")),
        "containerd": (2, 1),
        "records": (KeptRecord(name="ab12", pod="ml/train", known=True, mounted=True),),
        "backends": (BackendOnHost(name="acme", devices=2),),
    }
    return HostFacts(**{**defaults, **fields})
