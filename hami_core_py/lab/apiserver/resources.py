"""What the API server serves: one line a resource. Adding a kind means adding a line."""

from __future__ import annotations

from dataclasses import dataclass

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One kind of object and where it is served. Compared by identity: the table below has each one once."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()  # field selector labels beyond metadata.name and metadata.namespace
    verbs: tuple[str, ...] = ALL_VERBS
    counts_generations: bool = False  # whether a changed spec raises metadata.generation
    unconditional_update: bool = True  # whether an update may leave out metadata.resourceVersion
    stored_as: tuple[str, str] | None = None  # (group, plural) whose objects these are, in another shape

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name that messages use: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def is_stored(self) -> bool:
        """False for reviews and bindings, which are answered and forgotten."""
        return "get" in self.verbs


@dataclass(frozen=True, slots=True)
class Subresource:
    """A path below an object: the kind that travels there and what may be done."""

    verbs: tuple[str, ...]
    kind: str = ""  # empty: the kind of the object itself
    group: str = ""
    version: str = ""


SUBRESOURCES = {
    "status": Subresource(("get", "patch", "update")),
    "binding": Subresource(("create",), kind="Binding"),
    "eviction": Subresource(("create",), kind="Eviction", group="policy", version="v1"),
    "ephemeralcontainers": Subresource(("get", "patch", "update")),
    "log": Subresource(("get",)),
}

_POD_SUBRESOURCES = ("status", "binding", "eviction", "ephemeralcontainers", "log")
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_OBJECT_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = (*(f"involvedObject.{one}" for one in _OBJECT_REFERENCE), "reason", "reportingComponent", "type")
_NEW_EVENT_FIELDS = (*(f"regarding.{one}" for one in _OBJECT_REFERENCE), "reason", "reportingController", "type")
_CREATE = ("create",)
_ADMISSION = "admissionregistration.k8s.io"

RESOURCES = (
    Resource("", "v1", "namespaces", "Namespace", False, ("ns",), (), ("status",), ("status.phase",)),
    Resource("", "v1", "pods", "Pod", True, ("po",), ("all",), _POD_SUBRESOURCES, _POD_FIELDS, counts_generations=True),
    Resource("", "v1", "bindings", "Binding", verbs=_CREATE),
    Resource("", "v1", "nodes", "Node", False, ("no",), (), ("status",), ("spec.unschedulable",)),
    Resource("", "v1", "events", "Event", True, ("ev",), fields=(*_EVENT_FIELDS, "source")),
    Resource("", "v1", "configmaps", "ConfigMap", True, ("cm",)),
    Resource("", "v1", "secrets", "Secret", fields=("type",)),
    Resource("", "v1", "services", "Service", True, ("svc",), ("all",), ("status",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",)),
    Resource("", "v1", "endpoints", "Endpoints", True, ("ep",)),
    Resource("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",), (), ("status",)),
    Resource("", "v1", "limitranges", "LimitRange", True, ("limits",)),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",), (), ("status",)),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", unconditional_update=False),
    Resource(
        "events.k8s.io", "v1", "events", "Event", True, ("ev",), fields=_NEW_EVENT_FIELDS, stored_as=("", "events")
    ),
    Resource(
        "apps", "v1", "deployments", "Deployment", True, ("deploy",), ("all",), ("status",), counts_generations=True
    ),
    Resource("apps", "v1", "replicasets", "ReplicaSet", True, ("rs",), ("all",), ("status",), counts_generations=True),
    Resource("apps", "v1", "daemonsets", "DaemonSet", True, ("ds",), ("all",), ("status",), counts_generations=True),
    Resource(_ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False),
    Resource(_ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False),
    Resource(
        _ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", False, subresources=("status",)
    ),
    Resource(_ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", False),
    Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", False, verbs=_CREATE),
    Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=_CREATE),
    Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, verbs=_CREATE),
    Resource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=_CREATE),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",), counts_generations=True),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
)

_BY_PATH = {(one.group, one.version, one.plural): one for one in RESOURCES}
_BY_KIND = {(one.group_version, one.kind): one for one in RESOURCES}
_BY_NAME = {one.qualified: one for one in RESOURCES}


def find(name: str) -> Resource:
    """The resource called `name`: a plural (`pods`), or plural and group (`leases.coordination.k8s.io`).

    :raises KeyError: when nothing of that name is served.
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    matching = [one for one in RESOURCES if one.plural == name]
    if len(matching) != 1:
        raise KeyError(f"resource {name!r}: expected one of {', '.join(sorted(_BY_NAME))}")
    return matching[0]


def at_path(group: str, version: str, plural: str) -> Resource | None:
    """The resource served below `/apis/<group>/<version>/<plural>` (group empty: `/api/v1`), or None."""
    return _BY_PATH.get((group, version, plural))


def of_kind(api_version: str, kind: str) -> Resource | None:
    """The resource whose objects say they are this, or None."""
    return _BY_KIND.get((api_version, kind))
