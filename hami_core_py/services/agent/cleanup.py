"""Taking away what ended containers have left, and telling about those that can never start again.

Two witnesses are needed: the kubelet's checkpoint lacks the name, *and* the API server knows the pod no more while nothing
mounts the directory. One alone may be wrong: a checkpoint can be lost while its pods run on. Where it cannot be known what is
mounted, both must agree for a while.
"""

import logging
import time
from collections.abc import Callable

from hami_core_py.cluster.events import About, Events
from hami_core_py.services.agent.checkpoints import Checkpoints
from hami_core_py.services.agent.granting import Granter
from hami_core_py.services.agent.holdings import Holding, Holdings
from hami_core_py.services.agent.mounts import Mounts
from hami_core_py.services.agent.pods import LocalPods

log = logging.getLogger(__name__)

UNUSED_SECONDS = 600.0
"""A name whose container never started, or that may be mounted for all we know, is kept this long after it was forgotten."""


class CleanUp:
    """Goes over all names; call ``sweep`` now and then."""

    def __init__(
        self,
        holdings: Holdings,
        checkpoints: Checkpoints,
        pods: LocalPods,
        granter: Granter,
        mounts: Mounts,
        *,
        events: Events | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._holdings, self._checkpoints, self._pods = holdings, checkpoints, pods
        self._granter, self._mounts, self._events, self._now = granter, mounts, events, now
        self._told: set[str] = set()
        self._missed: set[str] = set()
        self._over_since: dict[str, float] = {}

    def sweep(self) -> tuple[str, ...]:
        """Remove what nobody can need any more. :returns: the names removed."""
        known = self._checkpoints.known()
        if known is None or not self._pods.is_complete:
            return ()
        holdings = self._holdings.all()
        named = {(h.pod.uid, h.container, h.family) for h in holdings if h.pod is not None and h.name in known.names}
        removed = []
        missed: set[str] = set()
        over: dict[str, float] = {}
        for holding in holdings:
            uid = holding.pod.uid if holding.pod is not None else ""
            is_mounted = self._mounts.has(holding.name)
            if known.has(holding.name, uid, holding.container) or is_mounted:
                continue
            if self._is_over(holding):
                over[holding.name] = self._over_since.get(holding.name, self._now())
                if is_mounted is None and self._now() - over[holding.name] < UNUSED_SECONDS:
                    continue
                self._granter.remove_spec(holding.family, holding.name)
                self._holdings.remove(holding.name)
                removed.append(holding.name)
            elif (uid, holding.container, holding.family) not in named:
                missed.add(holding.name)
                # Not at first sight: the kubelet writes its checkpoint a moment after Allocate.
                if holding.name in self._missed:
                    self._tell(holding)
        self._missed, self._over_since = missed, over
        for name in self._holdings.stray_directories():
            if name not in known.names and not self._mounts.has(name) and self._is_old(name):
                self._holdings.remove(name)
                removed.append(name)
        if removed:
            log.info("names removed", extra={"names": removed})
        return tuple(removed)

    def _is_over(self, holding: Holding) -> bool:
        if holding.pod is None:
            return self._now() - holding.at > UNUSED_SECONDS
        return self._pods.is_gone(holding.pod.uid)

    def _is_old(self, name: str) -> bool:
        try:
            changed = self._holdings.directory(name).stat().st_mtime
        except FileNotFoundError:
            return False
        return self._now() - changed > UNUSED_SECONDS

    def _tell(self, holding: Holding) -> None:
        """The pod lives, but the kubelet has forgotten its devices: its container runs on and can never start again."""
        pod = holding.pod
        if pod is None or holding.name in self._told:
            return
        local = self._pods.known(pod.uid)
        if local is None or local.has_ended or local.view.terminating:
            return
        self._told.add(holding.name)
        message = (
            f"container {holding.container!r}: the kubelet has lost its record of this container's devices; the container "
            "runs on but cannot start again: delete the pod"
        )
        log.warning("kubelet lost a container", extra={"pod_uid": pod.uid, "container": holding.container})
        if self._events is not None:
            self._events.say(About("Pod", pod.name, pod.namespace, pod.uid), "Warning", "DevicesForgotten", message)
