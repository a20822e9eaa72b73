"""The scheduler's side of the extender protocol, v1."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from hami_core_py.errors import HamiError


class ExtenderError(HamiError):
    """The extender could not be asked, or answered an error."""


@dataclass(frozen=True, kw_only=True)
class ExtenderConfig:
    """What kube-scheduler's configuration says of an extender.

    :ivar managed: resources whose pods are sent to it. :ivar ignored: those of them that the scheduler itself leaves out.
    """

    url: str
    managed: frozenset[str]
    ignored: frozenset[str] = frozenset()
    timeout_seconds: float = 5.0


@dataclass(frozen=True)
class Filtered:
    """The answer to filter: nodes that fit, and why the others do not; the last would not fit after evictions either."""

    nodes: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class Extender:
    """Calls one extender over kept connections."""

    def __init__(self, config: ExtenderConfig) -> None:
        self.config = config
        self._http = httpx.Client(base_url=config.url, timeout=config.timeout_seconds)

    def filter(self, pod: Mapping[str, Any], nodes: Sequence[str]) -> Filtered:
        """Which of these nodes can hold the pod. :raises ExtenderError: no usable answer."""
        answer = self._post("filter", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
        if answer.get("Error"):
            raise ExtenderError(f"extender filter: {answer['Error']}")
        unresolvable = answer.get("FailedAndUnresolvableNodes") or {}
        return Filtered(tuple(answer.get("NodeNames") or ()), answer.get("FailedNodes") or {}, unresolvable)

    def prioritize(self, pod: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, int]:
        """Score of each node, 0–10. :raises ExtenderError: no usable answer."""
        answer = self._post("score", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})
        return {entry["Host"]: int(entry["Score"]) for entry in answer or ()}

    def preempt(
        self, pod: Mapping[str, Any], victims: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> dict[str, list[str]]:
        """Node → UIDs of the victims that would really help. :raises ExtenderError: no usable answer."""
        meta = {
            node: {"Pods": [{"UID": v["metadata"]["uid"]} for v in pods], "NumPDBViolations": 0}
            for node, pods in victims.items()
        }
        body = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": meta}
        kept = self._post("preempt", body).get("NodeNameToMetaVictims") or {}
        return {node: [p["UID"] for p in victim.get("Pods") or ()] for node, victim in kept.items()}

    def bind(self, pod: Mapping[str, Any], node: str) -> None:
        """Let the extender bind. :raises ExtenderError: it did not, or its answer was lost."""
        metadata = pod["metadata"]
        answer = self._post(
            "bind",
            {
                "PodName": metadata["name"],
                "PodNamespace": metadata["namespace"],
                "PodUID": metadata["uid"],
                "Node": node,
            },
        )
        if answer.get("Error"):
            raise ExtenderError(f"extender bind: {answer['Error']}")

    def close(self) -> None:
        """Close the kept connections."""
        self._http.close()

    def _post(self, verb: str, body: Mapping[str, Any]) -> Any:
        try:
            response = self._http.post(f"/{verb}", json=body)
            response.raise_for_status()
            return response.json()
        except (httpx.HTTPError, ValueError) as problem:
            raise ExtenderError(f"extender {verb}: {problem}") from problem
