"""Mistakes about our own processes and the namespaces they live in."""

from collections.abc import Iterator
from typing import Final

from hami_core_py.decisions.doctor.checks import Checks, Found, Severity
from hami_core_py.decisions.doctor.facts import ClusterFacts

WORKLOADS: Final[Checks[ClusterFacts]] = Checks()

ENFORCE: Final = "pod-security.kubernetes.io/enforce"
AGENT, CONTROL = "device-plugin", frozenset({"scheduler", "webhook"})


@WORKLOADS.check(
    "settings-invalid",
    fix="correct the device configuration; `hami config check FILE` says the same before it is installed",
)
def settings_invalid(facts: ClusterFacts) -> Iterator[Found]:
    """Processes that restart will refuse their configuration."""
    if facts.settings_problem:
        yield "device configuration", facts.settings_problem


@WORKLOADS.check(
    "workload-unavailable",
    fix="`kubectl -n NAMESPACE describe` says why its pods do not become ready",
)
def unavailable(facts: ClusterFacts) -> Iterator[Found]:
    """A process of ours does not run."""
    for one in facts.workloads:
        if one.wanted and not one.ready:
            yield one.subject, f"none of {one.wanted} pods is ready; it runs {', '.join(sorted(one.roles))}"


@WORKLOADS.check(
    "agent-selects-no-node",
    fix="label the nodes that have devices, or change the backend's node selector (value backends.NAME.agent.nodeSelector)",
)
def selects_no_node(facts: ClusterFacts) -> Iterator[Found]:
    """The agent is installed, and runs nowhere."""
    for one in facts.workloads:
        if one.kind == "DaemonSet" and AGENT in one.roles and not one.wanted:
            yield one.subject, "its node selector matches no node"


@WORKLOADS.check(
    "agent-missing",
    fix="enable the backend's agent (value backends.NAME.agent.enabled), or leave it to the vendor's own device plugin",
    severity=Severity.ADVICE,
)
def agent_missing(facts: ClusterFacts) -> Iterator[Found]:
    """A backend is enabled whose devices nobody reports."""
    if "workloads" not in facts.looked:
        return
    agents = [one for one in facts.workloads if AGENT in one.roles]
    for backend in facts.backends:
        if backend.has_agent and not any(not one.backends or backend.name in one.backends for one in agents):
            yield f"backend {backend.name}", "no DaemonSet runs its node agent"


@WORKLOADS.check(
    "namespace-forbids-agent",
    fix="label the agent's namespace pod-security.kubernetes.io/enforce=privileged; the control plane has another namespace",
)
def forbids_agent(facts: ClusterFacts) -> Iterator[Found]:
    """Pod Security refuses the agent's host directories."""
    for one in facts.workloads:
        level = facts.namespaces.get(one.namespace, {}).get(ENFORCE, "")
        if AGENT in one.roles and level in ("baseline", "restricted"):
            yield (
                f"namespace {one.namespace}",
                f"it enforces {level!r}, and {one.kind} {one.name} mounts directories of the host",
            )


@WORKLOADS.check(
    "namespace-unrestricted",
    fix="label the control plane's namespace pod-security.kubernetes.io/enforce=restricted; our control plane passes it",
    severity=Severity.ADVICE,
)
def unrestricted(facts: ClusterFacts) -> Iterator[Found]:
    """The control plane's namespace would take any pod."""
    agents = {one.namespace for one in facts.workloads if AGENT in one.roles}
    for namespace in sorted({one.namespace for one in facts.workloads if one.roles & CONTROL} - agents):
        if facts.namespaces.get(namespace, {}).get(ENFORCE) != "restricted":
            yield f"namespace {namespace}", "it does not enforce Pod Security 'restricted'"


@WORKLOADS.check(
    "namespace-shared",
    fix="give the node agent a namespace of its own (value devicePlugin.namespace.name)",
    severity=Severity.ADVICE,
)
def shared(facts: ClusterFacts) -> Iterator[Found]:
    """What the agent needs from Pod Security is open to the control plane too."""
    agents = {one.namespace for one in facts.workloads if AGENT in one.roles}
    for namespace in sorted({one.namespace for one in facts.workloads if one.roles & CONTROL} & agents):
        yield f"namespace {namespace}", "control plane and node agents share it, so it cannot be restricted"


@WORKLOADS.check(
    "single-webhook",
    fix="set webhook.replicas to 2 or more",
    severity=Severity.ADVICE,
)
def single_webhook(facts: ClusterFacts) -> Iterator[Found]:
    """A drained node takes admission away."""
    for one in facts.workloads:
        if "webhook" in one.roles and one.wanted == 1:
            yield one.subject, "one pod alone answers admission; pods with devices wait whenever it moves"
