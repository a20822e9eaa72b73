"""Mistakes about kube-scheduler and how it calls the extender."""

from collections.abc import Iterator
from typing import Final

from hami_core_py.decisions.doctor.checks import Checks, Found, Severity
from hami_core_py.decisions.doctor.facts import ClusterFacts, Extender
from hami_core_py.decisions.doctor.versions import minor_of, shown

SCHEDULING: Final[Checks[ClusterFacts]] = Checks()

VERBS: Final = ("filter", "prioritize", "preempt", "bind")
API_TIMEOUT_SECONDS: Final = 3.0
"""Of one call of the extender to the API server; kube-scheduler must be the more patient one."""
LONGEST_TIMEOUT_SECONDS: Final = 15.0
MANY_NODES: Final = 500


@SCHEDULING.check(
    "extender-missing",
    fix="install the chart's own kube-scheduler, or put the entry that the chart prints into the extenders of yours, and give "
    "that file with --scheduler-config",
)
def no_extender(facts: ClusterFacts) -> Iterator[Found]:
    """Nobody asks us where a pod fits."""
    if "configs" in facts.looked and not facts.configs:
        yield "cluster", "no configuration of a kube-scheduler was found that calls our extender"


@SCHEDULING.check("extender-ignorable", fix="set ignorable: false")
def ignorable(facts: ClusterFacts) -> Iterator[Found]:
    """A slow bind ends in a pod that is bound without a record."""
    for where, extender in _extenders(facts):
        if extender.ignorable:
            yield where, "ignorable is true: when the extender is slow, kube-scheduler binds pods without a record"


@SCHEDULING.check(
    "extender-verb-missing",
    fix="set filterVerb: filter, prioritizeVerb: score, preemptVerb: preempt and bindVerb: bind",
)
def verb_missing(facts: ClusterFacts) -> Iterator[Found]:
    """Part of the conversation is missing."""
    costs = {
        "filter": "pods go to nodes without room",
        "prioritize": "our placement policies have no say",
        "preempt": "kube-scheduler evicts pods whose end does not help",
        "bind": "pods are bound without a record",
    }
    for where, extender in _extenders(facts):
        for verb in VERBS:
            if verb not in extender.verbs:
                yield where, f"{verb}Verb is not set: {costs[verb]}"


@SCHEDULING.check(
    "extender-timeout",
    fix="set httpTimeout: 5s (value scheduler.kubeScheduler.httpTimeout)",
)
def timeout(facts: ClusterFacts) -> Iterator[Found]:
    """The timeouts do not nest."""
    for where, extender in _extenders(facts):
        if extender.timeout_seconds <= API_TIMEOUT_SECONDS:
            yield (
                where,
                f"httpTimeout is {extender.timeout_seconds:g} s, not above the {API_TIMEOUT_SECONDS:g} s that the extender "
                "gives the API server: kube-scheduler gives up on binds that still happen",
            )
        elif extender.timeout_seconds > LONGEST_TIMEOUT_SECONDS:
            yield (
                where,
                f"httpTimeout is {extender.timeout_seconds:g} s: a hanging extender holds up every pod of this "
                "kube-scheduler for so long",
            )


@SCHEDULING.check(
    "extender-misses-resource",
    fix="run `helm upgrade` with all enabled backends, or add the resource to managedResources",
)
def misses_resource(facts: ClusterFacts) -> Iterator[Found]:
    """Pods that ask for it are not shown to us."""
    if not facts.configs:
        return
    managed = frozenset(name for _, extender in _extenders(facts) for name in extender.managed)
    for family in sorted(facts.families.values(), key=lambda f: f.name):
        missing = [name for name in family.resources.names() if name not in managed]
        if missing:
            yield (
                f"family {family.name}",
                f"managedResources lacks {', '.join(missing)}: pods with only these bypass the extender",
            )


@SCHEDULING.check(
    "extender-hides-count",
    fix="set ignoredByScheduler: false for the count resource, so that kube-scheduler's sample has nodes with room "
    "(value scheduler.leaveToKubeScheduler)",
    severity=Severity.ADVICE,
)
def hides_count(facts: ClusterFacts) -> Iterator[Found]:
    """kube-scheduler offers us nodes that have no such device."""
    for where, extender in _extenders(facts):
        hidden = [name for name in facts.counts if extender.managed.get(name)]
        if hidden:
            yield (
                where,
                f"ignoredByScheduler is true for {', '.join(hidden)}: on a large cluster the sample misses nodes with room",
            )


@SCHEDULING.check(
    "extender-wants-nodes",
    fix="set nodeCacheCapable: true",
    severity=Severity.ADVICE,
)
def wants_nodes(facts: ClusterFacts) -> Iterator[Found]:
    """Whole node objects travel with each call."""
    for where, extender in _extenders(facts):
        if not extender.names_only:
            yield where, "nodeCacheCapable is not true: every call carries whole node objects instead of names"


@SCHEDULING.check(
    "scheduler-scans-all-nodes",
    fix="leave percentageOfNodesToScore at its default (value scheduler.kubeScheduler.percentageOfNodesToScore)",
    severity=Severity.ADVICE,
)
def scans_all(facts: ClusterFacts) -> Iterator[Found]:
    """kube-scheduler spends most of its time on nodes that it will not take."""
    for config in facts.configs:
        if (config.percentage or 0) >= 100 and len(facts.nodes) > MANY_NODES:
            yield config.where, f"percentageOfNodesToScore is {config.percentage} with {len(facts.nodes)} nodes"


@SCHEDULING.check(
    "scheduler-name-unknown",
    fix="let webhook.schedulerName and the profile's schedulerName be the same (value schedulerName)",
)
def name_unknown(facts: ClusterFacts) -> Iterator[Found]:
    """Pods wait for a scheduler that nobody runs."""
    profiles = frozenset(name for config in facts.configs for name in config.profiles)
    if not profiles:
        return
    for name in sorted(facts.scheduler_names - profiles - {""}):
        yield (
            f"scheduler {name}",
            f"the webhook writes this name into pods, and the profiles found are {', '.join(sorted(profiles))}",
        )


@SCHEDULING.check(
    "scheduler-version",
    fix="let the chart choose kube-scheduler's image, or set its tag to the cluster's version",
)
def version_skew(facts: ClusterFacts) -> Iterator[Found]:
    """kube-scheduler follows the API server's minor version, or trails it by one."""
    server = minor_of(facts.version)
    for workload in facts.workloads:
        image = workload.images.get("kube-scheduler", "")
        own = minor_of(image.rpartition(":")[2]) if image else None
        if own is None or server is None:
            continue
        if own > server or own < (server[0], server[1] - 1):
            yield workload.subject, f"kube-scheduler is {shown(own)}, the API server {shown(server)}"


def _extenders(facts: ClusterFacts) -> Iterator[tuple[str, Extender]]:
    for config in facts.configs:
        for extender in config.extenders:
            yield config.where, extender
