"""Playing a scenario against an API server: the lab's, or a real one with the same objects."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import ApiError
from hami_core_py.errors import BadInputError
from hami_core_py.lab.descriptions import describe
from hami_core_py.lab.expecting import Pods
from hami_core_py.lab.measuring import Gauges
from hami_core_py.lab.pod_facts import Pod, pod_path
from hami_core_py.lab.processes import LabError
from hami_core_py.lab.simulator import Simulator
from hami_core_py.lab.steps import DeleteOne, ProcessStep, Refused, Scenario, Step


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one step came to.

    :ivar text: what was done or expected. :ivar problem: why it failed; empty when it did not.
    :ivar pod: the pod that was expected, as it is now.
    """

    where: str
    kind: str
    text: str
    problem: str = ""
    seconds: float = 0.0
    pod: Pod | None = None

    @property
    def ok(self) -> bool:
        """Whether it went as the scenario says."""
        return not self.problem


@dataclass
class Player:
    """Plays scenarios.

    :ivar act: does something to a process; ``None`` where processes are out of reach.
    :ivar env_of: environment of a container as its process received it; ``None`` where it cannot be seen.
    :ivar simulator_of: simulated devices of a node; ``None`` where there are none.
    :ivar scrape: what the monitor of a node shows; ``None`` where it cannot be reached.
    :ivar tell: gets every outcome as it happens.
    """

    client: Client
    act: Callable[[ProcessStep], None] | None = None
    env_of: Callable[[Pod, str], Mapping[str, str]] | None = None
    simulator_of: Callable[[str], Simulator | None] | None = None
    scrape: Callable[[str], str] | None = None
    tell: Callable[[Outcome], None] = lambda _: None
    _plurals: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._pods = Pods(self.client, self.env_of)
        self._gauges = Gauges(self._pods, self.simulator_of, self.scrape)

    def play(self, scenario: Scenario) -> list[Outcome]:
        """Play all steps; the first failed expectation ends it, since what follows builds on it."""
        outcomes: list[Outcome] = []
        for step in scenario.steps:
            began = time.monotonic()
            try:
                text = self._do(step)
                seconds = time.monotonic() - began
                pod = self._pods.find(step.value.pod) if step.kind == "expect" else None
                outcome = Outcome(where=step.where, kind=step.kind, text=text, seconds=seconds, pod=pod)
            except (LabError, ApiError, BadInputError) as problem:
                text, seconds = describe(step), time.monotonic() - began
                outcome = Outcome(where=step.where, kind=step.kind, text=text, problem=str(problem), seconds=seconds)
            outcomes.append(outcome)
            self.tell(outcome)
            if not outcome.ok:
                break
        return outcomes

    def pods(self) -> list[dict[str, Any]]:
        """All pods, by namespace and name."""
        items, _ = self.client.list("/api/v1/pods")
        return sorted(items, key=lambda p: (p["metadata"]["namespace"], p["metadata"]["name"]))

    def _do(self, step: Step) -> str:
        match step.kind:
            case "object":
                self.client.create(self._collection(step.value, step.where), step.value)
            case "refused":
                self._create_in_vain(step.value, step.where)
            case "delete":
                self.client.delete(pod_path(step.value))
            case "delete-one":
                return self._delete_one(step.value)
            case "process":
                if self.act is None:
                    raise LabError("the processes of this cluster cannot be reached from here")
                self.act(step.value)
            case "expect":
                self._pods.become(step.value)
            case "expect-count":
                self._pods.become_so_many(step.value)
            case "measure":
                return self._gauges.cores(step.value)
            case "measure-memory":
                return self._gauges.memory(step.value)
            case "metric":
                return self._gauges.metric(step.value)
        return describe(step)

    def _create_in_vain(self, refused: Refused, where: str) -> None:
        try:
            self.client.create(self._collection(refused.object, where), refused.object)
        except ApiError as problem:
            if refused.message.lower() not in problem.message.lower():
                raise LabError(f"refused with {problem.message!r}") from problem
            return
        raise LabError("it was admitted")

    def _delete_one(self, step: DeleteOne) -> str:
        for name in step.pods:
            pod = self._pods.find(name)
            if pod and (pod.get("status") or {}).get("phase") == step.phase:
                self.client.delete(pod_path(name))
                return f"delete pod {name}"
        raise LabError(f"none of {', '.join(step.pods)} is {step.phase}")

    def _collection(self, item: Mapping[str, Any], where: str) -> str:
        version, kind = item["apiVersion"], item["kind"]
        if (version, kind) not in self._plurals:
            for served in self.client.get(_group_path(version)).get("resources") or ():
                if "/" not in served["name"]:
                    self._plurals[version, served["kind"]] = served["name"], served["namespaced"]
        if (version, kind) not in self._plurals:
            raise BadInputError(f"{where}: kind", f"a kind of {version}", repr(kind))
        plural, namespaced = self._plurals[version, kind]
        namespace = item["metadata"].get("namespace") or "default"
        return _group_path(version) + (join_path("namespaces", namespace, plural) if namespaced else join_path(plural))


def _group_path(version: str) -> str:
    return join_path("apis", *version.split("/")) if "/" in version else join_path("api", version)
