"""Playing a scenario against an API server: the lab's, or a real one with the same objects."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import ApiError, NotFound
from hami_core_py.codecs.native import RECORD
from hami_core_py.errors import BadInputError
from hami_core_py.lab.processes import LabError
from hami_core_py.lab.scenario import (
    DeleteOne,
    Expect,
    ExpectCount,
    Measure,
    MeasureMemory,
    Metric,
    ProcessStep,
    Refused,
    Scenario,
    Step,
    matches,
    split_name,
)
from hami_core_py.lab.scrape import value_of
from hami_core_py.lab.simulator import Simulator, container_tag, look_for

Pod = Mapping[str, Any]
MIB = 2**20


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

    def play(self, scenario: Scenario) -> list[Outcome]:
        """Play all steps; the first failed expectation ends it, since what follows builds on it."""
        outcomes: list[Outcome] = []
        for step in scenario.steps:
            began = time.monotonic()
            try:
                text = self._do(step)
                seconds = time.monotonic() - began
                pod = self._pod(step.value.pod) if step.kind == "expect" else None
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
                self.client.delete(_pod_path(step.value))
            case "delete-one":
                return self._delete_one(step.value)
            case "process":
                if self.act is None:
                    raise LabError("the processes of this cluster cannot be reached from here")
                self.act(step.value)
            case "expect":
                self._await(step.value)
            case "expect-count":
                self._await_count(step.value)
            case "measure":
                return self._measure(step.value)
            case "measure-memory":
                return self._measure_memory(step.value)
            case "metric":
                return self._await_metric(step.value)
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
            pod = self._pod(name)
            if pod and (pod.get("status") or {}).get("phase") == step.phase:
                self.client.delete(_pod_path(name))
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

    def _pod(self, text: str) -> Pod | None:
        try:
            return self.client.get(_pod_path(text))
        except NotFound:
            return None

    def _await(self, expect: Expect) -> None:
        missing = self._missing(expect)
        deadline = time.monotonic() + expect.within_seconds
        while missing and time.monotonic() < deadline:
            time.sleep(0.1)
            missing = self._missing(expect)
        if missing:
            raise LabError(f"after {expect.within_seconds:g} s: {missing}")

    def _missing(self, expect: Expect) -> str:
        """What is not yet as expected; empty when all is."""
        pod = self._pod(expect.pod)
        if pod is None or expect.gone:
            return ("" if expect.gone else "it does not exist") if pod is None else "it is still there"
        status, node = pod.get("status") or {}, pod["spec"].get("nodeName")
        phase, text = status.get("phase"), told(pod)
        shares = shares_of(pod)
        restarts = max((c.get("restartCount", 0) for c in status.get("containerStatuses") or ()), default=0)
        checks = (
            (not expect.phase or phase in expect.phase, f"phase is {phase} ({text or 'no reason given'})"),
            (not expect.node or node in expect.node, f"node is {node or 'none'} ({text})"),
            (not expect.unbound or (not node and bool(text)), f"bound to {node}" if node else "not told why it waits"),
            (expect.message.lower() in text.lower(), f"told {text!r}"),
            (expect.shares is None or matches(expect.shares, shares), f"shares are {json.dumps(list(shares))}"),
            (restarts >= expect.restarts_at_least, f"restarted {restarts} times"),
        )
        for holds, otherwise in checks:
            if not holds:
                return otherwise
        return (
            self._missing_devices(expect, shares)
            or self._missing_env(expect, pod, shares)
            or self._missing_log(expect, pod, shares)
        )

    def _missing_devices(self, expect: Expect, shares: tuple[dict[str, Any], ...]) -> str:
        own = {share["uuid"] for share in shares}
        for other, together in ((expect.same_device_as, True), (expect.other_device_than, False)):
            if not other:
                continue
            neighbour = self._pod(other)
            theirs = {share["uuid"] for share in shares_of(neighbour)} if neighbour else set()
            if bool(own & theirs) is not together:
                return f"its devices are {sorted(own)}, those of {other} {sorted(theirs)}"
        return ""

    def _missing_env(self, expect: Expect, pod: Pod, shares: tuple[dict[str, Any], ...]) -> str:
        if not expect.env or self.env_of is None:
            return ""
        container = _first_container(pod, shares)
        env = self.env_of(pod, container)
        wrong = {name: env.get(name) for name, value in expect.env.items() if env.get(name) != value}
        return f"container {container} has {wrong}" if wrong else ""

    def _missing_log(self, expect: Expect, pod: Pod, shares: tuple[dict[str, Any], ...]) -> str:
        if not expect.log:
            return ""
        container = _first_container(pod, shares)
        try:
            text = self.client.text(f"{_pod_path(expect.pod)}/log", {"container": container})
        except ApiError as problem:
            return f"its log cannot be read: {problem}"
        last = text.strip().splitlines()[-1:] or ["nothing"]
        return "" if expect.log.lower() in text.lower() else f"container {container} wrote, at last: {last[0]}"

    def _measure(self, measure: Measure) -> str:
        simulator, tags = self._simulated(tuple(measure.cores))
        deadline = time.monotonic() + measure.within_seconds
        while True:
            got = look_for(simulator, tags, measure.seconds)
            text = ", ".join(f"{pod} {share:.1f} %" for pod, share in got.items())
            off = [pod for pod, wanted in measure.cores.items() if abs(got[pod] - wanted) > measure.tolerance]
            if not off:
                return f"measured over {measure.seconds:g} s: {text} of the device's time"
            if time.monotonic() > deadline:
                wanted = ", ".join(f"{pod} {share:g}" for pod, share in measure.cores.items())
                raise LabError(f"{text} of the device's time; expected {wanted}, within {measure.tolerance:g} points")

    def _measure_memory(self, measure: MeasureMemory) -> str:
        simulator, tags = self._simulated((measure.pod,))
        peak = simulator.use(tags.values())[tags[measure.pod]].peak_bytes / MIB
        if not measure.memory_mib_at_least <= peak <= measure.memory_mib_at_most:
            expected = f"{measure.memory_mib_at_least} to {measure.memory_mib_at_most} MiB"
            raise LabError(f"{measure.pod} held {peak:.0f} MiB at most; expected {expected}")
        return f"measured: {measure.pod} never held more than {peak:.0f} MiB"

    def _await_metric(self, metric: Metric) -> str:
        if self.scrape is None:
            raise LabError("the monitors of this cluster cannot be reached from here")
        deadline = time.monotonic() + metric.within_seconds
        while True:
            value = value_of(self.scrape(metric.node), metric.name, metric.labels)
            if metric.absent if value is None else _within(value, metric):
                return describe_metric(metric) + (" is not shown" if value is None else f" is {value:g}")
            if time.monotonic() > deadline:
                shown = "it is not shown" if value is None else f"it is {value:g}"
                raise LabError(f"after {metric.within_seconds:g} s: {shown}")
            time.sleep(0.2)

    def _simulated(self, names: tuple[str, ...]) -> tuple[Simulator, dict[str, str]]:
        """The simulator of the node that these pods run on, and its names of their containers."""
        pods = {name: self._pod(name) for name in names}
        nodes = {pod["spec"].get("nodeName", "") if pod else "" for pod in pods.values()}
        simulator = self.simulator_of(nodes.pop()) if self.simulator_of and len(nodes) == 1 else None
        if simulator is None:
            raise LabError(f"{', '.join(names)}: expected pods on one node with simulated devices")
        tags = {
            name: container_tag(*split_name(name), _first_container(pod, shares_of(pod)))
            for name, pod in pods.items()
            if pod is not None
        }
        return simulator, tags

    def _await_count(self, expect: ExpectCount) -> None:
        deadline = time.monotonic() + expect.within_seconds
        since: float | None = None
        count = -1
        while time.monotonic() < deadline:
            pods = [pod for name in expect.pods if (pod := self._pod(name))]
            count = sum((pod.get("status") or {}).get("phase") == expect.phase for pod in pods)
            since = (since or time.monotonic()) if count == expect.exactly else None
            if since is not None and time.monotonic() - since >= expect.settled_seconds:
                return
            time.sleep(0.1)
        raise LabError(f"after {expect.within_seconds:g} s: {count} of {len(expect.pods)} are {expect.phase}")


def describe(step: Step) -> str:
    """One line that says what a step does or expects."""
    value = step.value
    match step.kind:
        case "object":
            return f"create {value['kind']} {value['metadata']['name']}"
        case "refused":
            return f"{value.object['kind']} {value.object['metadata']['name']} is refused"
        case "delete":
            return f"delete pod {value}"
        case "delete-one":
            return f"delete the one of {', '.join(value.pods)} that is {value.phase}"
        case "process":
            return f"{value.action} {value.program}" + (f" of {value.node}" if value.node else "")
        case "expect":
            wanted = value.model_dump(by_alias=True, exclude_defaults=True, exclude={"pod", "within_seconds"})
            return f"expect {value.pod}: " + ", ".join(f"{k} {_short(v)}" for k, v in wanted.items())
        case "expect-count":
            return f"expect {value.exactly} of {len(value.pods)} pods {value.phase}"
        case "measure":
            return "measure " + ", ".join(f"{pod} at {share:g} %" for pod, share in value.cores.items())
        case "metric":
            return f"expect of the monitor of {value.node}: {describe_metric(value)}"
        case "measure-memory":
            return f"measure that {value.pod} holds at most {value.memory_mib_at_most} MiB"
        case _:
            return str(value)


def _within(value: float, metric: Metric) -> bool:
    low, high = metric.at_least, metric.at_most
    return not metric.absent and (low is None or value >= low) and (high is None or value <= high)


def describe_metric(metric: Metric) -> str:
    """The series as Prometheus writes it."""
    labels = ", ".join(f'{name}="{value}"' for name, value in metric.labels.items())
    return metric.name + (f"{{{labels}}}" if labels else "")


def _first_container(pod: Pod, shares: tuple[dict[str, Any], ...]) -> str:
    """The first container that holds a device, or simply the first."""
    return str(shares[0]["container"] if shares else pod["spec"]["containers"][0]["name"])


def shares_of(pod: Pod) -> tuple[dict[str, Any], ...]:
    """The shares that a pod's native record states; empty when it has none."""
    text = (pod["metadata"].get("annotations") or {}).get(RECORD)
    return tuple(json.loads(text)) if text else ()


def told(pod: Pod) -> str:
    """What the pod's status says of why it is not running."""
    status = pod.get("status") or {}
    waiting = [
        (c.get("state") or {}).get("waiting") or {}
        for c in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    ]
    texts = [f"{w.get('reason', '')}: {w.get('message', '')}".strip(": ") for w in waiting if w]
    if status.get("message") or status.get("reason"):
        texts.insert(0, f"{status.get('reason', '')}: {status.get('message', '')}".strip(": "))
    conditions = status.get("conditions") or ()
    texts += [c["message"] for c in conditions if c.get("status") == "False" and c.get("message")]
    return "; ".join(dict.fromkeys(texts))


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " or ".join(_short(v) for v in value) if all(isinstance(v, str) for v in value) else json.dumps(value)
    return value if isinstance(value, str) else json.dumps(value)


def _pod_path(text: str) -> str:
    namespace, name = split_name(text)
    return join_path("api", "v1", "namespaces", namespace, "pods", name)


def _group_path(version: str) -> str:
    return join_path("apis", *version.split("/")) if "/" in version else join_path("api", version)
