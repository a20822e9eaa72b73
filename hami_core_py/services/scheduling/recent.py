"""Pods of recent filters: score and bind follow within moments and need not read them again."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from hami_core_py.decisions.requests import read_pod_request
from hami_core_py.errors import BackendError
from hami_core_py.hooks.ask import Ask
from hami_core_py.models.requests import PodRequest, Policies
from hami_core_py.models.views import PodView, pod_view
from hami_core_py.services.intake.pods import scheduled_condition

REMEMBERED = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A pod as kube-scheduler showed it, and what it asks.

    :ivar version: its resource version. :ivar condition: see ``scheduled_condition``.
    :ivar has_claims: whether it mounts volume claims, which kube-scheduler may bind first.
    """

    pod: PodView
    request: PodRequest
    version: str = ""
    condition: str = ""
    has_claims: bool = False


class Recent:
    """Reads pods and remembers the last ones. Safe for threads."""

    def __init__(self, ask: Ask, defaults: Policies) -> None:
        self._ask, self._defaults = ask, defaults
        self._lock = Lock()
        self._asked: OrderedDict[str, Asked] = OrderedDict()

    def read(self, pod: Mapping[str, Any]) -> Asked:
        """A pod object of the API (decoded JSON).

        :raises RequestError: it asks for something that cannot be read or granted.
        :raises BackendError: a backend failed to read what it asks.
        """
        metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
        uid, version = metadata.get("uid") or "", metadata.get("resourceVersion") or ""
        known = self._asked.get(uid)
        if known is not None and version and known.version == version:
            return known
        view = pod_view(pod)
        request = read_pod_request(view, self._ask, self._defaults)
        if not request.families:
            self._check_complete()
        asked = Asked(
            pod=view,
            request=request,
            version=version,
            condition=scheduled_condition((pod.get("status") or {}).get("conditions") or ()),
            has_claims=any("persistentVolumeClaim" in v or "ephemeral" in v for v in spec.get("volumes") or ()),
        )
        if uid:
            with self._lock:
                self._asked[uid] = asked
                self._asked.move_to_end(uid)
                while len(self._asked) > REMEMBERED:
                    self._asked.popitem(last=False)
        return asked

    def _check_complete(self) -> None:
        """kube-scheduler shows us pods that ask for a device. One that seems to ask for none asks a backend we lack, and
        would be bound without a record.

        :raises BackendError: a backend did not load.
        """
        for name, why in self._ask.missing.items():
            raise BackendError(name, "", f"did not load, so that its pods cannot be told from others: {why}")

    def get(self, uid: str) -> Asked | None:
        """A pod that was read recently."""
        return self._asked.get(uid)

    def forget(self, uid: str) -> None:
        """The pod is bound or gone."""
        with self._lock:
            self._asked.pop(uid, None)
