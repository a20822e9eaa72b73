"""The values of the Helm chart as models, from which its schema and its reference page are written."""

from typing import Annotated, Any, Literal

from hami_backend_mock.settings import Settings as MockSettings
from hami_backend_nvidia.settings import Settings as NvidiaSettings
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel

from hami_core_py.settings import Settings

OLD = {"deprecated": True}
"""Marks what only values files of the v2.10 chart use."""

Duration = Annotated[str, Field(pattern=r"^([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+$")]
Port = Annotated[int, Field(ge=1, le=65535)]
NodePort = Annotated[int, Field(ge=30000, le=32767)]
Switch = bool | Literal["true", "false"]
Texts = dict[str, str]
Object = dict[str, Any]
Objects = list[dict[str, Any]]
Resource = Annotated[
    str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$|^$")
]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
DeviceChain = Annotated[
    str,
    Field(pattern=r"^(binpack|spread|topology-aware|mutex|numa)( *, *(binpack|spread|topology-aware|mutex|numa))*$"),
]


class Values(BaseModel):
    """Values that are closed: what is not listed is refused."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", use_attribute_docstrings=True
    )


class Image(Values):
    registry: str | None = None
    """Empty: the runtime's default. `global.imageRegistry` beats it."""
    repository: str | None = None
    """Name of the image."""
    tag: str | None = None
    """Empty: `global.imageTag`, else the chart's version; for kube-scheduler the cluster's version."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """As in a container."""
    pull_secrets: list[str | Object] | None = None
    """Names of pull secrets besides the global ones."""


class Resources(Values):
    limits: dict[str, str | int | float] | None = None
    """As in a container."""
    requests: dict[str, str | int | float] | None = None
    """As in a container."""
    claims: Objects | None = None
    """As in a container."""


class Selector(Values):
    match_labels: Texts | None = None
    """As in a label selector."""
    match_expressions: Objects | None = None
    """As in a label selector."""


class Budget(Values):
    enabled: bool | None = None
    """Whether evictions leave all replicas but one alone; with one replica there is none."""


class Global(Values):
    image_registry: str | None = None
    """Replaces the registry of every image."""
    image_tag: str | None = None
    """Tag of our images that have none of their own."""
    image_pull_secrets: list[str | Object] | None = None
    """Names of pull secrets of every pod."""
    labels: Texts | None = None
    """Added to every object."""
    annotations: Texts | None = None
    """Added to Deployments and DaemonSets."""
    gpu_hook_path: str | None = Field(default=None, json_schema_extra=OLD)
    managed_node_selector_enable: Switch | None = Field(default=None, json_schema_extra=OLD)
    managed_node_selector: Texts | None = Field(default=None, json_schema_extra=OLD)


class Managed(Values):
    role: Literal["count", "memory", "memoryPercent", "core", "priority"]
    """What the amount means."""
    name: Resource | None = None
    """The resource's name."""
    setting: str | None = None
    """In place of a name: where in the backend's settings it stands, such as `configs[].resourceName`."""


class Bookkeeping(Values):
    pods: list[str] | None = None
    """Pod annotations that only we write."""
    nodes: list[str] | None = None
    """Node annotations that only the node's agent writes."""


class HostPath(Values):
    host_path: str
    """Path on the node."""
    mount_path: str | None = None
    """Path in the container; empty: the same."""
    read_only: bool | None = None
    """True unless said otherwise."""
    type: str | None = None
    """As in a hostPath volume."""


