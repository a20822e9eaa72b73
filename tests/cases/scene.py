"""Nodes and pods of the cases as the API shows them, judged by the installed NVIDIA backend."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

import hami_backend_nvidia.plugin as nvidia

from hami_core_py.codecs.policies import DEVICE_POLICY
from hami_core_py.decisions.admission import PodWrite, Rules, Verdict, admit
from hami_core_py.hooks.ask import Ask
from hami_core_py.hooks.manager import load_backends
from hami_core_py.models.requests import Policies
from hami_core_py.models.views import pod_view
from hami_core_py.services.snapshot import Explanation, Snapshot
from hami_core_py.services.tables import CoreDefaults

Json = dict[str, Any]

GPU, MEMORY, PERCENT, CORES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
)
ALLOCATED = "hami.io/vgpu-devices-allocated"


@cache
def ask_of(*plugins: tuple[str, ModuleType]) -> Ask:
    """The façade over these backends; without any, over NVIDIA's."""
    return Ask(load_backends(plugins=list(plugins) or [("nvidia", nvidia)], defaults=CoreDefaults()))


def card(name: str, memory_mib: int = 16000, *, split: int = 10, numa: int = 0, model: str = "", **more: Any) -> Json:
    """One card of the register annotation of v2.10."""
    model = model or "NVIDIA-Tesla T4"
    return {
        "id": name,
        "count": split,
        "devmem": memory_mib,
        "devcore": 100,
        "type": model,
        "numa": numa,
        "health": True,
    } | more


def node(*cards: Json, name: str = "n1", **annotations: str) -> Json:
    """A node under a plugin of v2.10, which numbers its cards in the order given."""
    register = json.dumps([{"index": index} | one for index, one in enumerate(cards)])
    texts = {"hami.io/node-nvidia-register": register} | {k.replace("__", "/"): v for k, v in annotations.items()}
    return {"metadata": {"name": name, "annotations": texts}, "status": {"allocatable": {GPU: "20"}}}


def container(name: str = "main", *, privileged: bool = False, **limits: Any) -> Json:
    """A container; limits by ``gpu``, ``mem``, ``percent`` and ``cores``."""
    names = {"gpu": GPU, "mem": MEMORY, "percent": PERCENT, "cores": CORES}
    made: Json = {"name": name, "resources": {"limits": {names[key]: str(value) for key, value in limits.items()}}}
    return made | ({"securityContext": {"privileged": True}} if privileged else {})


def pod(
    *containers: Json, init: Sequence[Json] = (), annotations: Mapping[str, str] | None = None, **spec: Any
) -> Json:
    """A pod; fields of its spec by name."""
    name = spec.pop("name", "train")
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "annotations": dict(annotations or {})},
        "spec": {"containers": list(containers), "initContainers": list(init)} | spec,
    }


def with_policy(asked: Json, policy: str) -> Json:
    """The same pod under a device policy."""
    asked["metadata"]["annotations"][DEVICE_POLICY] = policy
    return asked


def created(asked: Json, *, ask: Ask | None = None, rules: Rules | None = None, namespace: str = "ml") -> Verdict:
    """What the webhook says at the pod's creation."""
    write = PodWrite(pod=asked, namespace=namespace)
    return admit(write, ask or ask_of(), rules or Rules(scheduler_name="hami-scheduler"))


def limits(verdict: Verdict, index: int = 0) -> Mapping[str, Any]:
    """Limits of a container after admission."""
    found: Mapping[str, Any] = verdict.pod["spec"]["containers"][index]["resources"]["limits"]
    return found


class Cluster:
    """Nodes, and pods that are bound one after the other where they fit."""

    def __init__(self, *nodes: Json, ask: Ask | None = None) -> None:
        self.nodes, self.pods, self.ask = nodes, list[Json](), ask or ask_of()

    def explain(self, asked: Json) -> Explanation:
        """Where a pod would go, after a restart: everything is known from annotations alone."""
        snapshot = Snapshot(self.nodes, self.pods, self.ask, policies=Policies(node="binpack", device=("spread",)))
        return snapshot.explain(pod_view(asked))

    def bind(self, asked: Json) -> Mapping[str, str]:
        """Bind a pod; its annotations."""
        found = self.explain(asked)
        assert found.placement is not None, found.nodes
        record = dict(found.annotations)
        asked["metadata"]["annotations"] |= record
        asked["spec"]["nodeName"] = found.placement.node
        self.pods.append(asked)
        return record

    def cards(self, asked: Json) -> list[list[str]]:
        """Ids of the cards of each container."""
        found = self.explain(asked)
        assert found.placement is not None, found.nodes
        return [[device.id for device, _ in one.pairs] for one in found.placement.containers]

    def refusals(self, asked: Json) -> dict[str | None, str]:
        """Card → the rule that struck it, of a pod that fits nowhere; ``None`` stands for the node."""
        found = self.explain(asked)
        assert found.placement is None, found.placement
        return {refusal.device: refusal.reason.value for one in found.nodes for refusal in one.refusals}

    def usage(self) -> dict[str, tuple[int, int, int]]:
        """Card → memory, core units and slots in use."""
        snapshot = Snapshot(self.nodes, self.pods, self.ask, policies=Policies())
        return {device.id: (used.memory_mib, used.core_units, used.slots) for _, device, used in snapshot.devices()}
