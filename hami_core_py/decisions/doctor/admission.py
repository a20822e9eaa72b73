"""Mistakes about the webhook, and about who may write records."""

from collections.abc import Iterator
from typing import Final

from hami_core_py.codecs.native import BIND_NODE, PROOF, RECORD
from hami_core_py.decisions.doctor.checks import Checks, Found, Severity
from hami_core_py.decisions.doctor.facts import ClusterFacts, Policy, Webhook
from hami_core_py.decisions.doctor.selectors import selects

ADMISSION: Final[Checks[ClusterFacts]] = Checks()

DAY_NS: Final = 86_400 * 1_000_000_000
SOON_NS: Final = 14 * DAY_NS
LONGEST_TIMEOUT_SECONDS: Final = 10
SYSTEM: Final = "kube-system"
NAME_LABEL: Final = "kubernetes.io/metadata.name"

RECORD_KEYS: Final = frozenset({RECORD, PROOF, BIND_NODE})
RECORD_ENDS: Final = ("-devices-allocated", "-devices-to-allocate")
GUARDED: Final = ("bindings", "nodes", "pods", "pods/binding", "pods/status")


@ADMISSION.check(
    "webhook-missing",
    fix="install the chart with webhook.enabled=true; without it pods with a device resource keep their scheduler and "
    "nothing validates them",
)
def no_webhook(facts: ClusterFacts) -> Iterator[Found]:
    """Nobody calls us at admission."""
    if "webhooks" in facts.looked and not facts.webhooks:
        yield "cluster", "no MutatingWebhookConfiguration has an entry whose name ends in hami.io"


@ADMISSION.check(
    "webhook-fails-open",
    fix="set failurePolicy: Fail (value webhook.failurePolicy); matchConditions keep other pods out of its way",
)
def fails_open(facts: ClusterFacts) -> Iterator[Found]:
    """Pods slip in while the webhook is away."""
    for one in facts.webhooks:
        if one.failure_policy != "Fail":
            yield (
                _subject(one),
                f"failurePolicy is {one.failure_policy}: while the webhook is away, pods enter unchecked",
            )


@ADMISSION.check(
    "webhook-unscoped",
    fix="let the chart write its matchConditions, so that only pods with a device resource or a bookkeeping key reach it",
)
def unscoped(facts: ClusterFacts) -> Iterator[Found]:
    """A webhook that is away stops every pod of the cluster."""
    if any(backend.every_pod for backend in facts.backends):
        return
    for one in facts.webhooks:
        if not one.conditions:
            yield _subject(one), "it has no matchConditions: every pod of the selected namespaces waits for it"


@ADMISSION.check(
    "webhook-misses-resource",
    fix="run `helm upgrade`, so that the conditions follow the enabled backends; with a third party's backend pass its "
    "values file too",
)
def misses_resource(facts: ClusterFacts) -> Iterator[Found]:
    """A backend was enabled, and its pods do not reach the webhook."""
    for one in facts.webhooks:
        if not one.conditions:
            continue
        text = " ".join(one.conditions)
        missing = [name for name in facts.counts if name not in text]
        if missing:
            yield _subject(one), f"its matchConditions do not mention {', '.join(missing)}"


@ADMISSION.check(
    "webhook-covers-own-namespace",
    fix="exclude kube-system and the namespaces of HAMi in namespaceSelector, by the label kubernetes.io/metadata.name",
)
def covers_own(facts: ClusterFacts) -> Iterator[Found]:
    """The webhook can keep itself, or the cluster's own pods, from coming back."""
    for one in facts.webhooks:
        text = " ".join(one.conditions)
        for name in sorted({SYSTEM, *facts.namespaces}):
            labels = {**facts.namespaces.get(name, {}), NAME_LABEL: name}
            if selects(one.namespace_selector, labels) and f'"{name}"' not in text and f"'{name}'" not in text:
                yield (
                    _subject(one),
                    f"namespace {name} is not excluded: while the webhook is away, its pods may not come back",
                )


@ADMISSION.check(
    "webhook-misses-ephemeral-containers",
    fix="add a rule for UPDATE of pods/ephemeralcontainers, as the chart does",
)
def misses_ephemeral(facts: ClusterFacts) -> Iterator[Found]:
    """A debug container sees all devices of the node."""
    for one in facts.webhooks:
        if not _covers(one.resources, "pods/ephemeralcontainers"):
            yield _subject(one), "it is not called for pods/ephemeralcontainers: a debug container may see every device"