class Agent(Values):
    enabled: bool | None = None
    """False: no node agent of this backend runs."""
    image: Image | None = None
    """Where it is not the image of all agents."""
    node_selector: Texts | None = None
    """Nodes with such devices; an override replaces it as a whole."""
    tolerations: Objects | None = None
    """Added to `devicePlugin.tolerations`."""
    runtime_class_name: str | None = None
    """Runtime class of the agent's pods."""
    env: Texts | None = None
    """Variables of the agent and the monitor."""
    host_paths: list[HostPath] | None = None
    """What else it needs of the node."""
    capabilities: list[str] | None = None
    """What else it needs to be allowed."""
    privileged: bool | None = None
    """Whether its drivers work in a privileged container only."""
    host_pid: bool | None = Field(default=None, alias="hostPID")
    """Beats `devicePlugin.hostPID`."""
    monitor: bool | None = None
    """Whether a monitor runs beside it."""
    rules: Objects | None = None
    """Further RBAC rules."""
    resources: Resources | None = None
    """Beats `devicePlugin.resources`."""
    update_strategy: Object | None = None
    """Beats `devicePlugin.updateStrategy`."""


class Plugin(Values):
    image: str | None = None
    """An image that holds the backend's Python packages."""
    path: str | None = None
    """Where they lie in it; default `/site-packages`."""
    as_: Literal["copy", "volume"] | None = Field(default=None, alias="as")
    """`copy`: an init container copies them, with the image's own `cp`; `volume`: an image volume (Kubernetes ≥ 1.35)."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """As in a container."""


class _Override(Values):
    section: str | None = None
    """Name of its section in the device configuration."""
    vendor: str | None = None
    """For people."""
    stands_in: bool | None = None
    """Whether it offers devices of other backends."""
    managed: list[Managed] | None = None
    """Resources that pods ask with; replaces the definition's list."""
    bookkeeping: Bookkeeping | None = None
    """Annotations that only we write."""
    agent: Agent | None = None
    """Its node agent; absent: it has none."""
    files: Texts | None = None
    """Files that every process finds in `/etc/hami/backends/<name>`."""
    plugin: Plugin | None = None
    """An image that brings its Python, where ours does not hold it."""
    every_pod: str | None = None
    """Name of a boolean setting that concerns pods without devices too."""
    monitor_writes: str | None = None
    """Name of a boolean setting with which the monitor writes into containers' directories."""
    aliases: dict[str, list[str]] | None = None
    """Values of older charts → what they mean in this definition."""
    figures: Texts | None = None
    """PromQL of what people want to see."""


class Backend(_Override):
    settings: Object | None = None
    """Its section of the device configuration."""


def _partly(model: type[BaseModel], name: str) -> type[BaseModel]:
    """The same fields, each of which may be absent; defaults are the model's own business."""
    fields: dict[str, Any] = {}
    for key, field in model.model_fields.items():
        held: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        absent = Field(default=None, alias=field.alias or to_camel(key), description=field.description)
        fields[key] = (held | None, absent)
    return create_model(name, __base__=Values, **fields)


class Nvidia(_Override):
    settings: _partly(NvidiaSettings, "NvidiaSettings") | None = None  # type: ignore[valid-type]
    """Section `nvidia` of the device configuration."""


class Mock(_Override):
    settings: _partly(MockSettings, "MockSettings") | None = None  # type: ignore[valid-type]
    """Section `mock` of the device configuration."""


class Backends(BaseModel):
    """Names are open, what stands under them is closed."""

    model_config = ConfigDict(alias_generator=to_camel, extra="allow", use_attribute_docstrings=True)
    __pydantic_extra__: dict[str, Backend]

    enabled: list[Name] | None = None
    """Backends that work in this cluster; each needs a definition."""
    definitions: dict[str, Backend] | None = None
    """Definitions of other people's backends, as `hami backends chart NAME` writes them."""
    nvidia: Nvidia | None = None
    """What differs from the definition in the chart."""
    mock: Mock | None = None
    """What differs from the definition in the chart."""


def _sections() -> type[BaseModel]:
    fields: dict[str, Any] = {
        name: (
            _partly(field.annotation, f"{field.annotation.__name__}Partly") | None,
            Field(default=None, description=field.annotation.__doc__),
        )
        for name, field in Settings.model_fields.items()
        if name != "backends" and isinstance(field.annotation, type)
    }
    return create_model("CoreSettings", __base__=Values, **fields)


CoreSettings = _sections()


