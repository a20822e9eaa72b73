"""Pods of the tests: what they ask, what became of them, and what their records say."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hami_core_py.cluster.client import Client, join_path
from hami_core_py.cluster.errors import AlreadyExists, NotFound
from hami_core_py.lab.pod_facts import shares_of, told
from tests.cluster.daemons import PATIENCE_SECONDS, eventually

COUNT, MEMORY, PERCENT, CORES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
)
NAMESPACE = "default"
Pod = Mapping[str, Any]

__all__ = ["CORES", "COUNT", "MEMORY", "PERCENT", "Pods", "container", "gpu", "pod", "shares_of", "told"]


def gpu(count: int = 1, memory_mib: int | None = None, cores: int | None = None, **others: str) -> dict[str, str]:
    """Limits that ask for devices; ``others`` are ordinary resources."""
    asked = {COUNT: count, MEMORY: memory_mib, CORES: cores}
    return {key: str(amount) for key, amount in asked.items() if amount is not None} | others


def container(name: str = "main", limits: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """One container."""
    return {"name": name, "image": "busybox:1.35", "resources": {"limits": dict(limits or {})}, **fields}


def pod(
    name: str,
    limits: Mapping[str, str] | None = None,
    *,
    containers: Sequence[Mapping[str, Any]] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod of one container with these limits, or of several."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": dict(annotations or {}), "labels": dict(labels or {})},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": list(containers or [container(limits=limits)]),
            **spec,
        },
    }


class Pods:
    """The pods of one namespace."""

    def __init__(self, client: Client, namespace: str = NAMESPACE) -> None:
        self.client, self.namespace = client, namespace
        self._collection = join_path("api", "v1", "namespaces", namespace, "pods")

    def path(self, name: str) -> str:
        """Path of one."""
        return f"{self._collection}/{name}"

    def create(self, body: Mapping[str, Any]) -> Pod:
        """Create one, in place of one that an earlier attempt of the test has left; as it was stored."""
        try:
            return self.client.create(self._collection, body)
        except AlreadyExists:
            self.delete(body["metadata"]["name"])
            return self.client.create(self._collection, body)

    def create_all(self, bodies: Sequence[Mapping[str, Any]], threads: int = 8) -> None:
        """Create many at the same time."""
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(self.create, bodies))

    def get(self, name: str) -> Pod:
        """One as it is now."""
        return self.client.get(self.path(name))

    def all(self) -> list[dict[str, Any]]:
        """All of them."""
        return self.client.list(self._collection)[0]

    def bound(self, name: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until one is bound; its node."""

        def probe() -> str:
            node = self.get(name)["spec"].get("nodeName")
            return str(node) if node else ""

        try:
            return eventually(f"pod {name} bound", probe, seconds)
        except AssertionError as problem:
            raise AssertionError(f"{problem}; told {told(self.get(name))!r}") from problem

    def refused(self, name: str, *words: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until one is told why it waits, with these words; the text."""

        def probe() -> str:
            text = told(self.get(name))
            return text if text and all(word in text for word in words) else ""

        try:
            return eventually(f"pod {name} refused with {words}", probe, seconds)
        except AssertionError as problem:
            raise AssertionError(f"{problem}; told {told(self.get(name))!r}") from problem

    def in_phase(self, name: str, phase: str = "Running", seconds: float = PATIENCE_SECONDS) -> Pod:
        """Wait until one is in a phase; as it is then."""

        def probe() -> Pod | None:
            found = self.get(name)
            return found if found["status"]["phase"] == phase else None

        try:
            found = eventually(f"pod {name} {phase}", probe, seconds)
        except AssertionError as problem:
            last = self.get(name)
            raise AssertionError(f"{problem}; it is {last['status']['phase']}, told {told(last)!r}") from problem
        assert found is not None
        return found

    def delete(self, name: str) -> None:
        """Delete one and wait until it is gone; nothing when there is none."""
        try:
            self.client.delete(self.path(name), {"gracePeriodSeconds": 0})
        except NotFound:
            return
        eventually(f"pod {name} gone", lambda: self.is_gone(name))

    def is_gone(self, name: str) -> bool:
        """Whether there is none of that name."""
        try:
            self.get(name)
        except NotFound:
            return True
        return False

    def clear(self) -> None:
        """Delete all and wait until they are gone."""
        self.client.delete(self._collection, {"gracePeriodSeconds": 0})
        eventually("no pods", lambda: not self.all())