@ADMISSION.check(
    "webhook-slow",
    fix="set timeoutSeconds to 5 (value webhook.timeoutSeconds)",
    severity=Severity.ADVICE,
)
def slow(facts: ClusterFacts) -> Iterator[Found]:
    """Each creation of a pod waits longer than any healthy answer takes."""
    for one in facts.webhooks:
        if one.timeout_seconds > LONGEST_TIMEOUT_SECONDS:
            yield (
                _subject(one),
                f"timeoutSeconds is {one.timeout_seconds}: a hanging webhook holds each pod up for so long",
            )


@ADMISSION.check(
    "webhook-not-reinvoked",
    fix="set reinvocationPolicy: IfNeeded (value webhook.reinvocationPolicy)",
    severity=Severity.ADVICE,
)
def not_reinvoked(facts: ClusterFacts) -> Iterator[Found]:
    """Containers that another webhook injects afterwards stay unseen."""
    for one in facts.webhooks:
        if one.reinvocation != "IfNeeded":
            yield _subject(one), "containers that another webhook adds after it are not looked at"


@ADMISSION.check(
    "webhook-no-endpoints",
    fix="look at the pods behind the Service: `kubectl -n NAMESPACE get pods,endpointslices`; a Service and a port of that "
    "name must exist and one pod be Ready",
)
def no_endpoints(facts: ClusterFacts) -> Iterator[Found]:
    """The API server has nobody to call."""
    if "services" not in facts.looked:
        return
    known = {(service.namespace, service.name): service for service in facts.services}
    for one in facts.webhooks:
        if one.service is None:
            continue
        namespace, name, port = one.service
        service = known.get((namespace, name))
        if service is None:
            yield _subject(one), f"Service {namespace}/{name} does not exist"
        elif port not in service.ports:
            yield _subject(one), f"Service {namespace}/{name} has no port {port}"
        elif not service.ready:
            yield _subject(one), f"Service {namespace}/{name} has no ready pod behind it"


@ADMISSION.check(
    "webhook-certificate-untrusted",
    fix="let the certificates process or cert-manager write caBundle; with certificates.source=existing set "
    "certificates.caBundle to the authority that signed the serving certificate",
)
def untrusted(facts: ClusterFacts) -> Iterator[Found]:
    """The API server will not believe the webhook."""
    for one in facts.certificates:
        if not one.trusted:
            yield f"webhook {one.webhook}", f"its caBundle does not vouch for the serving certificate in {one.where}"


@ADMISSION.check(
    "certificate-expires",
    fix="see why it is not renewed: the certificates process of the chart, or cert-manager's Certificate; with "
    "certificates.source=existing renew it yourself",
)
def expires(facts: ClusterFacts) -> Iterator[Found]:
    """Admission ends with the certificate."""
    for one in facts.certificates:
        left = one.expires_ns - facts.now_ns
        if left <= 0:
            yield f"webhook {one.webhook}", f"the serving certificate in {one.where} has expired"
        elif left < SOON_NS:
            days = left // DAY_NS
            yield (
                f"webhook {one.webhook}",
                f"the serving certificate in {one.where} expires in less than {days + 1} days",
            )


@ADMISSION.check(
    "records-unprotected",
    fix="install the chart with admissionPolicy.enabled=true, and have a ValidatingAdmissionPolicyBinding with the action Deny",
)
def records_unprotected(facts: ClusterFacts) -> Iterator[Found]:
    """Anybody who may write pods can forge a record."""
    if "policies" not in facts.looked:
        return
    pod_keys = RECORD_KEYS.union(*(backend.pod_keys for backend in facts.backends))
    node_keys = frozenset[str]().union(*(backend.node_keys for backend in facts.backends))
    for resource in GUARDED:
        policies = [p for p in facts.policies if p.enforced and _covers(p.resources, resource)]
        keys = node_keys if resource == "nodes" else pod_keys
        open_keys = sorted(key for key in keys if not any(_mentions(policy, key) for policy in policies))
        if open_keys:
            named = ", ".join(open_keys[:3]) + (f" and {len(open_keys) - 3} more" if len(open_keys) > 3 else "")
            yield f"writes of {resource}", f"no policy in force refuses strangers' writes of {named}"


def _subject(webhook: Webhook) -> str:
    return f"webhook {webhook.name}"


def _covers(resources: frozenset[str], wanted: str) -> bool:
    plain, slash, sub = wanted.partition("/")
    patterns = {wanted, "*/*", f"{plain}/*" if slash else "*", f"*/{sub}" if slash else "*"}
    return bool(resources & patterns)


def _mentions(policy: Policy, key: str) -> bool:
    """By name, or by how the names of records end."""
    text = policy.text.replace("\\", "").replace("'", '"')
    ends = (end for end in RECORD_ENDS if key.endswith(end))
    return f'"{key}"' in text or any(f'endsWith("{end}")' in text for end in ends)