class LeaderElect(Values):
    enabled: bool | None = None
    """Whether kube-scheduler elects a leader."""
    lease_duration: Duration | None = None
    """As in KubeSchedulerConfiguration."""
    renew_deadline: Duration | None = None
    """As in KubeSchedulerConfiguration."""
    retry_period: Duration | None = None
    """As in KubeSchedulerConfiguration."""


class Policies(Values):
    node_scheduler_policy: Literal["binpack", "spread"] | None = None
    """As `settings.placement.nodePolicy`, which beats it."""
    gpu_scheduler_policy: DeviceChain | None = None
    """As `settings.placement.devicePolicy`, which beats it."""


class ClientConnection(Values):
    qps: Annotated[float, Field(gt=0)] | None = None
    """Calls a second, events counted apart."""
    burst: Annotated[int, Field(ge=1)] | None = None
    """Calls that may come at once after a pause."""


class KubeScheduler(Values):
    enabled: bool | None = None
    """False: an existing kube-scheduler calls the extender through a Service, with client certificates."""
    image: Image | None = None
    """Its image; the tag follows the cluster's version."""
    resources: Resources | None = None
    """As in a container."""
    percentage_of_nodes_to_score: Annotated[int, Field(ge=0, le=100)] | None = None
    """As in KubeSchedulerConfiguration; `null`: its own default. See [throughput](../explanation/throughput.md)."""
    client_connection: ClientConnection | None = None
    """How often it may call the API server."""
    http_timeout: Duration | None = None
    """Time the extender has for an answer; longer than `settings.scheduler.apiTimeoutSeconds`."""
    extra_args: list[str] | None = None
    """Added to its arguments."""
    extra_new_args: list[str] | None = Field(default=None, json_schema_extra=OLD)


class Extender(Values):
    image: Image | None = None
    """Image of the control plane."""
    transport: Literal["loopback", "mtls"] | None = None
    """`loopback`: plain HTTP inside the pod; `mtls`: certificates on both sides."""
    resources: Resources | None = None
    """As in a container."""
    extra_args: list[str] | None = None
    """Added to its arguments."""
    extra_envs: Objects | Texts | None = None
    """Further variables: entries, or names with texts."""


class SchedulerService(Values):
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    """Of the Service for metrics."""
    monitor_port: Port | None = None
    """Its port."""
    labels: Texts | None = None
    """Of the Service."""
    annotations: Texts | None = None
    """Of the Service."""
    http_port: Port | None = Field(default=None, json_schema_extra=OLD)
    http_target_port: Port | None = Field(default=None, json_schema_extra=OLD)
    scheduler_port: Port | None = Field(default=None, json_schema_extra=OLD)
    monitor_target_port: Port | None = Field(default=None, json_schema_extra=OLD)


class OldWebhook(Values):
    enabled: bool | None = Field(default=None, json_schema_extra=OLD)
    """False: as `webhook.enabled: false`."""
    failure_policy: Literal["Fail", "Ignore"] | None = Field(default=None, json_schema_extra=OLD)
    """As `webhook.failurePolicy`, which beats it."""
    reinvocation_policy: Literal["Never", "IfNeeded"] | None = Field(default=None, json_schema_extra=OLD)
    """As `webhook.reinvocationPolicy`."""
    whitelist_namespaces: list[str] | None = Field(default=None, json_schema_extra=OLD)
    """Added to `webhook.excludedNamespaces`."""
    namespace_selector: Selector | None = Field(default=None, json_schema_extra=OLD)
    """Added to `webhook.namespaceSelector`."""
    object_selector: Selector | None = Field(default=None, json_schema_extra=OLD)
    """Added to `webhook.objectSelector`."""
    custom_url: Object | None = Field(default=None, alias="customURL", json_schema_extra=OLD)
    manage_namespace_selector: bool | None = Field(default=None, json_schema_extra=OLD)


class OldCertManager(Values):
    enabled: bool | None = Field(default=None, json_schema_extra=OLD)
    """True: as `certificates.source: cert-manager`."""


