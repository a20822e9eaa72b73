"""Mistakes that show on pods: records, and containers that do not start."""

from collections.abc import Iterator
from typing import Final

from hami_core_py.codecs.times import SECOND_NS
from hami_core_py.decisions.doctor.checks import Checks, Found
from hami_core_py.decisions.doctor.facts import ClusterFacts, Pod, Waiting

PODS: Final[Checks[ClusterFacts]] = Checks()

HELD_NS: Final = 60 * SECOND_NS
LOST: Final = "no devices found allocated in local cache"
UNRESOLVED: Final = "unresolvable CDI devices"
HELD_REASONS: Final = frozenset({"CreateContainerConfigError", "RunContainerError", "CreateContainerError"})
REJECTED: Final = "UnexpectedAdmissionError"


@PODS.check(
    "record-unreadable",
    fix="delete the pod, so that it is scheduled anew; its devices take no new shares until then",
)
def record_unreadable(facts: ClusterFacts) -> Iterator[Found]:
    """What the pod holds is not known."""
    for pod in facts.pods:
        if pod.record_problem and pod.view.node and pod.is_live:
            yield pod.subject, pod.record_problem


@PODS.check(
    "record-missing",
    fix="delete the pod, and see why it was bound without us: another scheduler, spec.nodeName, or an ignorable extender",
)
def record_missing(facts: ClusterFacts) -> Iterator[Found]:
    """A pod is on a node, and nobody counts what it uses."""
    for pod in facts.pods:
        if pod.families and pod.view.node and pod.is_live and not pod.has_record and not pod.record_problem:
            by = f"by scheduler {pod.view.scheduler!r}" if pod.view.scheduler else "without a scheduler"
            yield (
                pod.subject,
                f"it asks for {', '.join(sorted(pod.families))} and was bound to {pod.view.node} {by}, without a record",
            )


@PODS.check(
    "pod-not-admitted",
    fix="create the pod again; its namespace must not be excluded from the webhook, nor the pod itself",
)
def not_admitted(facts: ClusterFacts) -> Iterator[Found]:
    """The webhook did not see the pod, so nobody will schedule it well."""
    names = facts.scheduler_names.union(*(config.profiles for config in facts.configs))
    if not names:
        return
    for pod in facts.pods:
        if pod.families and not pod.view.node and pod.is_live and pod.view.scheduler not in names:
            yield (
                pod.subject,
                f"it asks for {', '.join(sorted(pod.families))}, and its scheduler is {pod.view.scheduler!r} instead of "
                f"{' or '.join(sorted(names))}",
            )


@PODS.check(
    "device-over-committed",
    fix="delete the youngest of the pods on it; two schedulers, or records written by hand, are the usual cause",
)
def over_committed(facts: ClusterFacts) -> Iterator[Found]:
    """More was promised than there is."""
    for node, device, used in facts.usages:
        amounts = {
            "slots": (used.slots, device.slots),
            "MiB of memory": (used.memory_mib, device.memory_mib),
            "core units": (used.core_units, device.core_units),
        }
        for name, (taken, there) in amounts.items():
            if taken > there:
                yield (
                    f"device {device.id} of node {node}",
                    f"the records of live pods add up to {taken} {name}, of {there}",
                )


@PODS.check(
    "pod-held-at-start",
    fix="the message says what it waits for; a pod that its node refuses for good must be deleted",
)
def held(facts: ClusterFacts) -> Iterator[Found]:
    """The node agent, or the runtime, does not let a container start."""
    for pod, one in _waiting(facts):
        special = LOST in one.message or UNRESOLVED in one.message
        if pod.families and one.reason in HELD_REASONS and not special and facts.now_ns - pod.since_ns > HELD_NS:
            yield pod.subject, f"container {one.container!r} waits: {one.reason}: {one.message}"


@PODS.check(
    "checkpoint-lost",
    fix="delete the pod: the kubelet has forgotten its devices, and its containers can never start again",
)
def checkpoint_lost(facts: ClusterFacts) -> Iterator[Found]:
    """Somebody removed the kubelet's checkpoint while pods ran."""
    for pod, one in _waiting(facts):
        if LOST in one.message:
            yield pod.subject, f"container {one.container!r}: the kubelet says {one.message!r}"


@PODS.check(
    "cdi-not-applied",
    fix="enable CDI in the container runtime and let it read the agent's directory of specs (agent.cdiDir); "
    "`hami doctor --node` looks at its configuration",
)
def cdi_not_applied(facts: ClusterFacts) -> Iterator[Found]:
    """The runtime does not find what the agent wrote."""
    for pod, one in _waiting(facts):
        if UNRESOLVED in one.message:
            yield pod.subject, f"container {one.container!r}: the runtime says {one.message!r}"


@PODS.check(
    "pod-rejected-by-kubelet",
    fix="delete the pod; after a reboot, pods that are admitted before the agent is back fail for good",
)
def rejected(facts: ClusterFacts) -> Iterator[Found]:
    """The kubelet refused the pod, and will not try again."""
    for pod in facts.pods:
        if pod.families and pod.failed == REJECTED:
            yield pod.subject, f"it failed on {pod.view.node or 'its node'}: {REJECTED}"


def _waiting(facts: ClusterFacts) -> Iterator[tuple[Pod, Waiting]]:
    for pod in facts.pods:
        if pod.is_live:
            for one in pod.waiting:
                yield pod, one
