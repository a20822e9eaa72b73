"""What a pod object of the API says: its shares, why it does not run, and whether it is as expected."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hami_core_py.cluster.client import join_path
from hami_core_py.codecs.native import RECORD
from hami_core_py.lab.steps import ExpectedShare

Pod = Mapping[str, Any]


def split_name(text: str) -> tuple[str, str]:
    """``namespace/name`` or ``name`` → namespace and name."""
    namespace, _, name = text.rpartition("/")
    return namespace or "default", name


def pod_path(text: str) -> str:
    """Path at the API server of ``namespace/name`` or ``name``."""
    namespace, name = split_name(text)
    return join_path("api", "v1", "namespaces", namespace, "pods", name)


def first_container(pod: Pod, shares: tuple[dict[str, Any], ...]) -> str:
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


def matches(expected: Sequence[ExpectedShare], shares: Sequence[Mapping[str, Any]]) -> bool:
    """Whether shares (native record objects) and expected shares pair up one to one."""
    left = list(shares)
    for want in expected:
        fields = {"container": want.container, "uuid": want.device, "memory": want.memory_mib, "cores": want.core_units}
        found = next((s for s in left if all(s.get(k) == v for k, v in fields.items() if v is not None)), None)
        if found is None:
            return False
        left.remove(found)
    return not left