class Scheduler(Values):
    replicas: Annotated[int, Field(ge=1)] | None = None
    """More than one needs leader election; one until our extender's own leadership is there."""
    leader_elect: bool | LeaderElect | None = None
    """kube-scheduler's own election: a boolean, or all of it."""
    priority_class_name: str | None = None
    """Of its pods."""
    node_name: str | None = None
    """Pins the pod to a node."""
    host_network: bool | None = None
    """For clusters whose API server cannot reach the pods' network; beyond Pod Security `restricted`."""
    node_selector: Texts | None = None
    """Of its pods."""
    tolerations: Objects | None = None
    """Of its pods."""
    affinity: Object | None = None
    """Empty: replicas prefer different nodes. Its pods have the label `app: hami-scheduler`."""
    topology_spread_constraints: Objects | None = None
    """Of its pods."""
    pod_annotations: Texts | None = None
    """Of its pods."""
    liveness_probe: bool | None = None
    """Whether containers that hang are restarted."""
    pod_disruption_budget: Budget | None = None
    """Of its pods."""
    leave_to_kube_scheduler: list[Literal["count", "memory", "memoryPercent", "core"]] | None = None
    """Roles of resources that kube-scheduler adds up as well; `null`: the count, and all that our node agents publish totals of.
    All but the count need our node agent on every such node."""
    default_scheduler_policy: Policies | None = None
    """Policies of pods that name none."""
    force_overwrite_default_scheduler: bool | None = None
    """As `settings.webhook.forceOverwriteDefaultScheduler`, which beats it."""
    kube_scheduler: KubeScheduler | None = None
    """kube-scheduler beside the extender."""
    extender: Extender | None = None
    """Our part of the pod."""
    service: SchedulerService | None = None
    """Where metrics are scraped."""
    overwrite_env: Switch | None = Field(default=None, json_schema_extra=OLD)
    node_label_selector: Texts | None = Field(default=None, json_schema_extra=OLD)
    node_lock_expire: str | None = Field(default=None, json_schema_extra=OLD)
    metrics_bind_address: str | None = Field(default=None, json_schema_extra=OLD)
    admission_webhook: OldWebhook | None = Field(default=None, json_schema_extra=OLD)
    cert_manager: OldCertManager | None = Field(default=None, json_schema_extra=OLD)
    patch: Object | None = Field(default=None, json_schema_extra=OLD)


class WebhookService(Values):
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    """Of the Service."""
    port: Port | None = None
    """That the API server calls."""
    node_port: NodePort | None = None
    """With type NodePort."""
    labels: Texts | None = None
    """Of the Service."""
    annotations: Texts | None = None
    """Of the Service."""


class Webhook(Values):
    enabled: bool | None = None
    """Without it, pods must name their scheduler and write exact amounts themselves."""
    replicas: Annotated[int, Field(ge=1)] | None = None
    """All of them serve."""
    failure_policy: Literal["", "Fail", "Ignore"] | None = None
    """What becomes of a pod that asks for a device while the webhook is away; empty: Fail."""
    timeout_seconds: Annotated[int, Field(ge=1, le=30)] | None = None
    """Time the API server waits."""
    reinvocation_policy: Literal["Never", "IfNeeded"] | None = None
    """Whether it is asked again when another webhook has changed the pod."""
    excluded_namespaces: list[str] | None = None
    """Besides kube-system and our own."""
    namespace_selector: Selector | None = None
    """Further terms."""
    object_selector: Selector | None = None
    """Pods that reach it, by label."""
    service: WebhookService | None = None
    """Where the API server finds it."""
    image: Image | None = None
    """Image of the control plane."""
    resources: Resources | None = None
    """As in a container."""
    priority_class_name: str | None = None
    """Of its pods."""
    host_network: bool | None = None
    """For clusters whose API server cannot reach the pods' network; beyond Pod Security `restricted`."""
    node_selector: Texts | None = None
    """Of its pods."""
    tolerations: Objects | None = None
    """Of its pods."""
    affinity: Object | None = None
    """Empty: replicas prefer different nodes. Its pods have the label `app: hami-webhook`."""
    pod_annotations: Texts | None = None
    """Of its pods."""
    pod_disruption_budget: Budget | None = None
    """Of its pods."""
    extra_args: list[str] | None = None
    """Added to its arguments."""
    extra_envs: Objects | Texts | None = None
    """Further variables: entries, or names with texts."""


