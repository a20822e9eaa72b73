"""A pod's request compiled once: for every container the questions its devices must answer, in the order they are put."""

from collections.abc import Hashable
from dataclasses import dataclass, replace

from hami_core_py.decisions.fit import Question
from hami_core_py.decisions.select import wants_idle
from hami_core_py.errors import BackendError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.backends import DeviceRule, NodeRule
from hami_core_py.models.requests import ContainerKind, ContainerRequest, DeviceRequest, PodRequest, Policies
from hami_core_py.models.views import PodView


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """One container; ``questions`` is sorted by family and empty when it asks for nothing."""

    name: str
    kind: ContainerKind
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A whole pod, ready to be placed.

    :ivar unknown: families asked for that no installed backend owns.
    """

    containers: tuple[ContainerPlan, ...]
    policies: Policies
    families: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions, container by container."""
        return tuple(q for c in self.containers for q in c.questions)

    @property
    def key(self) -> Hashable:
        """Equal for pods that every node answers alike."""
        asked = tuple((c.kind, tuple(q.key for q in c.questions)) for c in self.containers if c.questions)
        return (asked, self.policies.device, self.policies.weights)

    def singles(self) -> "tuple[Plan, ...]":
        """Each question as a plan of its own, as if the pod asked nothing else."""
        return tuple(
            replace(self, containers=(replace(c, questions=(q,)),), families=(q.family.name,))
            for c in self.containers
            for q in c.questions
        )


def compile_plan(request: PodRequest, pod: PodView, ask: Ask) -> Plan:
    """Ask the backends for their rules, once for all nodes, and resolve what the devices do not decide."""
    families = request.families
    containers = tuple(
        ContainerPlan(
            name=c.name,
            kind=c.kind,
            questions=tuple(
                _question(d, c, pod, request.policies, ask)
                for d in sorted(c.devices, key=lambda d: d.family)
                if d.count and d.family in ask.families
            ),
        )
        for c in request.containers
    )
    return Plan(
        containers=containers,
        policies=request.policies,
        families=families,
        unknown=tuple(f for f in families if f not in ask.families),
    )


def _question(
    request: DeviceRequest, container: ContainerRequest, pod: PodView, policies: Policies, ask: Ask
) -> Question:
    question = Question(
        request=request,
        family=ask.families[request.family],
        container=container.name,
        lasts=container.kind is not ContainerKind.INIT,
        wants_idle=wants_idle(policies),
        combines=ask.implements("hami_select_devices", request.family),
    )
    try:
        rules = ask.filter_rules(request, pod)
    except BackendError:
        return replace(question, failed=True)
    return replace(
        question,
        rules=tuple(r for r in rules if isinstance(r, DeviceRule)),
        node_rules=tuple(r for r in rules if isinstance(r, NodeRule)),
    )