class CertManager(Values):
    issuer_ref: Object | None = None
    """Empty: an authority of this release's own."""


class Certificates(Values):
    source: Literal["built-in", "cert-manager", "existing"] | None = None
    """Who makes them; `existing`: you, in Secrets of the names that the chart gives them."""
    ca_bundle: str | None = None
    """With `existing`: the authority's certificate (PEM) that the API server shall trust."""
    lifetime_days: Annotated[int, Field(ge=1)] | None = None
    """Of servers' certificates; they are renewed when a third is left."""
    authority_lifetime_days: Annotated[int, Field(ge=1)] | None = None
    """Of the authority and of clients' certificates."""
    cert_manager: CertManager | None = None
    """With `cert-manager`."""
    image: Image | None = None
    """Image of the control plane."""
    resources: Resources | None = None
    """As in a container."""
    priority_class_name: str | None = None
    """Of its pod."""
    host_network: bool | None = None
    """For clusters whose API server cannot reach the pods' network; beyond Pod Security `restricted`."""
    node_selector: Texts | None = None
    """Of its pod."""
    tolerations: Objects | None = None
    """Of its pod."""
    extra_envs: Objects | Texts | None = None
    """Further variables: entries, or names with texts."""


class Namespace(Values):
    name: str | None = None
    """Empty: `<fullname>-nodes`."""
    create: bool | None = None
    """Whether the chart makes it; else it must exist and allow privileged pods."""


class MonitorContainer(Values):
    enabled: bool | None = None
    """Whether a monitor runs beside agents of backends that have one."""
    image: Image | None = None
    """Empty parts: the node agent's image."""
    resources: Resources | None = None
    """As in a container."""
    extra_args: list[str] | None = None
    """Added to its arguments."""
    extra_envs: Objects | Texts | None = None
    """Further variables: entries, or names with texts."""
    ctr_path: str | None = Field(default=None, json_schema_extra=OLD)
    resync_interval: str | None = Field(default=None, json_schema_extra=OLD)
    security_context: Object | None = Field(default=None, json_schema_extra=OLD)


class MonitorService(Values):
    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    """Of the Service for metrics."""
    http_port: Port | None = None
    """The monitor's port."""
    labels: Texts | None = None
    """Of the Service."""
    annotations: Texts | None = None
    """Of the Service."""


class DevicePlugin(Values):
    enabled: bool | None = None
    """Whether node agents run at all."""
    namespace: Namespace | None = None
    """Of the node agents."""
    image: Image | None = None
    """Image of the node agent."""
    update_strategy: Object | None = None
    """Of the DaemonSets; `maxUnavailable` may be a number or a percentage."""
    priority_class_name: str | None = None
    """Of the agents' pods."""
    node_selector: Texts | None = None
    """Added to what each backend's definition selects."""
    tolerations: Objects | None = None
    """Of the agents' pods."""
    affinity: Object | None = None
    """Of the agents' pods."""
    pod_annotations: Texts | None = None
    """Of the agents' pods."""
    host_pid: bool | None = Field(default=None, alias="hostPID")
    """Needed to see which container directories are still mounted."""
    host_network: bool | None = None
    """Whether agents use the node's network."""
    security_context: Object | None = None
    """Replaces that of the agent's container."""
    identity: Literal["auto", "late", "ordered"] | None = None
    """As `settings.agent.identity`, which beats it; with `late`, agents may not patch pods."""
    kubelet_dir: str | None = None
    """The kubelet's root directory on the nodes."""
    plugin_path: str | None = None
    """The kubelet's directory of device plugins, where it is not below that one."""
    state_dir: str | None = None
    """What containers mount lies here; it must survive a reboot."""
    cdi_dir: str | None = None
    """Where the runtime looks for CDI specs."""
    resources: Resources | None = None
    """Of the agent's container."""
    extra_args: list[str] | None = None
    """Added to the agent's arguments."""
    extra_envs: Objects | Texts | None = None
    """Further variables: entries, or names with texts."""
    monitor: MonitorContainer | None = None
    """Metrics of what is used."""
    service: MonitorService | None = None
    """Where they are scraped."""
    gpu_operator_toolkit_ready: Object | None = Field(default=None, json_schema_extra=OLD)
    device_split_count: Annotated[int, Field(ge=1)] | None = Field(default=None, json_schema_extra=OLD)
    device_memory_scaling: Annotated[float, Field(gt=0)] | None = Field(default=None, json_schema_extra=OLD)
    device_core_scaling: Annotated[float, Field(gt=0)] | None = Field(default=None, json_schema_extra=OLD)
    enable_numa_topology: bool | None = Field(default=None, json_schema_extra=OLD)
    pre_configured_device_memory: Annotated[int, Field(ge=0)] | None = Field(default=None, json_schema_extra=OLD)
    node_configuration: Object | None = Field(default=None, json_schema_extra=OLD)
    runtime_class_name: str | None = Field(default=None, json_schema_extra=OLD)
    create_runtime_class: bool | None = Field(default=None, json_schema_extra=OLD)
    mig_strategy: str | None = Field(default=None, json_schema_extra=OLD)
    disablecorelimit: Switch | None = Field(default=None, json_schema_extra=OLD)
    pass_device_specs_enabled: bool | None = Field(default=None, json_schema_extra=OLD)
    device_list_strategy: str | None = Field(default=None, json_schema_extra=OLD)
    nvidia_hook_path: str | None = Field(default=None, json_schema_extra=OLD)
    nvidia_driver_root: str | None = Field(default=None, json_schema_extra=OLD)
    nvidia_node_selector: Texts | None = Field(default=None, json_schema_extra=OLD)
    gdrcopy_enabled: bool | None = Field(default=None, json_schema_extra=OLD)
    gds_enabled: bool | None = Field(default=None, json_schema_extra=OLD)
    mofed_enabled: bool | None = Field(default=None, json_schema_extra=OLD)
    lib_path: str | None = Field(default=None, json_schema_extra=OLD)


class AdmissionPolicy(Values):
    enabled: bool | None = None
    """Whether the API server refuses forged records by itself."""
    trusted_users: list[str] | None = None
    """Users that may write records besides us, such as vendors' own device plugins."""


class NetworkPolicy(Values):
    enabled: bool | None = None
    """Whether only the ports that are meant for others are open to them."""


class PrometheusRules(Values):
    enabled: bool | None = None
    """Whether a PrometheusRule with our alerts is made; `files/alerts.yaml` in the chart is the same for others."""


class PrometheusDashboard(Values):
    enabled: bool | None = None
    """Whether a ConfigMap with our dashboard is made; `files/dashboard.json` in the chart is what it holds."""
    labels: Texts | None = None
    """Of the ConfigMap, for Grafana's sidecar to select by."""


class Prometheus(Values):
    enabled: bool | None = None
    """Whether ServiceMonitors are made; needs the Prometheus operator."""
    interval: Duration | None = None
    """Between two scrapes."""
    labels: Texts | None = None
    """Of the ServiceMonitors, for Prometheus to select by."""
    rules: PrometheusRules | None = None
    """Alerts."""
    dashboard: PrometheusDashboard | None = None
    """For Grafana."""


class OldDevices(BaseModel):
    """One vendor in the v2.10 chart's `devices`."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")

    enabled: bool | None = Field(default=None, json_schema_extra=OLD)
    customresources: list[str] | None = Field(default=None, json_schema_extra=OLD)
    runtime_class_name: str | None = Field(default=None, json_schema_extra=OLD)
    hami_vnpu_core: bool | None = Field(default=None, json_schema_extra=OLD)
    image: str | None = Field(default=None, json_schema_extra=OLD)
    image_pull_policy: str | None = Field(default=None, json_schema_extra=OLD)
    extra_args: list[str] | None = Field(default=None, json_schema_extra=OLD)
    node_selector: Texts | None = Field(default=None, json_schema_extra=OLD)
    tolerations: Objects | None = Field(default=None, json_schema_extra=OLD)
    gpu_core_policy: str | None = Field(default=None, json_schema_extra=OLD)
    lib_cuda_log_level: int | str | None = Field(default=None, json_schema_extra=OLD)


class OldDeviceConfig(BaseModel):
    """The device configuration as one text."""

    model_config = ConfigDict(extra="forbid")

    content: str | None = Field(default=None, json_schema_extra=OLD)
    """Sections of the enabled backends are taken from it; they beat all other values."""


OLD_RESOURCES = (
    *("resourceName", "resourceMem", "resourceMemPercentage", "resourceCores", "resourcePriority"),
    *("mluResourceName", "mluResourceMem", "mluResourceCores"),
    *("dcuResourceName", "dcuResourceMem", "dcuResourceCores"),
    *("metaxResourceName", "metaxResourceCore", "metaxResourceMem"),
    *("enflameResourceNameDRSGCU", "enflameResourceNameGCUMemory", "enflameResourceNameGCUCore"),
    *("kunlunResourceName", "kunlunResourceVCountName", "kunlunResourceVMemoryName"),
    *("vastaiResourceName", "birenResourceName"),
)
"""Flat resource names of the v2.10 chart."""


class Chart(Values):
    """Every value."""

    name_override: str | None = None
    """Instead of the chart's name."""
    fullname_override: str | None = None
    """Instead of `<release>-hami`; the beginning of every object's name, 40 characters at most."""
    namespace_override: str | None = None
    """Of the control plane; empty: the release's."""
    global_: Global | None = Field(default=None, alias="global")
    """What holds for all parts."""
    scheduler_name: Name | None = None
    """Name that pods are scheduled under, of the profile and of kube-scheduler's Lease."""
    backends: Backends | None = None
    """Which hardware."""
    settings: CoreSettings | None = None  # type: ignore[valid-type]
    """The core's own settings; see [settings](settings.md)."""
    scheduler: Scheduler | None = None
    """kube-scheduler and extender."""
    webhook: Webhook | None = None
    """Admission."""
    certificates: Certificates | None = None
    """TLS between the API server, kube-scheduler and us."""
    device_plugin: DevicePlugin | None = None
    """Node agents."""
    admission_policy: AdmissionPolicy | None = None
    """Forged records."""
    network_policy: NetworkPolicy | None = None
    """Open ports."""
    prometheus: Prometheus | None = None
    """Scraping."""
    pod_security_policy: Object | None = Field(default=None, json_schema_extra=OLD)
    mock_device_plugin: Object | None = Field(default=None, json_schema_extra=OLD)
    legacy_metrics: bool | None = Field(default=None, json_schema_extra=OLD)
    """As `settings.monitor.legacyMetrics`."""
    devices: dict[str, OldDevices] | None = Field(default=None, json_schema_extra=OLD)
    """`devices.<backend>.enabled` adds a backend or takes it away."""
    device_config: OldDeviceConfig | None = Field(default=None, alias="device-config", json_schema_extra=OLD)
    metaxs_gpu_topology_aware: Switch | None = Field(
        default=None, alias="metaxsGPUTopologyAware", json_schema_extra=OLD
    )


Root = create_model(
    "Root",
    __base__=Chart,
    **{  # type: ignore[call-overload]
        f"old_{i}": (Resource | None, Field(default=None, alias=name, json_schema_extra=OLD))
        for i, name in enumerate(OLD_RESOURCES)
    },
)
